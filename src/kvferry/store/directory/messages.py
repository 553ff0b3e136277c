"""What nodes and users say to a directory. Every request has an answer.

request   answer    who    meaning
Enroll    Enrolled  node   it is there; all that it told before is void
Beat      Heard     node   it still is
Report    Heard     node   what came and what went, numbered
Leave     Heard     node   it takes nothing in any more, or has ended
Lookup    Placed    user   which nodes have keys
Choose    Placed    both   which others should have keys beside one that has them
Look      Looked    all    figures
any       Led                this directory does not lead

Columns are those of the store's messages; places are PLACES numbers of nodes (u16) a key, 0: none.
Which node it is that asks says its epoch, which its engine has proved.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...errors import PeerError, UsageError
from ..answers import Digests
from ..messages import Column, Span, digests_in

__all__ = [
    "CHOICES",
    "MOST",
    "REMOVED",
    "SERVICE",
    "VERSION",
    "Again",
    "Beat",
    "Choose",
    "Enroll",
    "Enrolled",
    "Heard",
    "Leave",
    "Led",
    "Look",
    "Looked",
    "Lookup",
    "Order",
    "Placed",
    "Places",
    "Reply",
    "Report",
    "Request",
    "Where",
    "decode_reply",
    "decode_request",
    "encode",
    "few_digests_in",
    "held_in",
    "places_in",
    "rows_in",
]

SERVICE = "directory"

# Raised when a message changes its meaning.
VERSION = 2

MOST = 1 << 16  # keys of one message
REMOVED = 255  # in the column `wanted` of a report
CHOICES = 4096  # keys of one Choose

Places: TypeAlias = NDArray[np.uint16]  # (n, PLACES)
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Short = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Where(msgspec.Struct, frozen=True):
    """A node: one life of it, and where it is reached."""

    epoch: int
    address: str


class Enroll(msgspec.Struct, frozen=True, tag="enroll"):
    """began      ns since 1970, when this life of the node began
    address    where others reach it, which names it over all its lives
    domain     nodes of one domain fail together
    capacity   bytes of its pool, `free` of them are
    keys       that it has at most
    """

    version: int
    began: Count
    address: Short
    domain: Short
    capacity: Count
    free: Count
    keys: Count


class Enrolled(msgspec.Struct, frozen=True, tag="enrolled"):
    """number  of the node, until it enrolls again or is dead
    beat    within which it should be heard of
    keys    that the directory will remember of it
    """

    term: int
    number: int
    beat: Span
    keys: int


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """room: for so many keys it takes orders."""

    term: int
    free: Count
    room: Count


class Report(msgspec.Struct, frozen=True, tag="report"):
    """seq     0, 1, ... since it enrolled
    whole   all that was there when it enrolled has been told with this
    wanted  u8: the key is here, one of so many nodes that should have it; 0: it is here no more;
            REMOVED: nor should it be anywhere else, since somebody removed it
    """

    term: int
    seq: Count
    whole: bool
    digests: Column
    wanted: Column


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """ended: it is not there any more; else it takes nothing in, and what it has is found still."""

    term: int
    ended: bool


class Again(msgspec.Struct, frozen=True, tag="again"):
    """Something was missed, or the directory is another: enroll."""


class Order(msgspec.Struct, frozen=True):
    """Copy what is here of these to another node."""

    to: Where
    digests: Column


class Heard(msgspec.Struct, frozen=True, tag="heard"):
    """void: of a report, digests that were removed while the node was away: it has to drop them."""

    orders: tuple[Order, ...] = ()
    void: Column = b""


class Lookup(msgspec.Struct, frozen=True, tag="lookup"):
    digests: Column


class Choose(msgspec.Struct, frozen=True, tag="choose"):
    """near    epoch of a node that has the keys, or will; 0: none
    copies  how many nodes should have them beside it
    sizes   bytes of each
    """

    near: int
    copies: Annotated[int, msgspec.Meta(ge=0, le=_core.PLACES)]
    digests: Column
    sizes: Column


class Placed(msgspec.Struct, frozen=True, tag="placed"):
    """places of each key: where it is or, of Choose, where else it should go
    held   u8, of Choose: how many others have it by now
    nodes  by number, all that are named
    members  how many nodes there are
    """

    places: Column
    nodes: dict[int, Where]
    members: int
    held: Column = b""


class Look(msgspec.Struct, frozen=True, tag="look"):
    pass


class Looked(msgspec.Struct, frozen=True, tag="looked"):
    figures: dict[str, int]


class Led(msgspec.Struct, frozen=True, tag="led"):
    """leader: its addresses, as far as they are known."""

    leader: tuple[str, ...]


Request: TypeAlias = Enroll | Beat | Report | Leave | Lookup | Choose | Look
Reply: TypeAlias = Enrolled | Heard | Again | Placed | Looked | Led
R = TypeVar("R", Enrolled, Heard, Again, Placed, Looked, Led)

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def encode(message: Request | Reply) -> bytes:
    return _encoder.encode(message)


def decode_request(body: bytes) -> Request:
    """Raises UsageError for what is none."""
    try:
        return _requests.decode(body)
    except msgspec.DecodeError as error:
        raise UsageError(f"not a request to a directory: {error}", cause="protocol") from None


def decode_reply(body: bytes) -> Reply:
    """Raises PeerError for what is none."""
    try:
        return _replies.decode(body)
    except msgspec.DecodeError as error:
        raise PeerError(f"not an answer of a directory: {error}", cause="protocol") from None


def few_digests_in(column: Column, most: int = MOST) -> Digests:
    """Raises UsageError for more than a message may name."""
    digests = digests_in(column)
    if len(digests) > most:
        raise UsageError(f"{len(digests)} keys in one message, {most} at most", cause="protocol")
    return digests


def rows_in(report: Report) -> tuple[Digests, NDArray[np.uint8]]:
    digests, wanted = few_digests_in(report.digests), np.frombuffer(report.wanted, np.uint8)
    if len(wanted) != len(digests):
        raise UsageError("columns of a report do not fit each other", cause="protocol")
    return digests, wanted


def places_in(placed: Placed, count: int) -> Places:
    """Raises PeerError unless there is a row for each of so many keys, of nodes that are named."""
    if len(placed.places) != count * _core.PLACES * 2:
        raise PeerError("a directory answered for other keys", cause="protocol")
    places = np.frombuffer(placed.places, np.uint16).reshape(count, _core.PLACES)
    if not np.isin(places, [0, *placed.nodes]).all():
        raise PeerError("a directory names nodes that it does not tell", cause="protocol")
    return places


def held_in(placed: Placed, count: int) -> NDArray[np.uint8]:
    """Raises PeerError unless there is one for each of so many keys."""
    if len(placed.held) != count:
        raise PeerError("a directory answered for other keys", cause="protocol")
    return np.frombuffer(placed.held, np.uint8)

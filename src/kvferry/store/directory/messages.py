"""What nodes and users say to a directory. Every request has an answer.

request   answer    who    meaning
Enroll    Enrolled  node   it is there; all that it told before is void
Beat      Heard     node   it still is
Report    Heard     node   what came and what went, numbered
Leave     Heard     node   it takes nothing in any more, or has ended
Lookup    Placed    user   which nodes have keys
Choose    Placed    both   which others should have keys beside one that has them
Name      Named     user   what keys are called that it put
List      Listed    user   names, a page of them
Follow    Followed  all    what came and went since
Scan      Scanned   all    what is where, a part of it
Look      Looked    all    figures
Roll      Roster    all    which nodes there are
any       Led                this directory does not lead

Columns are those of the store's messages; places are PLACES numbers of nodes (u16) a key, 0: none.
Which node it is that asks says its epoch, which its engine has proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...errors import PeerError, UsageError
from ..answers import Digests
from ..messages import Column, Span, digests_in

__all__ = [
    "ALONE",
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
    "Follow",
    "Followed",
    "Heard",
    "Leave",
    "Led",
    "List",
    "Listed",
    "Look",
    "Looked",
    "Lookup",
    "Name",
    "Named",
    "Order",
    "Placed",
    "Places",
    "Reply",
    "Report",
    "Request",
    "Roll",
    "Roster",
    "Scan",
    "Scanned",
    "Standing",
    "Texts",
    "Where",
    "decode_reply",
    "decode_request",
    "encode",
    "few_digests_in",
    "held_in",
    "places_in",
    "rows_in",
    "texts_in",
    "texts_of",
]

SERVICE = "directory"

# Raised when a message changes its meaning.
VERSION = 2

MOST = 1 << 16  # keys of one message
ALONE = 1_000_000_000  # ns for which one believes it who was told that there is no other node
REMOVED = 255  # in the column `wanted` of a report
CHOICES = 4096  # keys of one Choose
NAMES = 1024  # keys of one Name
EVENTS = 1 << 13  # of one Followed
BITS = 12  # a part of a Scan is a 2 ** 12th of a shard at least

Places: TypeAlias = NDArray[np.uint16]  # (n, PLACES)
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Space = Annotated[bytes, msgspec.Meta(max_length=64)]
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
    disk       it has one, too
    """

    version: int
    began: Count
    address: Short
    domain: Short
    capacity: Count
    free: Count
    keys: Count
    disk: bool = False


class Enrolled(msgspec.Struct, frozen=True, tag="enrolled"):
    """number  of the node, until it enrolls again or is dead
    beat    within which it should be heard of
    keys    that the directory will remember of it
    after   until nobody believes any more that it is not there
    """

    term: int
    number: int
    beat: Span
    keys: int
    after: Span = 0


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
    """void: of a report, digests that were removed while the node was away: it has to drop them.
    alone: since the node asked, and for ALONE, nobody is there who could ask for what it has."""

    orders: tuple[Order, ...] = ()
    void: Column = b""
    alone: bool = False


class Lookup(msgspec.Struct, frozen=True, tag="lookup"):
    """own: epoch of the node that the user asked first; 0: none."""

    digests: Column
    own: int = 0


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
    members  how many nodes there are, with the one that the user asked first
    """

    places: Column
    nodes: dict[int, Where]
    members: int
    held: Column = b""


class Texts(msgspec.Struct, frozen=True):
    """Names of keys. lengths: u16, bytes of each and one more, 0: it has none; text: all of them.
    A name is UTF-8 where the key is text."""

    lengths: Column = b""
    text: Column = b""


class Name(msgspec.Struct, frozen=True, tag="name"):
    """No keys: what is the term?

    space  which namespace they are of
    fresh  they were put just now, and no node may have told of them yet
    """

    space: Space
    digests: Column
    names: Texts
    fresh: bool


class Named(msgspec.Struct, frozen=True, tag="named"):
    """term: what was told in an earlier one is not known; wanted: names are kept here."""

    term: int
    wanted: bool


class List(msgspec.Struct, frozen=True, tag="list"):
    """after: 0, or what the page before said."""

    space: Space
    after: Count


class Listed(msgspec.Struct, frozen=True, tag="listed"):
    """after: None: there are no more."""

    term: int
    names: Texts
    after: Count | None


class Follow(msgspec.Struct, frozen=True, tag="follow"):
    """Events behind a number of a term."""

    term: int
    after: Count


class Followed(msgspec.Struct, frozen=True, tag="followed"):
    """Events up to number `last`, without a gap; or none, and `gap`: some are not kept any more,
    and what there is has to be scanned, before those behind `last` are asked for.

    kinds  u8; nodes: u16, of `named`: an address and a medium each
    names  of the keys, as far as they are known
    keys   that there are about, from which follows in how many parts to scan
    """

    term: int
    last: Count
    gap: bool
    keys: Count
    kinds: Column = b""
    digests: Column = b""
    nodes: Column = b""
    named: tuple[tuple[str, str], ...] = ()
    names: Texts = Texts()


class Scan(msgspec.Struct, frozen=True, tag="scan"):
    """One of 2 ** bits parts of one of SHARDS shards."""

    shard: Annotated[int, msgspec.Meta(ge=0, lt=_core.SHARDS)]
    bits: Annotated[int, msgspec.Meta(ge=0, le=BITS)]
    part: Annotated[int, msgspec.Meta(ge=0, lt=1 << BITS)]


class Scanned(msgspec.Struct, frozen=True, tag="scanned"):
    """places and `named` by number: those of Followed."""

    term: int
    digests: Column
    places: Column
    named: dict[int, tuple[str, str]]
    names: Texts = Texts()


class Look(msgspec.Struct, frozen=True, tag="look"):
    pass


class Looked(msgspec.Struct, frozen=True, tag="looked"):
    figures: dict[str, int]


class Roll(msgspec.Struct, frozen=True, tag="roll"):
    pass


class Standing(msgspec.Struct, frozen=True):
    """A node, as a directory sees it.

    state     alive, suspect or leaving
    capacity  bytes of its pool, `free` of them are
    keys      that are known to be there, `most` at most
    since     this life of it was first heard of
    heard     it was heard of last
    """

    number: int
    epoch: int
    address: Short
    state: Short
    domain: Short
    capacity: Count
    free: Count
    keys: Count
    most: Count
    since: Span
    heard: Span


class Roster(msgspec.Struct, frozen=True, tag="roster"):
    """page: where the directory shows figures by HTTP; "": nowhere."""

    nodes: tuple[Standing, ...]
    figures: dict[str, int]
    page: str = ""


class Led(msgspec.Struct, frozen=True, tag="led"):
    """leader: its addresses, as far as they are known."""

    leader: tuple[str, ...]


Request: TypeAlias = (
    Enroll | Beat | Report | Leave | Lookup | Choose | Name | List | Follow | Scan | Look | Roll
)
Reply: TypeAlias = (
    Enrolled | Heard | Again | Placed | Named | Listed | Followed | Scanned | Looked | Roster | Led
)
R = TypeVar(
    "R",
    Enrolled,
    Heard,
    Again,
    Placed,
    Named,
    Listed,
    Followed,
    Scanned,
    Looked,
    Roster,
    Led,
)

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


def texts_of(names: Iterable[bytes | None]) -> Texts:
    """Of 65,534 bytes each, at most."""
    told = list(names)
    lengths = np.array([0 if name is None else len(name) + 1 for name in told], np.uint16)
    return Texts(lengths.tobytes(), b"".join(name for name in told if name is not None))


def texts_in(texts: Texts, count: int) -> Sequence[bytes | None]:
    """Raises UsageError unless there is one for each of so many keys."""
    if len(texts.lengths) != 2 * count:
        raise UsageError("there is not one name for each key", cause="protocol")
    lengths = np.frombuffer(texts.lengths, np.uint16).astype(np.int64)
    ends = np.maximum(lengths - 1, 0).cumsum()
    if len(texts.text) != (ends[-1] if count else 0):
        raise UsageError("names do not fit their lengths", cause="protocol")
    begins = [0, *ends.tolist()]
    return [
        texts.text[begin:end] if length else None
        for begin, end, length in zip(begins, ends.tolist(), lengths.tolist(), strict=False)
    ]

"""What users and a node say to each other. Every request has an answer.

request    answer     meaning
Join       Joined     who calls becomes a user; again: once more
Leave      Told       one joining less; the last one gives back all that the user had
Reserve    Extents    places to write into
Commit     Told       what was written there becomes objects
Abort      Told       nothing will be written there any more
Remove     Told
Copy       Told       objects that are here are at another node, too
Locate     Located    where objects lie, and a lease on them; small ones come along
Lease      Leased     objects stay for a while
Renew      Told       a lease lasts longer
Release    Told       leases end
Fetch      Told       what lies on a disk of the node comes into its memory
Keep       Told       pins
Group      Told       objects that are of use only together
Why        Told       causes, not answers
Look       Looked     figures
Settle     Told       the directory has heard of what came and went: FOUND, or LATE
Drain      Told       everything leaves, and nothing comes in

A column is the bytes of an array, one row a key: of words (u64), of answers (u8), or of digests
(2 x u64). Times are spans in nanoseconds, since two hosts have two clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import PeerError, UsageError
from .answers import Answers, Digests
from .table import Ints, Words

__all__ = [
    "COPIES",
    "SERVICE",
    "VERSION",
    "Abort",
    "Commit",
    "Copy",
    "Drain",
    "Extents",
    "Fetch",
    "Flow",
    "Group",
    "Join",
    "Joined",
    "Keep",
    "Lease",
    "Leased",
    "Leave",
    "Locate",
    "Located",
    "Look",
    "Looked",
    "Release",
    "Remove",
    "Renew",
    "Reply",
    "Request",
    "Reserve",
    "Settle",
    "Spots",
    "Told",
    "Why",
    "answers_in",
    "check_rows",
    "column_of",
    "decode_reply",
    "decode_request",
    "digests_in",
    "encode",
    "expect",
    "numbers_in",
    "spots_in",
    "words_in",
]

SERVICE = "store"

# Raised when a message changes its meaning; users and nodes of unequal versions do not talk.
VERSION = 1

COPIES = 256  # keys of one Copy

Span: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Column: TypeAlias = bytes
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
Address: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Rights: TypeAlias = Literal["read", "write"]


class Join(msgspec.Struct, frozen=True, tag="join"):
    """mapped: the user has the node's memory in its address space, and wants its own lines."""

    version: int
    mapped: bool


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """secret   of digests
    stock    bytes that a user should at most have reserved ahead
    lines    bytes of hazard lines in the user's own region; its desk follows them
    entries  of the index
    peers    addresses of other nodes, which may hold what this one has not
    rights   of the user's token
    directory  addresses of those that know which nodes do
    """

    user: int
    epoch: int
    secret: bytes
    pool: int
    stock: int
    lines: int
    entries: int
    longest_lease: Span
    peers: tuple[str, ...]
    rights: Rights = "write"
    directory: tuple[str, ...] = ()


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    user: int


class Reserve(msgspec.Struct, frozen=True, tag="reserve"):
    sizes: Column


class Extents(msgspec.Struct, frozen=True, tag="extents"):
    answers: Column
    attempts: Column
    offsets: Column
    rooms: Column


class Commit(msgspec.Struct, frozen=True, tag="commit"):
    """parents are digests, ttls spans, 0 for ever, attrs words; none: of no key."""

    attempts: Column
    digests: Column
    lengths: Column
    parents: Column | None = None
    ttls: Column | None = None
    attrs: Column | None = None


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    attempts: Column


class Remove(msgspec.Struct, frozen=True, tag="remove"):
    """force: also what a lease keeps. What is being read keeps its bytes in any case."""

    digests: Column
    force: bool = False


class Copy(msgspec.Struct, frozen=True, tag="copy"):
    """STORED or PRESENT at another node then, ABSENT here, or why not."""

    digests: Column
    to: Address


class Locate(msgspec.Struct, frozen=True, tag="locate"):
    """done: tickets of leases that are not needed any more."""

    digests: Column
    lease: Span
    done: Column = b""


class Located(msgspec.Struct, frozen=True, tag="located"):
    """FOUND or ABSENT each. The lease is on what has to be read still; ticket 0: nothing has.

    cargo  the bytes of small objects that were found, one behind the other in the order of the
           keys: as of its columns, see locate.h
    """

    ticket: int
    lease: Span
    answers: Column
    offsets: Column
    lengths: Column
    cargo: bytes


class Lease(msgspec.Struct, frozen=True, tag="lease"):
    digests: Column
    lease: Span


class Leased(msgspec.Struct, frozen=True, tag="leased"):
    """Ticket 0: nothing was found."""

    ticket: int
    lease: Span
    answers: Column


class Renew(msgspec.Struct, frozen=True, tag="renew"):
    ticket: int
    lease: Span


class Release(msgspec.Struct, frozen=True, tag="release"):
    tickets: Column


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """FOUND: in memory; ABSENT; BUSY: to be asked for again; or why there is no room in memory."""

    digests: Column


class Keep(msgspec.Struct, frozen=True, tag="keep"):
    digests: Column
    pin: int


class Group(msgspec.Struct, frozen=True, tag="group"):
    digests: Column


class Why(msgspec.Struct, frozen=True, tag="why"):
    """tenant: whose keys are meant; None: those of whoever asks."""

    digests: Column
    tenant: Name | None = None


class Look(msgspec.Struct, frozen=True, tag="look"):
    pass


class Flow(msgspec.Struct, frozen=True):
    """What one channel of a node moved over one path in one direction, since it was made.

    writes   to the peer; else from there
    seconds  from submission to the last byte, of all transfers together, and of the longest one
    """

    peer: str
    path: str
    writes: bool
    suspected: bool
    transfers: int
    bytes: int
    seconds: float
    longest: float


class Looked(msgspec.Struct, frozen=True, tag="looked"):
    """epoch      of the node
    channels   of its engine, for its own tenant alone
    directory  addresses of those that know of it
    page       where figures are shown by HTTP; "": nowhere
    """

    figures: dict[str, dict[str, int]]
    epoch: int = 0
    channels: tuple[Flow, ...] = ()
    directory: tuple[str, ...] = ()
    page: str = ""


class Settle(msgspec.Struct, frozen=True, tag="settle"):
    """span   to wait for it; the node may answer LATE before
    alone  wait also while nobody is there who could ask for what came
    """

    span: Span
    alone: bool


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    pass


class Told(msgspec.Struct, frozen=True, tag="told"):
    """One answer, or cause, per key; of a request without keys one."""

    answers: Column


Request: TypeAlias = (
    Join
    | Leave
    | Reserve
    | Commit
    | Abort
    | Remove
    | Copy
    | Locate
    | Lease
    | Renew
    | Release
    | Fetch
    | Keep
    | Group
    | Why
    | Look
    | Settle
    | Drain
)
Reply: TypeAlias = Joined | Extents | Located | Leased | Looked | Told
R = TypeVar("R", Joined, Extents, Located, Leased, Looked, Told)

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
        raise UsageError(f"not a request to a store: {error}", cause="protocol") from None


def decode_reply(body: bytes, kind: type[R]) -> R:
    """Raises PeerError for what is none of this kind."""
    try:
        reply = _replies.decode(body)
    except msgspec.DecodeError as error:
        raise PeerError(f"not an answer of a store: {error}", cause="protocol") from None
    return expect(kind, reply)


def expect(kind: type[R], reply: Reply) -> R:
    if not isinstance(reply, kind):
        wrong = type(reply).__name__
        raise PeerError(f"a store answered {wrong}, not {kind.__name__}", cause="protocol")
    return reply


def words_in(*columns: Column) -> Sequence[Words]:
    """Columns of words, all of one length. Raises UsageError for others."""
    sizes = {len(column) for column in columns}
    if len(sizes) > 1 or any(size % 8 for size in sizes):
        raise UsageError("columns of a request do not fit each other", cause="protocol")
    return [np.frombuffer(column, np.uint64) for column in columns]


def numbers_in(*columns: Column) -> Sequence[Ints]:
    """The same for words that stay below 2**63."""
    arrays = [words.view(np.int64) for words in words_in(*columns)]
    if any((array < 0).any() for array in arrays):
        raise UsageError("a number of a request is out of range", cause="protocol")
    return arrays


def digests_in(column: Column) -> Digests:
    if len(column) % 16:
        raise UsageError("a column of digests has a part of one", cause="protocol")
    return np.frombuffer(column, np.uint64).reshape(-1, 2)


def answers_in(column: Column) -> Answers:
    return np.frombuffer(column, np.uint8)


class Spots(NamedTuple):
    """Of each key, from a Located: FOUND, and then where in the pool and of how many bytes, or
    ABSENT. The answers are the caller's to change."""

    answers: Answers
    offsets: Words
    lengths: Words


def spots_in(located: Located, count: int, pool: int) -> Spots:
    """For so many keys, of a pool of so many bytes. Raises PeerError for what cannot be true."""
    answers = np.frombuffer(bytearray(located.answers), np.uint8)
    try:
        offsets, lengths = words_in(located.offsets, located.lengths)
        true = len(answers) == count and _core.sound(
            answers, offsets, lengths, len(located.cargo), pool
        )
    except (UsageError, ValueError):  # of columns that are not equally long
        true = False
    if not true:
        raise PeerError("a store told of places that cannot be", cause="protocol")
    return Spots(answers, offsets, lengths)


def column_of(array: NDArray[np.generic]) -> Column:
    return array.tobytes()


def check_rows(count: int, *columns: NDArray[np.generic]) -> None:
    """Raises PeerError unless an answer has a row for each of so many keys."""
    if any(len(column) != count for column in columns):
        raise PeerError("a store answered for other keys than were asked for", cause="protocol")

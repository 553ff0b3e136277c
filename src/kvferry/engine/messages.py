"""What engines say to each other. Every message is a request and has an answer.

caller            answer              when
Hello             Challenge           first on every connection
Proof             Welcome             second; before it nothing else is answered
ListRegions       Regions             at connect; with the descriptors of its records
Announce          Empty               a region was made; with its descriptors
Revoke            Empty               a region goes; answered when nobody here uses it any more
Call              Result              a service
Notify            Empty
any               Refusal             instead of the answer
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..errors import PeerError
from ..link import Facts
from ..memory import RegionRecord
from ..rpc import MAX_FDS

__all__ = [
    "BEAT",
    "CONTROL",
    "DATA",
    "GIVEN_UP_TOLD",
    "TICKET_SIZE",
    "VERSION",
    "Announce",
    "Call",
    "Challenge",
    "Empty",
    "Hello",
    "ListRegions",
    "Message",
    "Notify",
    "Proof",
    "Refusal",
    "Regions",
    "Result",
    "Revoke",
    "Welcome",
    "decode",
    "encode",
]

# Raised when a message or a frame changes its meaning; engines of unequal versions do not talk.
VERSION = 4

# What a connection is for. After the handshake of one for data or beats no message follows, but
# frames of a link, or a byte 0x4B now and then.
CONTROL = "control"
DATA = "data"
BEAT = "beat"


TICKET_SIZE = 16  # bytes
GIVEN_UP_TOLD = 2048  # fits into a message of one who has not proved anything yet

Ticket = Annotated[bytes, msgspec.Meta(max_length=TICKET_SIZE)]


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    version: int
    purpose: str
    epoch: int
    nonce: bytes


class Challenge(msgspec.Struct, frozen=True, tag="challenge"):
    version: int
    epoch: int
    nonce: bytes


class Proof(msgspec.Struct, frozen=True, tag="proof"):
    """`ticket`, on one for data or beats: that of the control connection it belongs to.

    `given_up`, on one for control: tickets of earlier ones of this epoch that were lost, with bytes
    on their wires perhaps. None of those is placed any more once this one is welcome.
    """

    proof: bytes
    name: str
    facts: Facts
    ticket: Ticket = b""
    given_up: Annotated[list[Ticket], msgspec.Meta(max_length=GIVEN_UP_TOLD)] = []


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """`door` is the name of the abstract unix socket where handles are passed. `ticket` names this
    connection to those for data and beats, which live as long as it."""

    proof: bytes
    name: str
    facts: Facts
    door: bytes
    ticket: Ticket


class ListRegions(msgspec.Struct, frozen=True, tag="list"):
    """Regions with a serial above `after`: own ones over `link`, registered ones over
    `foreign_link`, where there is one."""

    link: str
    foreign_link: str | None
    after: int


class Regions(msgspec.Struct, frozen=True, tag="regions"):
    """The message's descriptors belong to the records in order, `counts[i]` of them to record i.

    `more`: ask again, after the serial `last`.
    """

    records: Annotated[list[RegionRecord], msgspec.Meta(max_length=MAX_FDS)]
    counts: Annotated[list[int], msgspec.Meta(max_length=MAX_FDS)]
    last: int
    more: bool

    def fits(self, after: int, descriptors: int) -> bool:
        """Does it hang together, and lead on from `after`?"""
        return (
            len(self.records) == len(self.counts)
            and all(count >= 0 for count in self.counts)
            and sum(self.counts) == descriptors
            and (self.last > after or not self.more)
        )


class Announce(msgspec.Struct, frozen=True, tag="announce"):
    record: RegionRecord


class Revoke(msgspec.Struct, frozen=True, tag="revoke"):
    serial: int


class Call(msgspec.Struct, frozen=True, tag="call"):
    service: str
    request: bytes


class Result(msgspec.Struct, frozen=True, tag="result"):
    response: bytes


class Notify(msgspec.Struct, frozen=True, tag="notify"):
    name: str
    message: bytes


class Empty(msgspec.Struct, frozen=True, tag="empty"):
    pass


class Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    cause: str
    text: str


Message = (
    Hello
    | Challenge
    | Proof
    | Welcome
    | ListRegions
    | Regions
    | Announce
    | Revoke
    | Call
    | Result
    | Notify
    | Empty
    | Refusal
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """Raises PeerError for anything that is not a whole, well-typed message."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise PeerError(f"not a message: {error}", cause="protocol") from error

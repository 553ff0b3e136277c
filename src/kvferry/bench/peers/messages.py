"""What the bench says to the two processes of a pair, and what they answer: JSON, a line each.

bench                     initiator            target
  |---- Start --------------->|                  |     memory is there, the package is up
  |---- Start ---------------------------------->|     likewise
  |---- Meet ---------------->|                  |     and knows the target
  |---- Load ---------------->|                  |     the calls of a pass are made ready
  |---- Attend --------------------------------->|     it calls the package now and then
  |---- Go ------------------>|=================>|     the pass, timed
  |---- Rest ----------------------------------->|     it sleeps again
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from ..verify import Landing

__all__ = [
    "Answer",
    "Attend",
    "Blocks",
    "Check",
    "Fill",
    "Go",
    "Load",
    "Meet",
    "Poison",
    "Ran",
    "Request",
    "Rest",
    "Start",
    "Started",
]


class Blocks(msgspec.Struct, frozen=True):
    """Equal blocks: number ours[i] of the initiator's side and theirs[i] of the target's.

    base   where block 0 lies in either side, in bytes
    block  bytes
    total  blocks a side has there
    """

    base: int
    block: int
    total: int
    local: bytes  # int64
    remote: bytes  # int64

    @property
    def ours(self) -> npt.NDArray[np.int64]:
        return np.frombuffer(self.local, np.int64)

    @property
    def theirs(self) -> npt.NDArray[np.int64]:
        return np.frombuffer(self.remote, np.int64)


class Start(msgspec.Struct, frozen=True, tag=True):
    """Make a side of so many bytes. Answered by Started."""

    size: int


class Started(msgspec.Struct, frozen=True):
    """How to be met, and where the side begins."""

    card: bytes
    address: int


class Meet(msgspec.Struct, frozen=True, tag=True):
    target: Started


class Attend(msgspec.Struct, frozen=True, tag=True): ...


class Rest(msgspec.Struct, frozen=True, tag=True): ...


class Load(msgspec.Struct, frozen=True, tag=True):
    """What each call of the next pass moves."""

    op: str
    calls: list[list[Blocks]]


class Go(msgspec.Struct, frozen=True, tag=True):
    """Make the calls that were loaded, one after the other. Answered by Ran."""


class Ran(msgspec.Struct, frozen=True):
    """begin, end  nanoseconds of the monotonic clock
    calls       nanoseconds of each
    cpu         seconds of processor time, in all threads
    """

    begin: int
    end: int
    calls: list[int]
    cpu: float


class Fill(msgspec.Struct, frozen=True, tag=True):
    seed: int


class Poison(msgspec.Struct, frozen=True, tag=True): ...


class Check(msgspec.Struct, frozen=True, tag=True):
    """Answered by a Verdict."""

    landings: list[Landing]
    seed: int


Request = Start | Meet | Attend | Load | Go | Rest | Fill | Poison | Check


class Answer(msgspec.Struct, frozen=True):
    """A value, or why there is none; `absent`: because the package cannot be imported."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
    absent: bool = False

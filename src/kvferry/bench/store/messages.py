"""What the bench says to a process that uses a store, and what it answers: JSON, a line each.

bench                     process
  |---- Open ------------->|     a side, and the store
  |---- Fill, Keep ------->|     values of a pattern are put
  |---- Load ------------->|     the calls of a pass are made ready
  |---- Go --------------->|     the pass, timed
  |---- Poison, .., Check->|     what was read is compared
  |---- Drop ------------->|     objects are removed
"""

from __future__ import annotations

import msgspec

from ..peers.messages import Check, Fill, Go, Poison
from .tasks import Op

__all__ = ["Clear", "Drop", "House", "Load", "Open", "Opened", "Ran", "Request"]


class House(msgspec.Struct, frozen=True):
    """Where a store of ours is.

    address  of the node; None: this process becomes one, which listens at all of `listen`
    path     that bytes take to it
    token    the secret of all its processes
    objects  a node has room for; None: as many as it thinks fit
    """

    token: bytes
    address: str | None = None
    path: str = "auto"
    listen: list[str] = []
    objects: int | None = None


class Open(msgspec.Struct, frozen=True, tag=True):
    """Make a side of `size` bytes and use a store, with a pool of `pool` bytes if it is one's own.

    folder  an empty one, for whatever the store needs
    """

    size: int
    pool: int
    folder: str
    house: House | None = None


class Opened(msgspec.Struct, frozen=True):
    """addresses  where a node listens
    pool       (address, bytes) of its pool, of a node of ours
    """

    addresses: list[str] = []
    pool: tuple[int, int] | None = None


class Load(msgspec.Struct, frozen=True, tag=True):
    """Calls of `batch` keys each: object numbers[i], from or to block slots[i] of the side."""

    op: Op
    block: int
    batch: int
    numbers: bytes  # int64
    slots: bytes  # int64


class Drop(msgspec.Struct, frozen=True, tag=True):
    block: int
    numbers: bytes  # int64


class Clear(msgspec.Struct, frozen=True, tag=True):
    """Nothing of anybody is in the store afterwards, or as good as nothing."""

    block: int
    count: int


class Ran(msgspec.Struct, frozen=True):
    """begin, end  nanoseconds of the monotonic clock
    calls       nanoseconds of each
    cpu         seconds of processor time, in all threads
    good        keys that were found, or stored
    """

    begin: int
    end: int
    calls: list[int]
    cpu: float
    good: int


Request = Open | Fill | Poison | Check | Load | Go | Drop | Clear

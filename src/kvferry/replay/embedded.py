"""A store of this process that holds exactly so many blocks."""

from __future__ import annotations

from .. import _core
from ..store import Limits, Store
from ..store.extents import room_of

__all__ = ["embedded", "fill"]

AT_ONCE = 256  # objects
ENTRIES_A_BLOCK = 2  # of the index, in which then nobody stands in another's way


def embedded(policy: str, capacity: int, size: int, longest: int) -> Store:
    """Of `capacity` objects of `size` bytes. The number of entries is the bound, and never bytes:
    what a user has reserved ahead, and writes at the moment, takes bytes and no entry."""
    entries = _whole(ENTRIES_A_BLOCK * capacity)
    limits = Limits(
        high=1.0,
        low=1.0,
        entries_high=(capacity + 0.5) / entries,
        entries_low=(capacity + 0.25) / entries,  # so nobody leaves before somebody comes
        longest_lease=Limits().longest_lease,
    )
    objects = int((entries - 1) * limits.entries_high)
    pool = (capacity + longest + 64) * 9 // 8 * room_of(size)  # a user's stock is a twelfth of it
    return Store(size=max(pool, 1 << 16), policy=policy, objects=objects, limits=limits)


def fill(store: Store, count: int, size: int) -> None:
    """Objects that nobody asks for, until the store is full: from then on each that comes sees
    somebody off, and the order of leaving is that of all calls."""
    nothing = bytes(size)
    for at in range(0, count, AT_ONCE):
        some = range(at, min(at + AT_ONCE, count))
        store.put_batch([f"fill/{number}" for number in some], [nothing] * len(some))


def _whole(entries: int) -> int:
    """As many entries as the index has that is asked for so many."""
    size = _core.index_bytes(entries)
    while _core.index_bytes(entries + 1) == size:
        entries += 1
    return entries

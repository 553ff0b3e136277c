"""What HIXL knows of this process's memory, and which of two sides' ranges a batch touches.

HIXL moves registered memory only, at both ends, and a connection knows what was registered when it
was made: so every range has a number, and so has every connection. It shows the ranges whose number
is not above its own.

numbers   1 ... 4 | 5          | 6    7
          ranges  | connection | ranges that it does not show
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ... import log
from ..._core import Descriptors
from ...errors import ClosedError, Error, UsageError
from ...memory import Region
from ...runtime import Place
from .module import Hixl, Module, translate

__all__ = ["Known", "LocalMemory", "Ranges", "newest", "place_of"]

logger = log.get("kvferry.link")


class Known(NamedTuple):
    """A range that HIXL has registered, here or at a peer.

    since  its number
    """

    base: int
    length: int
    place: Place
    since: int

    def covers(self, low: int, high: int) -> bool:
        return self.base <= low and high <= self.base + self.length


class Ranges:
    """Ranges that do not overlap, by address. Frozen."""

    def __init__(self, ranges: Iterable[Known]) -> None:
        self._ranges = sorted(ranges)
        self._bases = [each.base for each in self._ranges]

    def find(self, low: int, high: int) -> Known | None:
        """The range that holds all of [low, high)."""
        index = bisect_right(self._bases, low) - 1
        found = self._ranges[index] if index >= 0 else None
        return found if found is not None and found.covers(low, high) else None


def newest(d: Descriptors, here: Ranges, there: Ranges, peer: str) -> int:
    """The highest number among the ranges that a batch touches.

    Raises UsageError for local memory that is not registered, and for memory of the host and of a
    device on one side: HIXL takes the first descriptor's for all.
    """
    near, far = here.find(*d.local), there.find(*d.remote)
    if near and far:
        return max(near.since, far.since)
    pairs = [_pair(d, index, here, there, peer) for index in range(len(d))]
    places = [[side.place for side in pair] for pair in pairs]
    for index, each in enumerate(places):
        if each != places[0]:
            raise UsageError(
                "its memory lies on the host and on a device: HIXL takes one of them a batch",
                cause="mixed_places",
                peer=peer,
                index=index,
            )
    return max(side.since for pair in pairs for side in pair)


def _pair(d: Descriptors, index: int, here: Ranges, there: Ranges, peer: str) -> list[Known]:
    local, remote, length = d.row(index)
    near = here.find(local, local + length)
    if near is None:
        raise UsageError(
            "the local side is not registered, and HIXL moves nothing else: allocate it with this "
            "engine, or register it there",
            cause="not_registered",
            peer=peer,
            index=index,
            range=(local, length),
        )
    far = there.find(remote, remote + length)
    assert far is not None, "it was resolved against the regions that are attached"
    return [near, far]


class Registration(NamedTuple):
    """pin  a buffer export: the memory stays as long as HIXL may touch it"""

    known: Known
    handle: int
    pin: memoryview


class LocalMemory:
    """What of the engine's regions HIXL has registered. Thread-safe without a lock: registering the
    same range again gives the same handle, and every change of the table is one step.

    regions  the engine's, by name
    """

    def __init__(self, module: Module, hixl: Hixl, regions: Mapping[str, Region]) -> None:
        self._module = module
        self._hixl = hixl
        self._regions = regions
        self._numbers = itertools.count(1)
        self._known: dict[tuple[int, int], Registration] = {}
        self.ranges = Ranges([])

    def number(self) -> int:
        """For what comes now, a range of a peer or a connection."""
        return next(self._numbers)

    def register(self, region: Region) -> None:
        """Raises ClosedError for a region that is gone, else what HIXL refuses it with."""
        key = (region.address, region.length)
        if self._regions.get(region.name) is not region:
            raise ClosedError(f"{region!r} is not registered", cause="not_registered")
        if key in self._known:
            return
        place = place_of(region)
        pin = memoryview(region)
        desc = self._module.MemDesc(*key)
        code, handle = self._hixl.register_mem(desc, self._kind(place))
        if code:
            pin.release()
            raise translate(f"registering {region!r} with HIXL", code)
        self._known[key] = Registration(Known(*key, place, self.number()), handle, pin)
        self._sort()

    def register_all(self) -> None:
        """Those that were made meanwhile."""
        for region in list(self._regions.values()):
            try:
                self.register(region)
            except (Error, BufferError) as error:  # HIXL does not take it, or it goes just now
                logger.warning("%r is out of reach of HIXL: %s", region, error)
        self._sort()

    def retire(self, region: Region) -> None:
        """The region goes. What HIXL does not let go of stays, and its memory with it, until the
        end or until it does: under FabricMem it does not while anybody is connected."""
        for key, each in list(self._known.items()):
            if key == (region.address, region.length) or not self._lives(key):
                self._deregister(key, each)

    def close(self) -> None:
        """Deregister all. No connection is left."""
        for key, each in list(self._known.items()):
            self._deregister(key, each)

    def let_go(self) -> None:
        """HIXL was finalized: it touches nothing any more."""
        for key in list(self._known):
            self._forget(key)

    def _lives(self, key: tuple[int, int]) -> bool:
        return any((each.address, each.length) == key for each in self._regions.values())

    def _deregister(self, key: tuple[int, int], registration: Registration) -> None:
        code = self._hixl.deregister_mem(registration.handle)
        if code:
            logger.info("%s; its memory stays", translate(f"deregistering {key[0]:#x}", code))
            return
        self._forget(key)

    def _forget(self, key: tuple[int, int]) -> None:
        registration = self._known.pop(key, None)
        self._sort()
        if registration is not None:
            registration.pin.release()

    def _sort(self) -> None:
        self.ranges = Ranges(each.known for each in list(self._known.values()))

    def _kind(self, place: Place) -> Any:
        kinds = self._module.MemType
        return kinds.MEM_DEVICE if place is Place.DEVICE else kinds.MEM_HOST


def place_of(region: Region) -> Place:
    """Where a region's memory lies. A caller's buffer is the host's."""
    place: Place | None = getattr(region.allocation, "place", None)
    return place or Place.HOST

"""An engine's own regions: made, registered, published, taken away."""

from __future__ import annotations

import itertools
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple

from .. import _core, log
from ..batch import Buffer, DeviceMemory, buffer_of, device_memory_of
from ..errors import ClosedError, UsageError
from ..link import Driver, Facts, Published
from ..memory import EVERYBODY, Audience, Region, RegionTable, Visitor, check_name
from ..memory.backing import MappedFile, files_behind
from ..path import LinkKind
from ..runtime import Access, Allocation, Place, Runtime
from ..runtime import Mapping as Mapped
from ..runtime.best_effort import attempts, obtain

__all__ = ["Links", "MemoryUse", "OwnRegions", "Page", "Whose"]

logger = log.get("kvferry.engine")


class MemoryUse(NamedTuple):
    """What the allocated regions of one engine asked for and obtained, all together.

    asked    bytes
    granted  bytes, whole pages
    regions  how many they are
    """

    asked: int
    granted: int
    regions: int


class Links(NamedTuple):
    """Over which links one peer reaches our regions: allocated ones, and registered ones."""

    own: LinkKind
    foreign: LinkKind | None


class Whose(NamedTuple):
    """Whose a region is, and which peers are told of it."""

    tenant: str = ""
    audience: Audience = EVERYBODY

    def name_of(self, label: str) -> str:
        """How this engine calls a region of theirs, which to them is `label`."""
        return f"{self.tenant}/{label}" if self.tenant else label


# Of the engine's own peers, all of them.
OURS = Whose()


class Page(NamedTuple):
    """Some regions on their way to a peer, owned by who holds this.

    last  serial that was looked at
    more  there are later ones
    """

    published: list[Published]
    last: int
    more: bool


class OwnRegions:
    """The regions of one engine. Thread-safe; `lock` is held for changes of the table only."""

    def __init__(self, runtime: Runtime, drivers: Mapping[LinkKind, Driver]) -> None:
        self._runtime = runtime
        self._drivers = drivers
        # Of each tenant: how many regions others have is nobody's business.
        self._serials: defaultdict[str, Iterator[int]] = defaultdict(partial(itertools.count, 1))
        self._lock = threading.Lock()
        self._sharing = threading.Lock()  # an allocation is exported, or closed, by one at a time
        self.table: RegionTable[Region] = RegionTable()
        self.leaving: list[Region] = []  # withdrawn, and not freed yet

    @property
    def spans(self) -> _core.SpanTable:
        return self.table.spans

    @property
    def memory(self) -> MemoryUse:
        grants = [region.grant for region in self.table.values() if region.grant is not None]
        asked, granted = sum(each.asked for each in grants), sum(each.granted for each in grants)
        return MemoryUse(asked, granted, len(grants))

    def allocate(
        self,
        name: str,
        size: int,
        place: Place,
        page: int,
        readonly: bool,
        at_least: float = 1.0,
        strict: bool = False,
        whose: Whose = OURS,
    ) -> Region:
        self._check_name(name, whose)
        plan = attempts(size, at_least, self._runtime.granularity(place), strict, page)
        shared = Access.READ if readonly else Access.WRITE
        (allocation, mapping, made), failed = obtain(plan, partial(self._bring, place))
        with made as undo:
            if allocation.grant is not None:
                notes = failed + allocation.grant.notes
                allocation.grant = allocation.grant._replace(asked=size, notes=notes)
            length = min(size, allocation.size)
            region = self._made(whose, name, mapping, length, allocation, shared)
            with self._lock:
                self.table.add(region)
            undo.pop_all()
        if failed:
            logger.warning("%r was not to be had as asked: %s", region, "; ".join(failed))
        return region

    def register(self, name: str, thing: Any, whose: Whose = OURS) -> Region:
        check_name(name)
        device = device_memory_of(thing)
        if device is not None:
            return self._borrow(name, device, whose)
        buffer = buffer_of(thing)
        _check_backing(buffer)
        with self._lock:
            known = self._again(whose.name_of(name), buffer.address, buffer.length)
            if known is not None:
                return known
            region = self._made(whose, name, buffer, buffer.length)
            self.table.add(region)
        return region

    def _borrow(self, name: str, memory: DeviceMemory, whose: Whose) -> Region:
        """Memory of a device that somebody else here allocated: peers map it like our own."""
        address, length, owner = memory
        with self._lock:
            known = self._again(whose.name_of(name), address, length)
        if known is not None:
            return known
        found = self._runtime.borrow(address, length)
        if found is None:
            raise UsageError(
                "the runtime of this engine knows no device memory there",
                cause="unknown_memory",
                range=(address, length),
            )
        allocation, mapping = found
        with ExitStack() as failed, self._lock:
            failed.enter_context(allocation)
            region = self._made(whose, name, mapping, length, allocation, owner=owner)
            self.table.add(region)
            failed.pop_all()
        return region

    def _again(self, name: str, address: int, length: int) -> Region | None:
        """Under the lock: one registration more of the very same range."""
        for known in self.table.overlapping(address, length):
            if (known.name, known.address, known.length) == (name, address, length):
                known.uses += 1
                return known
        return None

    def withdraw(self, region: Region) -> bool:
        """One registration less; True when it was the last: the region takes no more transfers."""
        with self._lock:
            if region in self.leaving:
                return True  # taking it away was interrupted, or not quiet
            if self.table.get(region.name) is not region:
                raise ClosedError(f"{region!r} is not registered", cause="not_registered")
            region.uses -= 1
            if region.uses:
                return False
            self.leaving.append(region)
            region.span.close()
            self.table.remove(region)
            return True

    def publish(
        self, links: Links, region: Region, to: Facts, visitor: Visitor
    ) -> Published | None:
        """What `to` needs to reach `region` over its links; None: it cannot or may not, or the
        region is gone."""
        link = links.own if region.own else links.foreign
        most = region.audience.access(visitor, Access.WRITE)
        if link is None or most is None:
            return None
        driver = self._drivers.get(link)
        if driver is None:  # peers know all links there are
            return None
        with self._sharing:
            try:
                return driver.publish(region, to, most)
            except ClosedError:
                return None

    def publish_after(
        self, links: Links, to: Facts, visitor: Visitor, after: int, most: int
    ) -> Page:
        """`most` regions with a serial above `after`; those that `links` cannot reach left out."""
        later = sorted(
            (
                region
                for region in self.table.values()
                if region.serial > after and region.audience.admits(visitor)
            ),
            key=lambda region: region.serial,
        )
        page = later[:most]
        last = page[-1].serial if page else after
        with ExitStack() as undo:
            published = []
            for region in page:
                each = self.publish(links, region, to, visitor)
                if each is not None:
                    undo.callback(each.discard)
                    published.append(each)
            undo.pop_all()
        return Page(published, last, len(later) > most)

    def free(self, region: Region) -> None:
        """Give the memory of a withdrawn region back. No transfer uses it any more."""
        with self._sharing:
            for driver in self._drivers.values():
                driver.retire(region)
            region.free()
        with self._lock:
            if region in self.leaving:
                self.leaving.remove(region)

    def forked(self) -> None:
        """In a forked child: close inherited descriptors; the memory is not mapped here."""
        for region in self.table.values():
            if region.allocation is not None:
                region.allocation.forked()

    def _bring(self, place: Place, size: int, page: int) -> tuple[Allocation, Mapped, ExitStack]:
        """Memory, mapped here, and what undoes both."""
        with ExitStack() as undo:
            allocation = undo.enter_context(self._runtime.allocate(size, place, page))
            reservation = undo.enter_context(self._runtime.reserve(allocation.size))
            mapping = undo.enter_context(self._runtime.map(allocation, reservation, Access.WRITE))
            return allocation, mapping, undo.pop_all()

    def _made(self, whose: Whose, label: str, *parts: Any, **named: Any) -> Region:
        """Of these parts, for those whose it is. Not in the table yet."""
        serial = next(self._serials[whose.tenant])
        region = Region(serial, whose.name_of(label), *parts, **named)
        region.label, region.tenant = label, whose.tenant
        region.keep_for(whose.audience)
        return region

    def _check_name(self, name: str, whose: Whose) -> None:
        check_name(name)
        if whose.name_of(name) in self.table:
            raise UsageError(f"region {name!r} exists already", cause="name_taken")


def _check_backing(buffer: Buffer) -> None:
    if buffer.address + buffer.length > 1 << 64:
        raise UsageError(
            "the range wraps around the address space",
            cause="wraps",
            range=(buffer.address, buffer.length),
        )
    with open("/proc/self/maps") as maps:
        behind = files_behind(maps, buffer.address, buffer.length)
    for file in behind:
        if not _sealed(file):
            raise UsageError(
                f"{file.name} is mapped there and could be truncated under us: copy it first",
                cause="file_backed",
                range=(buffer.address, buffer.length),
            )


def _sealed(file: MappedFile) -> bool:
    """Is it a memory file that nobody can cut short? Only known of files this process has open."""
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.stat(int(fd)).st_ino == file.inode:
                code, seals = _core.vm_seals(int(fd))
                if not code and seals & _core.SEAL_SHRINK:
                    return True
    return False

"""A region: registered memory of one engine, its own or a caller's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core
from .._core import Span, View
from ..batch import Buffer, buffer_of
from ..errors import ClosedError, Error, RightsError, UsageError
from ..runtime import Access, Allocation, Grant, Mapping
from .audience import EVERYBODY, Audience

__all__ = ["Region"]


class Region(View):
    """Registered memory; a buffer of bytes, unless it lies in a device.

    Device memory the processor cannot touch: such a region hands out no buffers (BufferError), and
    `load`, `load_into` and `store` copy. They do so for every region, synchronously: on return the
    bytes are there. They block, from any thread, and raise UsageError for a range outside, and
    ClosedError once the region was unregistered, which waits for them.

    Own regions were allocated by the engine, or are memory of a device that somebody else allocated
    and that its runtime knows; peers can map them. Foreign regions are a caller's buffer, which the
    region keeps alive; peers reach them over links that need no mapping (cma, tcp). The memory
    stays until the region is unregistered and the last buffer export of it (memoryview, NumPy
    array) is released.

    serial      names this stay of the region in its engine; never used again
    name        unique in its engine
    address     of the first byte, in this process (from View)
    length      bytes (from View)
    span        native half, held by the transfers in flight over it
    uses        registrations of this very range; the last unregister ends it
    allocation  the memory behind an own region, None for a foreign one
    shared      what peers may do with it
    audience    which peers are told of it
    label       by which name they are; the engine's own peers: by `name`
    tenant      whose it is, "" the engine's own
    reach       what copies between host and device; None: host memory
    """

    def __new__(
        cls,
        serial: int,
        name: str,
        memory: Mapping | Buffer,
        length: int,
        allocation: Allocation | None = None,
        shared: Access = Access.WRITE,
        owner: object = None,
    ) -> Region:
        readonly = memory.readonly if isinstance(memory, Buffer) else False
        opaque = isinstance(memory, Mapping) and memory.reach is not None
        return super().__new__(cls, memory.address, length, readonly, memory, opaque)

    def __init__(
        self,
        serial: int,
        name: str,
        memory: Mapping | Buffer,
        length: int,
        allocation: Allocation | None = None,
        shared: Access = Access.WRITE,
        owner: object = None,
    ) -> None:
        self.serial = serial
        self.name = name
        self.shared = shared
        self.reach = memory.reach if isinstance(memory, Mapping) else None
        self.span = Span(
            self.address, length, self.address, not self.readonly, self._offer(), self.reach
        )
        self.uses = 1
        self.audience = EVERYBODY
        self.label = name
        self.tenant = ""
        self.allocation = allocation
        self._owner = owner
        self._mapping = None if isinstance(memory, Buffer) else memory

    def keep_for(self, audience: Audience) -> None:
        """It is there for these alone. Before it is in a table."""
        self.audience = audience
        only = audience.only
        if only is None:
            self.span.admit(audience.tenant)
        else:
            self.span.admit(audience.tenant, True, only.epoch, only.rights is Access.WRITE)

    def _offer(self) -> int:
        readonly = self.readonly or self.shared is Access.READ
        return _core.OFFER_READ if readonly else _core.OFFER_WRITE

    @property
    def own(self) -> bool:
        return self.allocation is not None

    @property
    def grant(self) -> Grant | None:
        """What the allocation obtained; None for foreign memory."""
        return self.allocation.grant if self.allocation is not None else None

    def load(self, length: int | None = None, offset: int = 0) -> bytes:
        """A copy of the `length` bytes from `offset` on; by default of all to the end."""
        length = self.length - offset if length is None else length
        self._check_range(offset, length)
        out = bytearray(length)
        if length:
            self.load_into(out, offset)
        return bytes(out)

    def load_into(self, out: Any, offset: int = 0) -> None:
        """Fill the buffer `out` with the bytes from `offset` on. RightsError: it is read-only."""
        to = _bytes_of(out)
        if to.readonly:
            raise RightsError("the buffer to load into is read-only", cause="read_only")
        with self._held(offset, to.length):
            if self.reach is None:
                memoryview(to)[:] = memoryview(self)[offset : offset + to.length]
            else:
                _check("load", self.reach.load(self.address + offset, to))

    def store(self, data: Any, offset: int = 0) -> None:
        """Copy the buffer `data` to `offset` and on. RightsError: the region is read-only."""
        source = _bytes_of(data)
        if self.readonly:
            raise RightsError(f"region {self.name!r} may not be written", cause="read_only")
        with self._held(offset, source.length):
            if self.reach is None:
                memoryview(self)[offset : offset + source.length] = source
            else:
                _check("store", self.reach.store(self.address + offset, source))

    @contextmanager
    def _held(self, offset: int, length: int) -> Iterator[None]:
        """While it is, its memory stays."""
        self._check_range(offset, length)
        if self.span.enter() != _core.ENTERED:
            raise ClosedError(f"region {self.name!r} was unregistered", cause="stale_region")
        try:
            yield
        finally:
            self.span.leave()

    def _check_range(self, offset: int, length: int) -> None:
        if not 0 <= offset <= self.length or not 0 <= length <= self.length - offset:
            raise UsageError(
                f"bytes {offset} to {offset + length} are outside region {self.name!r} of "
                f"{self.length} bytes",
                cause="out_of_bounds",
                range=(self.address + offset, length),
            )

    def free(self) -> None:
        """Give the memory back, once no buffer export is left. No transfer may be using it."""
        if self.allocation is not None:
            self.allocation.close()
        mapping, self._mapping, self._owner = self._mapping, None, None
        if mapping is not None:
            self.on_idle(mapping.close)

    def __repr__(self) -> str:
        kind, grant = "own" if self.own else "foreign", self.grant
        asked = f" of {grant.asked} asked" if grant and grant.granted < grant.asked else ""
        return f"<{kind} Region {self.name!r}, {self.length} bytes{asked} at {self.address:#x}>"


def _bytes_of(thing: Any) -> View:
    """The memory behind a caller's buffer, whatever its elements are."""
    buffer = buffer_of(thing)
    return View(buffer.address, buffer.length, buffer.readonly, buffer.owner)


def _check(what: str, code: int) -> None:
    if code:
        raise _device_error(what, code)


def _device_error(what: str, code: int) -> Error:
    from ..runtime.cann.codes import translate  # only where there is a device

    return translate(f"a {what} of device memory", code, None)

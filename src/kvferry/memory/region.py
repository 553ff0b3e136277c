"""A region: registered memory of one engine, its own or a caller's."""

from __future__ import annotations

from .. import _core
from .._core import Span, View
from ..batch import Buffer
from ..runtime import Access, Allocation, Grant, Mapping

__all__ = ["Region"]


class Region(View):
    """Registered memory; a buffer of bytes.

    Own regions were allocated by the engine and can be mapped by peers. Foreign regions are a
    caller's buffer, which the region keeps alive; peers reach them over links that need no mapping
    (cma, tcp). The memory stays until the region is unregistered and the last buffer export of it
    (memoryview, NumPy array) is released.

    serial      names this stay of the region in its engine; never used again
    name        unique in its engine
    address     of the first byte, in this process (from View)
    length      bytes (from View)
    span        native half, held by the transfers in flight over it
    uses        registrations of this very range; the last unregister ends it
    allocation  the memory behind an own region, None for a foreign one
    shared      what peers may do with it
    """

    def __new__(
        cls,
        serial: int,
        name: str,
        memory: Mapping | Buffer,
        length: int,
        allocation: Allocation | None = None,
        shared: Access = Access.WRITE,
    ) -> Region:
        readonly = memory.readonly if isinstance(memory, Buffer) else False
        return super().__new__(cls, memory.address, length, readonly, memory)

    def __init__(
        self,
        serial: int,
        name: str,
        memory: Mapping | Buffer,
        length: int,
        allocation: Allocation | None = None,
        shared: Access = Access.WRITE,
    ) -> None:
        self.serial = serial
        self.name = name
        self.shared = shared
        self.span = Span(self.address, length, self.address, not self.readonly, self._offer())
        self.uses = 1
        self.allocation = allocation
        self._mapping = None if isinstance(memory, Buffer) else memory

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

    def free(self) -> None:
        """Give the memory back, once no buffer export is left. No transfer may be using it."""
        if self.allocation is not None:
            self.allocation.close()
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            self.on_idle(mapping.close)

    def __repr__(self) -> str:
        kind = "own" if self.own else "foreign"
        return f"<{kind} Region {self.name!r}, {self.length} bytes at {self.address:#x}>"

"""Allocations of CANN."""

from __future__ import annotations

from collections.abc import Callable

from ..base import Place
from ..owners import Access, Allocation
from .physical import Physical

__all__ = ["CannAllocation"]


class CannAllocation(Allocation):
    """See Allocation. One holder of physical memory.

    place    where it lies; None: imported, which the processor cannot touch wherever it lies
    address  of memory that somebody else mapped, or that comes with its addresses; else None
    """

    def __init__(
        self,
        physical: Physical,
        size: int,
        page: int,
        place: Place | None,
        undo: Callable[[], None],
        shared: Access | None = None,
        address: int | None = None,
    ) -> None:
        super().__init__(physical.handle, size, page, undo, shared)
        self.physical = physical
        self.place = place
        self.address = address

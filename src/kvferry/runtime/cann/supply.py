"""Physical memory as the machine has it: asked for kind by kind until one is granted."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...errors import NoMemory, Unsupported, UsageError
from ..base import Place
from .device import Device
from .enums import MemGranularityOptions
from .kinds import Kind, kinds, wanted
from .structs import PhysicalMemProp

__all__ = ["Supply"]

# What says that there is no such memory here, and leaves room for the next attempt.
REFUSALS = (NoMemory, Unsupported, UsageError)

T = TypeVar("T")


class Supply:
    """The kinds of memory of a device and its host. In the device's context.

    pages  bytes of the pages of each place, smallest first
    """

    def __init__(self, device: Device) -> None:
        self._library = device.library
        number, physical = device.number, device.physical()
        self._kinds: dict[Place, tuple[Kind, ...]] = {}
        self.pages: dict[Place, Sequence[int]] = {}
        for place in Place:
            asked = {kind: self._ask_page(kind) for kind in kinds(place, number, physical)}
            self._kinds[place] = tuple(
                kind._replace(page=asked[kind] or kind.page) for kind in asked
            )
            self.pages[place] = sorted({page for page in asked.values() if page})

    def obtain(
        self, size: int, place: Place, page: int, attempt: Callable[[Kind, Sequence[str]], T]
    ) -> T:
        """What `attempt` makes of the first kind that is not refused, told of refusals so far.

        Raises NoMemory with the last refusal's code, and whatever is no refusal at once.
        """
        notes: list[str] = []
        for kind in wanted(self._kinds[place], size, page):
            try:
                return attempt(kind, notes)
            except REFUSALS as error:
                refused = error
                notes.append(f"{kind}: {error.args[0]}")
        raise NoMemory(
            f"no {size} bytes of {place.value} memory: {'; '.join(notes)}",
            cause="no_memory",
            code=refused.code,
            detail=refused.detail,
        ) from refused

    def page_of(self, prop: PhysicalMemProp) -> int:
        """Bytes of a page of such memory."""
        page = ctypes.c_size_t()
        self._library.call(
            "aclrtMemGetAllocationGranularity",
            ctypes.byref(prop),
            MemGranularityOptions.MINIMUM,
            ctypes.byref(page),
        )
        return page.value

    def _ask_page(self, kind: Kind) -> int | None:
        """None: the device has no such memory, or says so only when it is asked for some."""
        try:
            return self.page_of(kind.prop())
        except REFUSALS:
            return None

"""Which physical memory to ask ACL for, in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..base import Place
from .enums import MemAllocationType, MemAttr, MemHandleType, MemLocationType
from .structs import MemLocation, PhysicalMemProp

__all__ = ["GIANT", "HUGE", "Kind", "kinds", "wanted"]

HUGE = 2 << 20
GIANT = 1 << 30

# Four physical devices share a NUMA node, and only every second number is a node's.
DEVICES_A_NODE = 4
NODE_STEP = 2


class Kind(NamedTuple):
    """Memory of one kind at one location.

    page      bytes; sizes are multiples of it
    location  where, and its number
    """

    attribute: MemAttr
    page: int
    location: MemLocationType
    number: int

    def prop(self) -> PhysicalMemProp:
        return PhysicalMemProp(
            handle_type=MemHandleType.NONE,
            allocation_type=MemAllocationType.PINNED,
            mem_attr=self.attribute,
            location=MemLocation(id=self.number, type=self.location),
        )

    def __str__(self) -> str:
        return f"{self.attribute.name} at {self.location.name} {self.number}"


def kinds(place: Place, number: int, physical: int) -> tuple[Kind, ...]:
    """What there may be for the device, best first for a size of any number of pages.

    number    of the device in this process
    physical  of the device in the machine: host memory is best beside it
    """
    return tuple(_device(number) if place is Place.DEVICE else _host(physical))


def _device(number: int) -> Iterator[Kind]:
    yield Kind(MemAttr.HBM_MEM_HUGE, HUGE, MemLocationType.DEVICE, number)
    yield Kind(MemAttr.HBM_MEM_HUGE1G, GIANT, MemLocationType.DEVICE, number)


def _host(physical: int) -> Iterator[Kind]:
    node = physical // DEVICES_A_NODE * NODE_STEP
    yield Kind(MemAttr.MEM_P2P_HUGE1G, GIANT, MemLocationType.HOST_NUMA, node)
    yield Kind(MemAttr.MEM_P2P_HUGE1G, GIANT, MemLocationType.HOST, 0)
    yield Kind(MemAttr.MEM_P2P_HUGE, HUGE, MemLocationType.HOST, 0)


def wanted(of: tuple[Kind, ...], size: int, page: int) -> tuple[Kind, ...]:
    """Those to try for `size` bytes, in order.

    page 0: none with larger pages than the best has, or than the size fills.
    """
    if page:
        return tuple(kind for kind in of if kind.page == page)
    most = min(of[0].page, max(size, HUGE))
    return tuple(kind for kind in of if kind.page <= most)

"""What an object costs in a node, beside its bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .party import Party
from .passes import Calls
from .result import Memory, Want
from .tasks import Op

__all__ = ["OBJECT", "measure_memory", "pool_for"]

OBJECT = 64  # bytes of a value, the least that an extent has room for
BATCH = 4096
WANTED = 350
SPARE = 1 << 20
# An index as full as this one refuses a key in some 100,000, and another object leaves for it.
KEPT = 0.999

# Opens a node with a pool for so many objects and room for the second number in its index, and a
# user on its host; both are gone when the last is called.
Opening = Callable[[int, int], tuple[Party, Party, Callable[[], None]]]


def pool_for(objects: int) -> int:
    """Bytes of a pool out of which nobody has to leave."""
    return objects * OBJECT * 10 // 8 + SPARE


def measure_memory(objects: int, opening: Opening) -> Memory:
    """Blocks for some microseconds an object."""
    node, user, close = opening(objects, 1)
    try:
        empty = resident_beside(node)
    finally:
        close()
    node, user, close = opening(objects, objects)
    try:
        user.fill()
        stored = sum(user.run(calls).good for calls in _all(objects, Op.PUT_BATCH))
        there = sum(user.run(calls).good for calls in _all(objects, Op.EXISTS_BATCH))
        full = resident_beside(node)
    finally:
        close()
    cost = round((full - empty) / there, 1) if there else 0.0
    return Memory(
        objects=there,
        node_bytes=full,
        empty_bytes=empty,
        object_bytes=cost,
        wanted=Want("object_bytes", WANTED, cost <= WANTED),
        verified=stored == objects and there >= KEPT * objects,
    )


def resident_beside(node: Party) -> int:
    """Bytes of the node's process in memory, shared ones included, without its pool."""
    assert node.opened.pool is not None
    address, length = node.opened.pool
    return count_resident(Path(f"/proc/{node.pid}/smaps").read_text(), address, address + length)


def count_resident(smaps: str, begin: int, end: int) -> int:
    """Resident bytes of all mappings but those from `begin` to `end`."""
    found = re.findall(r"^([0-9a-f]+)-[0-9a-f]+ .*\n(?:.*\n)*?Rss: +(\d+) kB$", smaps, re.M)
    return sum(int(kib) << 10 for start, kib in found if not begin <= int(start, 16) < end)


def _all(objects: int, op: Op) -> list[Calls]:
    """A few calls at a time, so that no message is large."""
    ids = np.arange(objects)
    parts = [ids[at : at + 16 * BATCH] for at in range(0, objects, 16 * BATCH)]
    return [Calls(op, OBJECT, BATCH, BATCH, part, part % BATCH) for part in parts]

"""Threads near to memory."""

from __future__ import annotations

import logging
import os
from pathlib import Path

__all__ = ["bind_to_numa_node"]

logger = logging.getLogger("mooncake")

NODES = Path("/sys/devices/system/node")


def bind_to_numa_node(node: int) -> None:
    """Let this thread run on the processors of a NUMA node alone; what it touches first lies there
    then. Where there is no such node nothing is done, and the log says so."""
    try:
        wanted = processors((NODES / f"node{node}" / "cpulist").read_text())
        os.sched_setaffinity(0, wanted & os.sched_getaffinity(0))
    except OSError as error:
        logger.warning("bind_to_numa_node: %s", error)


def processors(text: str) -> set[int]:
    """ "0-3,8" are 0, 1, 2, 3 and 8."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found

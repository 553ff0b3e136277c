"""Bare native loops that move blocks and do nothing else: what a link can be measured against.

Nothing of them is shared with submission: no batch, no check, no completion, another loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

from .. import _core
from ..errors import Unsupported
from ..path import LinkKind
from .socket_limit import SocketLimit
from .walk import Move

__all__ = [
    "MEMORY",
    "PROCESS_VM",
    "SOCKET",
    "YARDSTICKS",
    "Loop",
    "Reach",
    "Yardstick",
    "yardstick",
]

MOST_THREADS = 512  # 64 callers, 8 streams each
MOST_SOCKETS = 2  # each has a whole side of memory at its other end


class Reach(NamedTuple):
    """Where byte 0 of either side is.

    local   address in this process
    mapped  of the other side, where it is mapped in this process
    remote  of the other side, in the process `pid` that owns it
    """

    local: int
    mapped: int
    remote: int
    pid: int


# (variant, op, reach, moves, batches): seconds it took to carry out the moves in this thread, in
# so many batches where that makes a difference.
Loop = Callable[[str, str, Reach, Sequence[Move], int], float]


class Yardstick(NamedTuple):
    """A kind of loop.

    variants  to choose from
    threads   that may run it side by side
    open      makes the loop of one thread, for sides of so many bytes
    """

    name: str
    variants: tuple[str, ...]
    threads: int
    open: Callable[[int], AbstractContextManager[Loop]]


def _copy(variant: str, op: str, at: Reach, moves: Sequence[Move], batches: int) -> float:
    begin = time.perf_counter()
    for move in moves:
        ours, theirs = at.local + move.base, at.mapped + move.base
        if op == "write":
            _core.copy_blocks(variant, theirs, move.remote, ours, move.local, move.block)
        else:
            _core.copy_blocks(variant, ours, move.local, theirs, move.remote, move.block)
    return time.perf_counter() - begin


def _process_vm(variant: str, op: str, at: Reach, moves: Sequence[Move], batches: int) -> float:
    """`variant` is how many blocks go into one call into the kernel, at most."""
    writes = op == "write"
    begin = time.perf_counter()
    for move in moves:
        ours = (at.local + move.base, move.local)
        theirs = (at.remote + move.base, move.remote)
        to, source = (theirs, ours) if writes else (ours, theirs)
        code = _core.process_blocks(at.pid, *to, *source, move.block, int(variant), writes)
        if code:
            raise OSError(code, os.strerror(code))
    return time.perf_counter() - begin


@contextmanager
def _sockets(size: int) -> Iterator[Loop]:
    with SocketLimit(size) as limit:

        def send(variant: str, op: str, at: Reach, moves: Sequence[Move], batches: int) -> float:
            return limit.copy(op, at.local, moves, batches)

        yield send


MEMORY = Yardstick(
    "memcpy/nt", tuple(_core.copy_variants()), MOST_THREADS, lambda size: nullcontext(_copy)
)
PROCESS_VM = Yardstick(
    "process_vm loop", ("1", "16", "1024"), MOST_THREADS, lambda size: nullcontext(_process_vm)
)
SOCKET = Yardstick("socket loop", ("blocking",), MOST_SOCKETS, _sockets)

# How the bytes of a case cross -> what it is measured against.
YARDSTICKS = {
    LinkKind.LOOPBACK: MEMORY,
    LinkKind.FABRIC: MEMORY,
    LinkKind.CMA: PROCESS_VM,
    LinkKind.TCP: SOCKET,
}


def yardstick(link: LinkKind) -> Yardstick:
    """What is measured beside the link. Raises Unsupported: there is nothing to compare it with."""
    if link not in YARDSTICKS:
        known = ", ".join(each.value for each in YARDSTICKS)
        raise Unsupported(
            f"no bare loop moves bytes as {link.value} does, and a figure alone says nothing: "
            f"measured are {known}",
            cause="no_yardstick",
        )
    return YARDSTICKS[link]

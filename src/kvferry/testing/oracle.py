"""Pure twins of the native core: what a copy and a resolve mean, one descriptor at a time.

A piece is (local address, remote address, length in bytes). Memory is a list of areas that do not
overlap, each a bytearray behind the address of its first byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .._core import LEAVES, LOCAL, READONLY, REMOTE, RESOLVED, STALE, UNKNOWN, WRITE

__all__ = ["Area", "Piece", "Verdict", "cut", "move", "resolve"]

Memory = Mapping[int, bytearray]
SPACE = 1 << 64


class Piece(NamedTuple):
    """One descriptor."""

    local: int
    remote: int
    length: int


class Area(NamedTuple):
    """A region as its owner sees it, and where we see it."""

    base: int
    length: int
    here: int
    writable: bool

    def holds(self, address: int) -> bool:
        return self.base <= address < self.base + self.length

    def covers(self, address: int, length: int) -> bool:
        return self.base <= address and address + length <= self.base + self.length


class Verdict(NamedTuple):
    """What resolve answers: pieces valid here and the areas they use, or what is wrong where."""

    verdict: int
    side: int = LOCAL
    position: int = 0
    pieces: tuple[Piece, ...] = ()
    used: frozenset[tuple[int, Area]] = frozenset()


def move(op: int, pieces: Iterable[Piece], memory: Memory) -> None:
    """Carry out a batch: byte by byte, in order."""
    for local, remote, length in pieces:
        source, target = (local, remote) if op == WRITE else (remote, local)
        for offset in range(length):
            _poke(memory, target + offset, _peek(memory, source + offset))


def _peek(memory: Memory, address: int) -> int:
    base = _area(memory, address)
    return memory[base][address - base]


def _poke(memory: Memory, address: int, value: int) -> None:
    base = _area(memory, address)
    memory[base][address - base] = value


def _area(memory: Memory, address: int) -> int:
    (base,) = [base for base, held in memory.items() if base <= address < base + len(held)]
    return base


def cut(pieces: Sequence[Piece], sizes: Iterable[int]) -> list[list[Piece]]:
    """Runs of so many bytes each, as lists of pieces of one byte."""
    every = [Piece(p.local + k, p.remote + k, 1) for p in pieces for k in range(p.length)]
    runs = []
    for size in sizes:
        runs.append(every[:size])
        every = every[size:]
    assert not every, "the sizes are the whole batch"
    return runs


def resolve(
    write: bool,
    pieces: Sequence[Piece],
    local: Area | None,
    local_table: Sequence[Area] | None,
    remote: Area | None,
    remote_table: Sequence[Area],
) -> Verdict:
    """As _core.resolve, over tuples."""
    areas: dict[int, list[Area]] = {LOCAL: [], REMOTE: []}
    for side, written, named, table in (
        (LOCAL, not write, local, local_table),
        (REMOTE, write, remote, remote_table),
    ):
        for index, piece in enumerate(pieces if table is not None else ()):
            address = piece.local if side == LOCAL else piece.remote
            area = named or _holding(table or (), address)
            verdict = _judge(area, table or (), address, piece.length, written)
            if verdict != RESOLVED or area is None:
                return Verdict(verdict, side, index)
            areas[side].append(area)
    return Verdict(
        RESOLVED,
        pieces=tuple(
            # Local addresses are ours already.
            Piece(local, (remote - area.base + area.here) % SPACE, length)
            for (local, remote, length), area in zip(pieces, areas[REMOTE], strict=True)
        ),
        used=frozenset((side, area) for side in areas for area in areas[side]),
    )


def _judge(
    area: Area | None, table: Sequence[Area], address: int, length: int, written: bool
) -> int:
    if area is None:
        return UNKNOWN
    if area not in table:
        return STALE
    if written and not area.writable:
        return READONLY
    return RESOLVED if area.covers(address, length) else LEAVES


def _holding(table: Sequence[Area], address: int) -> Area | None:
    return next((area for area in table if area.holds(address)), None)

"""What a side holds: a pattern, poison, or a transfer's bytes where they belong.

The pattern makes the word at index i of a side (i * ODD) ^ seed: a block in a wrong place, or one
of an older fill, differs in every word. Poison is one word all over. Work is done in windows that
stay in a cache, so checking a side needs no memory to speak of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["WORD", "Landing", "Verdict", "Words", "check", "fill", "join", "poison"]

Words = npt.NDArray[np.uint64]

ODD = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
POISON = 0xA5A5A5A5A5A5A5A5
WORD = 8
WINDOW = 1 << 15  # words

_RAMP = np.arange(WINDOW, dtype=np.uint64) * np.uint64(ODD)


class Landing(msgspec.Struct, frozen=True):
    """Block source[i] of one side should have come to block to[i] of the side that is checked.

    base   where block 0 lies in either side, in bytes; blocks are whole words
    block  bytes
    total  blocks there are; those that are not in `to` should be untouched
    """

    base: int
    block: int
    total: int
    to: bytes  # int64
    source: bytes


class Verdict(msgspec.Struct, frozen=True):
    """blocks  were compared, each byte of them
    wrong   of them differ from what the source holds
    stray   other places that are no longer poison: windows, or blocks
    """

    blocks: int
    wrong: int
    stray: int

    @property
    def good(self) -> bool:
        return self.blocks > 0 and not self.wrong and not self.stray


def join(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several slices."""
    return Verdict(
        blocks=sum(each.blocks for each in verdicts) if all(e.blocks for e in verdicts) else 0,
        wrong=sum(each.wrong for each in verdicts),
        stray=sum(each.stray for each in verdicts),
    )


def fill(side: Words, seed: int) -> None:
    """Put the pattern all over."""
    for at, window in _windows(side):
        np.add(_RAMP[: len(window)], np.uint64(at * ODD & MASK), out=window)
        np.bitwise_xor(window, np.uint64(seed), out=window)


def poison(side: Words) -> None:
    side.fill(POISON)


def check(side: Words, landings: Sequence[Landing], seed: int) -> Verdict:
    """Compare every byte: of the blocks that landed with their source's pattern, of all others with
    poison. The side was poisoned before the transfer, the source filled with `seed`.
    """
    blocks = wrong = stray = end = 0
    for landing in landings:
        first, words = landing.base // WORD, landing.block // WORD
        end = first + landing.total * words
        grid = side[first:end].reshape(landing.total, words)
        to = np.frombuffer(landing.to, np.int64)
        source = np.frombuffer(landing.source, np.int64)
        blocks += len(to)
        wrong += _wrong(grid, to, first + source * words, seed)
        stray += _stray(grid, to)
    stray += sum(bool((window != POISON).any()) for _, window in _windows(side[end:]))
    return Verdict(blocks, wrong, stray)


def _wrong(grid: Words, to: npt.NDArray[np.int64], source: npt.NDArray[np.int64], seed: int) -> int:
    """Rows `to` of the grid that differ from the pattern that begins at word `source`."""
    differs = np.zeros(len(to), bool)
    for rows, columns in _tiles(len(to), grid.shape[1]):
        width = columns.stop - columns.start
        starts = (source[rows].astype(np.uint64) + np.uint64(columns.start)) * np.uint64(ODD)
        wanted = (_RAMP[:width] + starts[:, None]) ^ np.uint64(seed)
        differs[rows] |= (grid[to[rows], columns] != wanted).any(axis=1)
    return int(differs.sum())


def _stray(grid: Words, to: npt.NDArray[np.int64]) -> int:
    """Rows that are not `to` and not poison either."""
    touched = np.zeros(len(grid), bool)
    for rows, columns in _tiles(*grid.shape):
        touched[rows] |= (grid[rows, columns] != POISON).any(axis=1)
    touched[to] = False
    return int(touched.sum())


def _tiles(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Cut a grid into tiles of at most WINDOW words."""
    width = min(columns, WINDOW)
    height = WINDOW // width
    for top in range(0, rows, height):
        for left in range(0, columns, width):
            yield slice(top, min(top + height, rows)), slice(left, min(left + width, columns))


def _windows(side: Words) -> Iterator[tuple[int, Words]]:
    for at in range(0, len(side), WINDOW):
        yield at, side[at : at + WINDOW]

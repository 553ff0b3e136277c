"""Ranges of many values, each to a place of its own in buffers that are named by address."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from kvferry.errors import UsageError

from .store_codes import FAILURES, Code, code_of, ranges
from .store_reads import MISSES, Key, Reads

__all__ = ["Ranges"]

# Of each buffer, of each key there, of each range.
Cube = Sequence[Sequence[Sequence[int]]]

INVALID = int(Code.INVALID_PARAMS)


class Ranges(Reads):
    def get_into_ranges(
        self,
        buffer_ptrs: Sequence[int],
        all_keys: Sequence[Sequence[Key]],
        all_dst_offsets: Cube,
        all_src_offsets: Cube,
        all_sizes: Cube,
    ) -> list[list[list[int]]]:
        """Copy range j of key i of buffer b, from all_src_offsets[b][i][j] of its value on, to
        all_dst_offsets[b][i][j] of the buffer: bytes copied or a code, in the shape of the sizes.

        -704: it is not there; -600: the range ends beyond the value, or is not mapped. All of them
        are -600 where an offset is below 0, or there are not as many of everything.
        """
        cubes = all_dst_offsets, all_src_offsets, all_sizes
        if not _fit(buffer_ptrs, all_keys, cubes) or _below(all_dst_offsets):
            return [[[INVALID for _ in row] for row in rows] for rows in all_sizes] or []
        keys = list(chain.from_iterable(all_keys))
        places = [
            [pointer + offset for offset in row]
            for pointer, rows in zip(buffer_ptrs, all_dst_offsets, strict=True)
            for row in rows
        ]
        flat = [list(chain.from_iterable(cube)) for cube in (all_src_offsets, all_sizes)]
        told = iter(self._ranges(keys, places, *flat))
        return [[next(told) for _ in rows] for rows in all_sizes]

    def _ranges(
        self,
        keys: Sequence[Key],
        places: Sequence[Sequence[int]],
        offsets: Sequence[Sequence[int]],
        sizes: Sequence[Sequence[int]],
    ) -> list[list[int]]:
        """Bytes or a code for each range of each key."""
        client = self._client
        try:
            pieces = client.memory.pieces(places, sizes, writable=True)
            return ranges(pieces, *client.store.get_ranges(keys, pieces, offsets))
        except FAILURES as error:
            code = code_of("get_into_ranges", error, MISSES)
            if len(keys) < 2 or not isinstance(error, UsageError):
                return [[code] * len(row) for row in sizes]
        return [
            self._ranges([key], [place], [offset], [size])[0]
            for key, place, offset, size in zip(keys, places, offsets, sizes, strict=True)
        ]


def _fit(buffers: Sequence[int], keys: Sequence[Sequence[Key]], cubes: Sequence[Cube]) -> bool:
    """Are there as many of everything?"""
    if any(len(rows) != len(buffers) for rows in (keys, *cubes)):
        return False
    shapes = [[[len(row) for row in rows] for rows in cube] for cube in cubes]
    counts = [len(some) for some in keys]
    return shapes[0] == shapes[1] == shapes[2] and [len(rows) for rows in shapes[0]] == counts


def _below(cube: Cube) -> bool:
    """Is any of them below 0? It would be a place outside of its buffer."""
    return any(offset < 0 for rows in cube for row in rows for offset in row)

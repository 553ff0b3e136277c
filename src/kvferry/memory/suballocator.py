"""Hands out pieces of one range of bytes, by offset. Nothing is kept in the range itself.

    |##taken##|...free...|#taken#|##taken##|......free......|
               '-- a hole is as long as it can be: two never touch

Best fit: the smallest hole that holds the request, and of equal ones the one freed last, which is
the likeliest to be in a cache. A request is cut from the front of its hole.
"""

from __future__ import annotations

from ..errors import Full, UsageError

__all__ = ["NumberSet", "SubAllocator"]


class NumberSet:
    """A set of numbers >= 0 that answers "the smallest member from here on".

    A tree of bit maps: bit b of word w on level 0 says that w * 1024 + b is a member, a bit on the
    level above that the word below has any bit. Every operation takes a few steps a level.
    """

    BITS = 10
    MASK = (1 << BITS) - 1

    def __init__(self, below: int) -> None:
        levels = max(1, -(-(below - 1).bit_length() // self.BITS))
        self._levels: list[dict[int, int]] = [{} for _ in range(levels)]

    def add(self, number: int) -> None:
        for words in self._levels:
            words[number >> self.BITS] = words.get(number >> self.BITS, 0) | self._bit(number)
            number >>= self.BITS

    def remove(self, number: int) -> None:
        for words in self._levels:
            left = words[number >> self.BITS] & ~self._bit(number)
            if left:
                words[number >> self.BITS] = left
                return
            del words[number >> self.BITS]
            number >>= self.BITS

    def at_least(self, number: int) -> int | None:
        """The smallest member that is not below `number`."""
        for level, words in enumerate(self._levels):
            later = words.get(number >> self.BITS, 0) >> (number & self.MASK)
            if later:
                return self._first_below(level, number + self._lowest(later))
            number = (number >> self.BITS) + 1
        return None

    def largest(self) -> int | None:
        word = 0
        for words in reversed(self._levels):
            if word not in words:
                return None
            word = (word << self.BITS) + words[word].bit_length() - 1
        return word

    def _first_below(self, level: int, number: int) -> int:
        for words in reversed(self._levels[:level]):
            number = (number << self.BITS) + self._lowest(words[number])
        return number

    def _bit(self, number: int) -> int:
        return 1 << (number & self.MASK)

    @staticmethod
    def _lowest(word: int) -> int:
        return (word & -word).bit_length() - 1


class SubAllocator:
    """Pieces of `size` bytes; offsets and lengths are multiples of `align`.

    Each call takes O(log size). Not thread-safe: callers hold a lock of their own.
    """

    def __init__(self, size: int, align: int = 64) -> None:
        if align <= 0 or size <= 0 or size % align:
            raise UsageError(
                f"cannot hand out {size} bytes in multiples of {align}", cause="bad_size"
            )
        self.size = size
        self.align = align
        self._taken: dict[int, int] = {}  # offset -> length
        self._holes: dict[int, int] = {}  # offset -> length
        self._ends: dict[int, int] = {}  # end of a hole -> its offset
        self._by_length: dict[int, dict[int, None]] = {}  # length -> offsets, oldest first
        self._lengths = NumberSet(size // align + 1)  # in units of align
        self._used = 0
        self._add_hole(0, size)

    @property
    def used(self) -> int:
        """Bytes handed out, rounded up to `align`."""
        return self._used

    @property
    def free(self) -> int:
        return self.size - self._used

    @property
    def largest(self) -> int:
        """The most that one `take` can get now, in bytes."""
        return (self._lengths.largest() or 0) * self.align

    def take(self, size: int) -> int:
        """The offset of `size` bytes, which are the caller's until `give`.

        Raises Full with the cause ``pool_full`` when no hole is long enough, and UsageError when
        `size` is not positive.
        """
        if size <= 0:
            raise UsageError(f"cannot take {size} bytes", cause="bad_size")
        units = -(-size // self.align)
        fit = self._lengths.at_least(units)
        if fit is None:
            raise Full(
                f"no room for {size} bytes: {self.free} of {self.size} are free,"
                f" {self.largest} in one piece",
                cause="pool_full",
            )
        return self._cut(fit * self.align, units * self.align)

    def give(self, offset: int) -> None:
        """Take back what `take` returned. UsageError when nothing is taken at `offset`."""
        length = self._taken.pop(offset, None)
        if length is None:
            raise UsageError(f"nothing is taken at offset {offset}", cause="not_taken")
        self._used -= length
        before, after = self._ends.get(offset), offset + length
        if after in self._holes:
            length += self._remove_hole(after)
        if before is not None:
            length += self._remove_hole(before)
            offset = before
        self._add_hole(offset, length)

    def check_integrity(self) -> None:
        """Assert that taken pieces and holes tile the range and that every table says the same."""
        pieces = sorted([*self._taken.items(), *self._holes.items()])
        end, hole_before = 0, False
        for offset, length in pieces:
            assert offset == end, f"gap or overlap at {end}, next piece at {offset}"
            assert length > 0, f"empty piece at {offset}"
            assert length % self.align == 0, f"piece of {length} bytes at {offset}"
            assert not (hole_before and offset in self._holes), f"two holes touch at {offset}"
            end, hole_before = offset + length, offset in self._holes
        assert end == self.size, f"pieces end at {end} of {self.size}"
        assert self._used == sum(self._taken.values())
        assert self._ends == {offset + length: offset for offset, length in self._holes.items()}
        by_length = {offset: n for n, offsets in self._by_length.items() for offset in offsets}
        assert by_length == self._holes
        assert self._members() == sorted(self._by_length)

    def _cut(self, hole: int, length: int) -> int:
        # Not next(reversed(...)): popitem alone never looks twice at an entry that has gone.
        offset, _ = self._by_length[hole].popitem()
        self._forget(offset, hole)
        if hole > length:
            self._add_hole(offset + length, hole - length)
        self._taken[offset] = length
        self._used += length
        return offset

    def _add_hole(self, offset: int, length: int) -> None:
        self._holes[offset] = length
        self._ends[offset + length] = offset
        if length not in self._by_length:
            self._by_length[length] = {}
            self._lengths.add(length // self.align)
        self._by_length[length][offset] = None

    def _remove_hole(self, offset: int) -> int:
        length = self._holes[offset]
        del self._by_length[length][offset]
        self._forget(offset, length)
        return length

    def _forget(self, offset: int, length: int) -> None:
        del self._holes[offset]
        del self._ends[offset + length]
        if not self._by_length[length]:
            del self._by_length[length]
            self._lengths.remove(length // self.align)

    def _members(self) -> list[int]:
        found: list[int] = []
        unit = self._lengths.at_least(0)
        while unit is not None:
            found.append(unit * self.align)
            unit = self._lengths.at_least(unit + 1)
        return found

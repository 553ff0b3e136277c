"""What a pickle of protocol 5 says of a block, written here: nothing is ever unpickled.

    80 05 95 <length, u64>                   protocol, one frame
      43 20 <parent> 94                      bytes, remembered as 0
      28 <token> <token> ... 74 94           a tuple, remembered as 1
      4e, or the extra keys as tuples        of text, bytes and numbers
      87 94 2e                               all three in a tuple; the end

    token  4b u8 | 4d u16 | 4a i32, little-endian, the shortest that holds it

What was remembered is named by its number when it comes again: of the extra keys, their tags, and
text of one character or none, of which Python has one object each. Other text that is equal is
another object, as it is behind a wire. Source: Lib/pickletools.py of Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .extras import TAGS, Extra
from .tokens import Tokens, cut

__all__ = ["Pickled"]

FRAME_MOST = 1 << 16  # then a pickler begins another frame
REMEMBER = b"\x94"
SHORT = {1: b"\x85", 2: b"\x86", 3: b"\x87"}  # ends tuples of so few
END = SHORT[3] + REMEMBER + b"."
_SIZES = [b"C" + bytes((size,)) for size in range(256)]


class Pickled:
    """How a block is written down before it is hashed. Pure."""

    def text(self, text: str) -> bytes:
        said = _Writer(0).put(text) + b"."
        return _frame(len(said)) + said

    def bodies(self, tokens: Tokens, block: int) -> list[bytes]:
        """The tuple of each block of tokens."""
        widths = np.where(tokens < 1 << 8, 2, np.where(tokens < 1 << 16, 3, 5))
        words = (tokens << 8 | _codes(widths)).astype("<i8", copy=False)
        rows = words.view(np.uint8).reshape(-1, 8)
        begin, end = (b"", SHORT[block]) if block in SHORT else (b"(", b"t")
        return [begin + each + end + REMEMBER for each in cut(rows, widths, block)]

    def around(self, size: int, length: int, extra: Extra | None) -> tuple[bytes, bytes, bytes]:
        """What stands before the parent's hash, of so many bytes, between it and a body, of so
        many, and behind that. Of no tokens a body is empty."""
        between = REMEMBER if length else REMEMBER + b")"
        behind = (b"N" if extra is None else _Writer(2 if length else 1).put(extra)) + END
        count = 2 + size + len(between) + length + len(behind)
        return _frame(count) + _SIZES[size], between, behind


class _Writer:
    """Writes extra keys; `count` objects were remembered before."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._known: dict[str, int] = {}

    def put(self, thing: Extra | str | bytes | int) -> bytes:
        return b"".join(self._parts(thing))

    def _parts(self, thing: Extra | str | bytes | int) -> Iterator[bytes]:
        if isinstance(thing, tuple):
            short = SHORT.get(len(thing))
            yield b"" if short else b"("
            for each in thing:
                yield from self._parts(each)
            yield (short or b"t") + self._remembered()
        elif isinstance(thing, int):
            yield _number(thing)
        elif isinstance(thing, bytes):
            yield _sized(b"C", b"B", thing) + self._remembered()
        elif thing in self._known:
            yield b"h" + bytes((self._known[thing],))
        else:
            if thing in TAGS or len(thing) <= 1:
                self._known[thing] = self._count
            yield _sized(b"\x8c", b"X", thing.encode()) + self._remembered()

    def _remembered(self) -> bytes:
        self._count += 1
        if self._count > 255:
            raise UsageError("so many extra keys of one block", cause="extras")
        return REMEMBER


def _codes(widths: NDArray[np.int64]) -> NDArray[np.uint8]:
    return np.array([0, 0, ord("K"), ord("M"), 0, ord("J")], np.uint8)[widths]


def _number(number: int) -> bytes:
    if 0 <= number < 1 << 8:
        return pack("<cB", b"K", number)
    if 0 <= number < 1 << 16:
        return pack("<cH", b"M", number)
    if -(1 << 31) <= number < 1 << 31:
        return pack("<ci", b"J", number)
    raise UsageError(f"{number} in an extra key", cause="extras")


def _sized(short: bytes, long: bytes, raw: bytes) -> bytes:
    if len(raw) < 1 << 8:
        return short + pack("<B", len(raw)) + raw
    return long + pack("<I", len(raw)) + raw


def _frame(length: int) -> bytes:
    """What a pickle of so many bytes begins with."""
    if length > FRAME_MOST:
        raise UsageError(f"{length} bytes of one block to hash", cause="extras")
    return b"\x80\x05\x95" + pack("<Q", length)

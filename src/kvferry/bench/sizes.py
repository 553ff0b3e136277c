"""Sizes as people write them: ``64KiB``, ``1GiB``, ``4096``."""

from __future__ import annotations

import re

from ..errors import UsageError

__all__ = ["format_size", "parse_size"]

SHIFTS = {"": 0, "B": 0, "K": 10, "KIB": 10, "M": 20, "MIB": 20, "G": 30, "GIB": 30}
UNITS = ("B", "KiB", "MiB", "GiB")
WORD = 8


def parse_size(text: str) -> int:
    """Bytes. Raises UsageError for what is no size, and for 0."""
    found = re.fullmatch(r"(\d{1,15}) ?([A-Za-z]*)", text.strip(), re.ASCII)
    if found is None or found[2].upper() not in SHIFTS or int(found[1]) == 0:
        raise UsageError(f"bad size {text!r}: expected such as 4096, 64KiB, 1GiB", cause="size")
    size = int(found[1]) << SHIFTS[found[2].upper()]
    if size % WORD:
        raise UsageError(f"bad size {text!r}: not a multiple of {WORD} bytes", cause="size")
    return size


def format_size(size: int) -> str:
    """In the largest unit of which it is a multiple, from 1 KiB on."""
    unit = 0
    while unit + 1 < len(UNITS) and size and size % 1024 == 0:
        size, unit = size // 1024, unit + 1
    return f"{size} {UNITS[unit]}"

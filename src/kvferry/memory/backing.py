"""What lies behind an address range of this process. Pure: works on the text of /proc/self/maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["MappedFile", "files_behind", "rights"]

# Mappings with an inode that are no file anybody could cut short.
_NOT_FILES = ("/dev/zero", "[", "anon_inode:")


class MappedFile(NamedTuple):
    """A file some of whose pages are mapped."""

    name: str
    inode: int


def files_behind(maps: Iterable[str], address: int, length: int) -> list[MappedFile]:
    """The files that are mapped into the range, memory files among them."""
    found = []
    for low, high, (_, _, _, inode, *path) in _mappings(maps):
        if low < address + length and address < high and int(inode):
            name = path[0].strip() if path else ""
            if not name.startswith(_NOT_FILES):
                found.append(MappedFile(name, int(inode)))
    return found


def rights(maps: Iterable[str], address: int, length: int) -> str:
    """ "rw", "r" or "": whatever may be done with every byte of the range."""
    least, at = "rw", address
    for low, high, (flags, *_) in _mappings(maps):
        if high <= at:
            continue
        if low > at or flags[0] != "r":
            return ""
        least = least if flags[1] == "w" else "r"
        at = high
        if at >= address + length:
            return least
    return ""


def _mappings(maps: Iterable[str]) -> Iterator[tuple[int, int, list[str]]]:
    """Begin, end, and what else a line says: rights, offset, device, inode, path."""
    for line in maps:
        span, *rest = line.split(maxsplit=5)
        low, high = (int(end, 16) for end in span.split("-"))
        yield low, high, rest

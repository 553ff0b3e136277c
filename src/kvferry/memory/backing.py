"""What lies behind an address range of this process. Pure: works on the text of /proc/self/maps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["MappedFile", "files_behind"]

# Mappings with an inode that are no file anybody could cut short.
_NOT_FILES = ("/dev/zero", "[", "anon_inode:")


class MappedFile(NamedTuple):
    """A file some of whose pages are mapped."""

    name: str
    inode: int


def files_behind(maps: Iterable[str], address: int, length: int) -> list[MappedFile]:
    """The files that are mapped into the range, memory files among them."""
    found = []
    for line in maps:
        span, _, _, _, inode, *path = line.split(maxsplit=5)
        low, high = (int(end, 16) for end in span.split("-"))
        if low < address + length and address < high and int(inode):
            name = path[0].strip() if path else ""
            if not name.startswith(_NOT_FILES):
                found.append(MappedFile(name, int(inode)))
    return found

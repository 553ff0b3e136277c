"""What lies behind an address range of this process. Pure: works on the text of /proc/self/maps."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["file_behind"]

# A deleted or in-memory file that nobody else can cut short, as far as its name tells.
_ACCEPTED = ("/memfd:", "/dev/zero", "[", "anon_inode:", "//anon")


def file_behind(maps: Iterable[str], address: int, length: int) -> str | None:
    """The first file that is mapped into the range and could be truncated under us, or None."""
    for line in maps:
        span, _, _, _, inode, *path = line.split(maxsplit=5)
        low, high = (int(end, 16) for end in span.split("-"))
        if low < address + length and address < high and int(inode):
            name = path[0].strip() if path else ""
            if not name.startswith(_ACCEPTED):
                return name
    return None

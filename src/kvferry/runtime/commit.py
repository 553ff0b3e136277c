"""Whether the machine has the memory: decided from the text of files under /proc and /sys.

A process that touches more than there is gets killed, not told; so the sums are done before.

    host            MemAvailable of /proc/meminfo
    control groups  of the process's own and of every group above it:

                    limit                  used                   of that, given back on demand
      version 2     memory.max             memory.current         inactive_file in memory.stat
      version 1     memory.limit_in_bytes  memory.usage_in_bytes  total_inactive_file

A part of each is left alone: 2 per cent, 64 MiB at least. Nothing here is atomic: another process
may take the same memory at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..errors import NoMemory

__all__ = ["Group", "Room", "check", "free_pages", "groups", "huge_bytes", "rooms"]

RESERVE_SHARE = 50
RESERVE_LEAST = 64 << 20

# Version 1 writes "no limit" as the largest number of whole pages.
UNLIMITED = 1 << 62

Read = Callable[[str], str | None]


class Room(NamedTuple):
    """Bytes that may be taken, and who says so."""

    source: str
    available: int


class Group(NamedTuple):
    """A control group: its folder and the names of the files in it."""

    folder: str
    limit: str
    used: str
    reclaimable: str


V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")


def check(asked: int, rooms: Iterable[Room]) -> None:
    """Raise NoMemory, naming the tightest, unless every room holds `asked` bytes."""
    tightest = min(rooms, key=lambda room: room.available, default=None)
    if tightest is not None and asked > tightest.available:
        raise NoMemory(
            f"asked for {asked} bytes, {tightest.available} are available ({tightest.source})",
            cause="no_memory",
        )


def rooms(read: Read) -> Iterator[Room]:
    """Every bound on what this process may take. `read` gives a file's text, or None."""
    meminfo = read("/proc/meminfo") or ""
    total, available = _kib(meminfo, "MemTotal"), _kib(meminfo, "MemAvailable")
    if total is not None and available is not None:
        yield Room("MemAvailable", _less_reserve(available, total))
    for group in groups(read("/proc/self/cgroup") or "", read("/proc/self/mountinfo") or ""):
        room = _room(group, read)
        if room is not None:
            yield room


def groups(cgroup: str, mountinfo: str) -> Iterator[Group]:
    """The control groups that bound our memory, from our own up to the highest one visible."""
    mounts = list(_mounts(mountinfo))
    for line in cgroup.splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        version = "cgroup2" if hierarchy == "0" else "cgroup"
        if version == "cgroup" and "memory" not in controllers.split(","):
            continue
        for kind, root, point, options in mounts:
            if kind == version and (kind == "cgroup2" or "memory" in options.split(",")):
                names = V2 if kind == "cgroup2" else V1
                for folder in _climb(point, _below(root, path)):
                    yield Group(folder, *names)
                break


def free_pages(free: str | None, reserved: str | None) -> int:
    """Pages of a hugetlb pool that nobody has been promised; no pool has none."""
    return max(0, int(free or 0) - int(reserved or 0))


def huge_bytes(smaps: Iterable[str], address: int) -> int:
    """Bytes of the mapping at `address` that are mapped by huge pages, from /proc/self/smaps."""
    ours = False
    for line in smaps:
        if not line[:1].isupper():  # a mapping begins, with its addresses
            ours = line.startswith(f"{address:x}-")
        elif ours and line.startswith("ShmemPmdMapped:"):
            return int(line.split()[1]) << 10
    return 0


def _room(group: Group, read: Read) -> Room | None:
    limit = read(f"{group.folder}/{group.limit}")
    used = read(f"{group.folder}/{group.used}")
    if limit is None or used is None or limit.strip() == "max" or int(limit) >= UNLIMITED:
        return None
    stat = read(f"{group.folder}/memory.stat") or ""
    found = re.search(rf"^{group.reclaimable} (\d+)$", stat, re.MULTILINE)
    reclaimable = int(found[1]) if found else 0
    available = int(limit) - int(used) + reclaimable
    return Room(f"{group.folder}/{group.limit}", _less_reserve(available, int(limit)))


def _less_reserve(available: int, total: int) -> int:
    return max(0, available - max(total // RESERVE_SHARE, RESERVE_LEAST))


def _kib(meminfo: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(found[1]) << 10 if found else None


def _mounts(mountinfo: str) -> Iterator[tuple[str, str, str, str]]:
    """(file system, its folder that is mounted, mount point, super options) of each line."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _source, options = after.split(" ", 2)
        root, point = before.split(" ")[3:5]
        yield kind, root, point, options


def _below(root: str, path: str) -> str:
    """`path`, which counts from the hierarchy's top, as seen below the folder that is mounted."""
    if ".." in path.split("/"):
        return "/"
    if root == "/":
        return path
    return path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else "/"


def _climb(point: str, path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts), -1, -1):
        yield "/".join([point.rstrip("/"), *parts[:depth]])

"""What a piece of code left behind: descriptors, threads, children, shared memory, files."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

__all__ = ["LeakCheck", "Leaked", "holdings"]

SHARED_MEMORY = Path("/dev/shm")
OURS = "memfd:kvferry"
POLL_SECONDS = 0.01

# Threads of a pool take each other's place: their number and their id say nothing.
NUMBERED = re.compile(r"[-_]\d+$")


class Leaked(AssertionError):
    """Something was still held; ``what`` names each thing."""

    def __init__(self, what: list[str]) -> None:
        super().__init__("left behind:\n" + "\n".join(f"  {name}" for name in what))
        self.what = what


class LeakCheck:
    """Raises Leaked on exit when its block left behind what was not there on entry.

    Blocks up to `grace` seconds for what ends by itself: a joined thread leaves the kernel's
    table a moment after it was joined. A block that raised is not checked, because its traceback
    keeps alive what it held. `folders` are watched for new files. Sees the whole process: what
    other threads open meanwhile counts too.
    """

    def __init__(self, *, folders: Iterable[Path] = (), grace: float = 2.0) -> None:
        self._folders = tuple(folders)
        self._grace = grace
        self._before: Counter[str] = Counter()

    def __enter__(self) -> LeakCheck:
        self._before = holdings(self._folders)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        left = self.left()
        if left:
            raise Leaked(left)

    def left(self) -> list[str]:
        """What is held now and was not on entry, after the grace it may need to go away."""
        deadline = time.monotonic() + self._grace
        while left := holdings(self._folders) - self._before:
            if time.monotonic() >= deadline:
                break
            gc.collect()
            time.sleep(POLL_SECONDS)
        return [told(name, size) for name, size in left.items()]


def told(name: str, size: int) -> str:
    if name.startswith("mapping"):
        return f"{name}: {size} bytes"
    return name if size == 1 else f"{name}, {size} times"


def holdings(folders: Iterable[Path] = ()) -> Counter[str]:
    """Everything this process holds, by a name that says what it is.

    Counts one for each thing, and bytes for mappings: the kernel splits and joins the lines of
    one mapping as it likes, the bytes of one memory file stay.
    """
    held = Counter(
        [*_descriptors(), *_threads(), *_children(), *_shared_memory(), *_files(folders)]
    )
    for line in Path("/proc/self/maps").read_text().splitlines():
        mapping = parse_mapping(line)
        if mapping is not None:
            name, size = mapping
            held[name] += size
    return held


def parse_mapping(line: str) -> tuple[str, int] | None:
    """Name and bytes of a line of /proc/self/maps that maps a memory file of ours, else None."""
    if OURS not in line:  # the many of a process that has loaded much
        return None
    addresses, _rights, _offset, _device, inode, *name = line.split(maxsplit=5)
    if not name or OURS not in name[0]:
        return None
    start, end = (int(part, 16) for part in addresses.split("-"))
    return f"mapping of {name[0].removesuffix(' (deleted)')} inode {inode}", end - start


def parse_parent(stat: str) -> int:
    """The parent in a /proc/PID/stat line, whose second field may hold spaces and brackets."""
    return int(stat.rpartition(")")[2].split()[1])


def _descriptors() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        target = _read(os.readlink, f"/proc/self/fd/{number}")
        # The listing's own descriptor is gone again, or names this folder.
        if target is not None and not target.endswith("/fd"):
            yield f"descriptor {number} of {target}"


def _threads() -> Iterator[str]:
    python = {thread.native_id: thread.name for thread in threading.enumerate()}
    # The kernel may pass over a thread when another ends while it lists them.
    tasks = {task for _ in range(2) for task in os.listdir("/proc/self/task")}
    for task in tasks:
        name = _read(_text, f"/proc/self/task/{task}/comm")
        known = python.get(int(task), "")
        if NUMBERED.search(known):
            yield f"thread of {NUMBERED.sub('', known)}"
        elif name is not None:
            yield f"thread {task} ({known or name.strip() + ', native'})"


def _children() -> Iterator[str]:
    me = os.getpid()
    for process in _candidates():
        stat = _read(_text, f"/proc/{process}/stat")
        if stat is not None and parse_parent(stat) == me:
            yield f"child process {stat.rpartition(')')[0]})"


def _candidates() -> Iterator[str]:
    """Processes that may be children of this one: all of them where the kernel keeps no list."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        yield from filter(str.isdecimal, os.listdir("/proc"))
        return
    for task in os.listdir("/proc/self/task"):
        yield from (_read(_text, f"/proc/self/task/{task}/children") or "").split()


def _shared_memory() -> Iterator[str]:
    for name in os.listdir(SHARED_MEMORY):
        if "kvferry" in name:
            yield f"file {SHARED_MEMORY / name}"


def _files(folders: Iterable[Path]) -> Iterator[str]:
    for folder in folders:
        for path in folder.rglob("*"):
            yield f"{'socket' if path.is_socket() else 'file'} {path}"


def _text(path: str) -> str:
    return Path(path).read_text()


def _read(read: Callable[[str], str], path: str) -> str | None:
    """What `path` says, or None when it ended between its listing and now."""
    try:
        return read(path)
    except (FileNotFoundError, ProcessLookupError):
        return None

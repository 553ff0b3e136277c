"""What machine this is: the facts that stand beside every measurement."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import kvferry

from ..runtime.commit import UNLIMITED, groups

__all__ = ["Machine", "read_machine", "read_text"]

HUGETLB = "/sys/kernel/mm/hugepages/hugepages-2048kB"
CACHES = "/sys/devices/system/cpu/cpu0/cache"
THP = "/sys/kernel/mm/transparent_hugepage"


@dataclass(frozen=True, slots=True)
class Machine:
    """Sizes are bytes; None is what the machine does not tell, or has not got.

    usable_cpus    logical processors this process may run on
    l2, l3         cache of the first processor, private and shared
    memory_limit   the tightest control group's; None: no limit
    cpu_limit      processors the tightest control group grants; None: no limit
    thp, thp_shmem huge pages on demand: setting for private memory, and for memory files
    hugetlb        (pages in all, free) of the pool of 2 MiB pages
    commit         of the checkout the package runs from, with "-dirty" when files differ
    """

    cpu: str
    usable_cpus: int
    numa_nodes: int
    l2: int | None
    l3: int | None
    memory: int
    memory_available: int
    memory_limit: int | None
    cpu_limit: float | None
    kernel: str
    thp: str | None
    thp_shmem: str | None
    hugetlb: tuple[int, int]
    python: str
    numpy: str
    kvferry: str
    commit: str | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def read_machine() -> Machine:
    """The facts of this machine as they are now. Reads /proc and /sys and asks git; about 10 ms."""
    meminfo = parse_meminfo(read_text("/proc/meminfo") or "")
    cgroup = read_text("/proc/self/cgroup") or ""
    caches = dict(_caches())
    return Machine(
        cpu=parse_cpu(read_text("/proc/cpuinfo") or "") or platform.machine(),
        usable_cpus=len(os.sched_getaffinity(0)),
        numa_nodes=count_list(read_text("/sys/devices/system/node/online") or "0"),
        l2=caches.get(2),
        l3=caches.get(3),
        memory=meminfo.get("MemTotal", 0),
        memory_available=meminfo.get("MemAvailable", 0),
        memory_limit=_memory_limit(cgroup),
        cpu_limit=min(_cpu_limits(cgroup), default=None),
        kernel=platform.release(),
        thp=parse_choice(read_text(f"{THP}/enabled")),
        thp_shmem=parse_choice(read_text(f"{THP}/shmem_enabled")),
        hugetlb=(_count(f"{HUGETLB}/nr_hugepages"), _count(f"{HUGETLB}/free_hugepages")),
        python=platform.python_version(),
        numpy=metadata.version("numpy"),
        kvferry=metadata.version("kvferry"),
        commit=_commit(Path(kvferry.__file__).parent),
    )


def parse_cpu(cpuinfo: str) -> str | None:
    """The processor's name; on arm64, which has none there, its implementer and part."""
    fields = dict(re.findall(r"^(.+?)\s*: *(.+)$", cpuinfo, re.MULTILINE))
    if "model name" in fields:
        return str(fields["model name"]).strip()
    if "CPU part" in fields:
        return f"implementer {fields.get('CPU implementer')} part {fields['CPU part']}"
    return None


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes of every line of /proc/meminfo that is a size."""
    return {name: int(kib) << 10 for name, kib in re.findall(r"^(\S+): +(\d+) kB$", text, re.M)}


def parse_choice(text: str | None) -> str | None:
    """The word in brackets: ``always [madvise] never`` is madvise."""
    found = re.search(r"\[(\w+)\]", text or "")
    return found[1] if found else None


def parse_size(text: str) -> int:
    """``512K`` and ``32M`` in bytes."""
    found = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if found is None:
        raise ValueError(f"no size: {text!r}")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def count_list(text: str) -> int:
    """How many numbers a list such as ``0-3,8`` names."""
    parts = [part.partition("-") for part in text.strip().split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)


def parse_quota(quota: str, period: str) -> float | None:
    """Processors that a control group grants; None for ``max`` and -1, which are no limit."""
    if quota == "max" or int(quota) <= 0:
        return None
    return int(quota) / int(period)


def cpu_folders(cgroup: str) -> Iterator[str]:
    """Where the processor limits of our control groups stand, at the usual mount points."""
    for line in cgroup.splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if hierarchy == "0":
            mount = "/sys/fs/cgroup"
        elif "cpu" in names:
            mount = f"/sys/fs/cgroup/{controllers}"
        else:
            continue
        for folder in (Path(path), *Path(path).parents):
            yield f"{mount}{folder}".rstrip("/")


def read_text(path: str) -> str | None:
    """A small file's text without white space around it, or None when it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _count(path: str) -> int:
    return int(read_text(path) or 0)


def _caches() -> Iterator[tuple[int, int]]:
    for folder in sorted(Path(CACHES).glob("index*")):
        level, size, kind = (read_text(f"{folder}/{name}") for name in ("level", "size", "type"))
        if level and size and kind != "Instruction":
            yield int(level), parse_size(size)


def _memory_limit(cgroup: str) -> int | None:
    bounds = groups(cgroup, read_text("/proc/self/mountinfo") or "")
    limits = _numbers(read_text(f"{group.folder}/{group.limit}") for group in bounds)
    return min((limit for limit in limits if limit < UNLIMITED), default=None)


def _numbers(texts: Iterable[str | None]) -> Iterator[int]:
    return (int(text) for text in texts if text and text.isdecimal())


def _cpu_limits(cgroup: str) -> Iterator[float]:
    for folder in cpu_folders(cgroup):
        quota, period = _quota(folder)
        limit = parse_quota(quota, period) if quota and period else None
        if limit is not None:
            yield limit


def _quota(folder: str) -> tuple[str | None, str | None]:
    """Quota and period of one control group, of version 2 or 1."""
    both = read_text(f"{folder}/cpu.max")
    if both is not None:
        quota, _, period = both.partition(" ")
        return quota, period
    return read_text(f"{folder}/cpu.cfs_quota_us"), read_text(f"{folder}/cpu.cfs_period_us")


def _commit(package: Path) -> str | None:
    """Only of the checkout that holds the package as its own source, not of one around a venv."""
    root = package.parents[1]
    if not (root / ".git").exists() or package != root / "src" / "kvferry":
        return None
    command = [
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None

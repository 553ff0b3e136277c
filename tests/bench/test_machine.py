from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

from kvferry.bench import machine
from kvferry.bench.machine import (
    count_list,
    cpu_folders,
    parse_choice,
    parse_cpu,
    parse_meminfo,
    parse_quota,
    parse_size,
    read_machine,
)


def test_reads_this_machine() -> None:
    here = read_machine()
    assert here.usable_cpus == len(os.sched_getaffinity(0))
    assert here.kernel == platform.release()
    assert 0 < here.memory_available <= here.memory
    assert here.memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert here.numa_nodes >= 1
    assert here.python == platform.python_version()


def test_survives_json() -> None:
    here = read_machine()
    told = json.loads(json.dumps(here.as_dict()))
    assert told == {**here.as_dict(), "hugetlb": list(here.hugetlb)}


def test_names_a_processor() -> None:
    x86 = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n\nprocessor\t: 1\n"
    arm = "processor\t: 0\nCPU implementer\t: 0x48\nCPU part\t: 0xd01\n"
    assert parse_cpu(x86) == "Some CPU @ 2.0GHz"
    assert parse_cpu(arm) == "implementer 0x48 part 0xd01"
    assert parse_cpu("") is None


def test_reads_sizes_of_meminfo() -> None:
    text = "MemTotal:       16 kB\nHugePages_Total:       3\nActive(anon):    2 kB\n"
    assert parse_meminfo(text) == {"MemTotal": 16 << 10, "Active(anon)": 2 << 10}


@pytest.mark.parametrize(
    ("text", "choice"),
    [("always [madvise] never", "madvise"), ("[never]", "never"), ("", None), (None, None)],
)
def test_reads_a_choice(text: str | None, choice: str | None) -> None:
    assert parse_choice(text) == choice


@pytest.mark.parametrize(
    ("text", "size"), [("512K", 512 << 10), ("32M\n", 32 << 20), ("1G", 1 << 30), ("64", 64)]
)
def test_reads_a_size(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_refuses_what_is_no_size() -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_size("many")


@pytest.mark.parametrize(("text", "count"), [("0", 1), ("0-3", 4), ("0-1,8,10-11\n", 5), ("", 0)])
def test_counts_a_list(text: str, count: int) -> None:
    assert count_list(text) == count


@pytest.mark.parametrize(
    ("quota", "period", "cpus"),
    [("150000", "100000", 1.5), ("max", "100000", None), ("-1", "100000", None)],
)
def test_reads_a_quota(quota: str, period: str, cpus: float | None) -> None:
    assert parse_quota(quota, period) == cpus


def test_finds_the_processor_groups_of_both_versions() -> None:
    assert list(cpu_folders("0::/a/b")) == [
        "/sys/fs/cgroup/a/b",
        "/sys/fs/cgroup/a",
        "/sys/fs/cgroup",
    ]
    assert list(cpu_folders("4:memory:/m\n3:cpu,cpuacct:/c\n2:cpuset:/s")) == [
        "/sys/fs/cgroup/cpu,cpuacct/c",
        "/sys/fs/cgroup/cpu,cpuacct",
    ]


@pytest.mark.parametrize(
    "files",
    [
        {"cpu.max": "50000 100000\n"},
        {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"},
    ],
)
def test_reads_the_limit_of_both_versions(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    quota, period = machine._quota(str(tmp_path))
    assert quota is not None
    assert period is not None
    assert parse_quota(quota, period) == 0.5


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_names_the_commit_of_its_own_checkout_only(tmp_path: Path) -> None:
    package = tmp_path / "src" / "kvferry"
    package.mkdir(parents=True)
    (package / "a.py").write_text("")
    assert machine._commit(package) is None
    git(tmp_path, "init", "-q")
    assert machine._commit(package) is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "a")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert machine._commit(package) == head
    (package / "a.py").write_text("changed")
    assert machine._commit(package) == f"{head}-dirty"
    installed = tmp_path / "venv" / "site-packages" / "kvferry"
    installed.mkdir(parents=True)
    assert machine._commit(installed) is None

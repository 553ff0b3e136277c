"""Room in the machine and its control groups, from the text of their files."""

from __future__ import annotations

import pytest

from kvferry.errors import NoMemory
from kvferry.runtime.commit import Room, check, free_pages, groups, huge_bytes, rooms

GIB = 1 << 30
MIB = 1 << 20

MEMINFO = f"""\
MemTotal:       {100 * GIB >> 10} kB
MemFree:        {1 * GIB >> 10} kB
MemAvailable:   {60 * GIB >> 10} kB
"""

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = """\
31 23 0:27 / /sys/fs/cgroup/cpu rw shared:5 - cgroup cgroup rw,cpu
32 23 0:28 {root} /sys/fs/cgroup/memory rw shared:6 - cgroup cgroup rw,memory
"""


def read(**files: str) -> dict[str, Room]:
    texts = {"/proc/meminfo": MEMINFO, **files}
    return {room.source: room for room in rooms(texts.get)}


def test_the_host_keeps_two_per_cent() -> None:
    assert read() == {"MemAvailable": Room("MemAvailable", 58 * GIB)}


def test_a_small_host_keeps_64_mib_and_never_less_than_nothing() -> None:
    small = "MemTotal: 1048576 kB\nMemAvailable: 102400 kB\n"
    assert read(**{"/proc/meminfo": small})["MemAvailable"].available == 36 * MIB
    assert read(**{"/proc/meminfo": small.replace("102400", "1024")})["MemAvailable"].available == 0


def test_no_files_no_bounds() -> None:
    assert list(rooms(lambda path: None)) == []


def test_version_2_climbs_to_the_top() -> None:
    found = read(
        **{
            "/proc/self/cgroup": "0::/user.slice/job.scope\n",
            "/proc/self/mountinfo": V2_MOUNT,
            "/sys/fs/cgroup/user.slice/job.scope/memory.max": "max\n",
            "/sys/fs/cgroup/user.slice/job.scope/memory.current": "0\n",
            "/sys/fs/cgroup/user.slice/memory.max": f"{10 * GIB}\n",
            "/sys/fs/cgroup/user.slice/memory.current": f"{9 * GIB}\n",
            "/sys/fs/cgroup/user.slice/memory.stat": f"anon 5\ninactive_file {2 * GIB}\nshmem 7\n",
        }
    )
    assert set(found) == {"MemAvailable", "/sys/fs/cgroup/user.slice/memory.max"}
    assert found["/sys/fs/cgroup/user.slice/memory.max"].available == 3 * GIB - 10 * GIB // 50


def test_version_1_counts_from_the_folder_that_is_mounted() -> None:
    folder = "/sys/fs/cgroup/memory"
    found = read(
        **{
            "/proc/self/cgroup": "4:memory:/docker/1f\n3:cpu:/\n0::/\n",
            "/proc/self/mountinfo": V1_MOUNTS.format(root="/docker/1f"),
            f"{folder}/memory.limit_in_bytes": f"{8 * GIB}\n",
            f"{folder}/memory.usage_in_bytes": f"{8 * GIB}\n",
            f"{folder}/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB}\n",
        }
    )
    room = found[f"{folder}/memory.limit_in_bytes"]
    assert room.available == GIB - 8 * GIB // 50


def test_version_1_writes_no_limit_as_a_large_number() -> None:
    folder = "/sys/fs/cgroup/memory"
    found = read(
        **{
            "/proc/self/cgroup": "4:memory:/\n",
            "/proc/self/mountinfo": V1_MOUNTS.format(root="/"),
            f"{folder}/memory.limit_in_bytes": "9223372036854771712\n",
            f"{folder}/memory.usage_in_bytes": "1\n",
        }
    )
    assert set(found) == {"MemAvailable"}


@pytest.mark.parametrize(
    ("path", "root", "folders"),
    [
        ("/", "/", ["/c"]),
        ("/a/b", "/", ["/c/a/b", "/c/a", "/c"]),
        ("/a/b", "/a", ["/c/b", "/c"]),
        ("/a", "/a", ["/c"]),
        ("/ab", "/a", ["/c"]),
        ("/../other", "/", ["/c"]),
    ],
)
def test_folders_of_the_groups(path: str, root: str, folders: list[str]) -> None:
    mount = f"30 23 0:26 {root} /c rw - cgroup2 cgroup2 rw\n"
    assert [group.folder for group in groups(f"0::{path}\n", mount)] == folders


def test_the_tightest_room_decides_and_is_named() -> None:
    wide, tight = Room("MemAvailable", 100), Room("/group/memory.max", 10)
    check(10, [wide, tight])
    with pytest.raises(
        NoMemory, match=r"asked for 11 bytes, 10 are available \(/group/memory.max\)"
    ):
        check(11, [wide, tight])
    check(1 << 60, [])


def test_promised_pages_of_the_pool_are_not_free() -> None:
    assert free_pages("5\n", "2\n") == 3
    assert free_pages("1\n", "2\n") == 0
    assert free_pages(None, None) == 0


SMAPS = """\
7f0000000000-7f0000200000 rw-s 00000000 00:01 7   /memfd:kvferry (deleted)
Size:               2048 kB
ShmemPmdMapped:        0 kB
VmFlags: rd wr sh
7f0000200000-7f0000800000 rw-s 00000000 00:01 8   /memfd:kvferry (deleted)
Size:               6144 kB
ShmemPmdMapped:     4096 kB
"""


def test_huge_bytes_are_those_of_one_mapping() -> None:
    lines = SMAPS.splitlines()
    assert huge_bytes(lines, 0x7F0000200000) == 4 * MIB
    assert huge_bytes(lines, 0x7F0000000000) == 0
    assert huge_bytes(lines, 0x1000) == 0

"""What lies behind memory that somebody wants to register."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from kvferry.memory.backing import MappedFile, files_behind, rights

PAGE = mmap.PAGESIZE

MAPS = """\
1000-3000 r-xp 00000000 08:02 173521      /usr/bin/python3
3000-5000 rw-p 00000000 00:00 0
5000-6000 rw-p 00000000 00:00 0           [heap]
6000-7000 rw-s 00000000 00:01 99          /memfd:kvferry (deleted)
7000-8000 rw-s 00000000 00:01 77          /dev/zero (deleted)
8000-9000 rw-s 00000000 00:1b 12          /dev/shm/other
9000-a000 rw-s 00000000 08:02 55          /home/me/with  two spaces (deleted)
b000-c000 rw-s 00000000 00:01 5           /SYSV00000000 (deleted)
c000-d000 rw-s 00000000 00:0e 9           anon_inode:[something]
""".splitlines(keepends=True)


PYTHON = MappedFile("/usr/bin/python3", 173521)
MEMFD = MappedFile("/memfd:kvferry (deleted)", 99)
SHM = MappedFile("/dev/shm/other", 12)
SPACES = MappedFile("/home/me/with  two spaces (deleted)", 55)
SYSV = MappedFile("/SYSV00000000 (deleted)", 5)


@pytest.mark.parametrize(
    ("low", "high", "files"),
    [
        (0x0, 0x1000, []),
        (0x0, 0x1001, [PYTHON]),
        (0x2FFF, 0x3000, [PYTHON]),
        (0x3000, 0x6000, []),
        (0x5FFF, 0x6001, [MEMFD]),
        (0x7000, 0x8000, []),
        (0x6FFF, 0x8001, [MEMFD, SHM]),
        (0x9000, 0x9001, [SPACES]),
        (0xA000, 0xB000, []),
        (0xB000, 0xB001, [SYSV]),
        (0xC000, 0xD000, []),
        (0x0, 0x100000, [PYTHON, MEMFD, SHM, SPACES, SYSV]),
    ],
)
def test_read_from_text(low: int, high: int, files: list[MappedFile]) -> None:
    assert files_behind(MAPS, low, high - low) == files


@contextmanager
def mapping(fd: int) -> Iterator[int]:
    """Address of two pages of a file."""
    with mmap.mmap(fd, 2 * PAGE) as pages:
        yield ctypes.addressof(ctypes.c_char.from_buffer(pages))


def behind(address: int, length: int) -> list[MappedFile]:
    with open("/proc/self/maps") as maps:
        return files_behind(maps, address, length)


def test_a_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "with space"
    path.write_bytes(bytes(2 * PAGE))
    inode = path.stat().st_ino
    with open(path, "r+b") as file, mapping(file.fileno()) as address:
        assert behind(address, 1) == [MappedFile(str(path), inode)]
        assert behind(address + 2 * PAGE - 1, 1) == [MappedFile(str(path), inode)]
        path.unlink()
        assert behind(address, 1) == [MappedFile(f"{path} (deleted)", inode)]


def test_a_memory_file() -> None:
    fd = os.memfd_create("kvferry", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, 2 * PAGE)
        with mapping(fd) as address:
            (file,) = behind(address, 2 * PAGE)
        assert file == ("/memfd:kvferry (deleted)", os.fstat(fd).st_ino)
    finally:
        os.close(fd)


def test_memory_that_is_no_file() -> None:
    small, large = np.zeros(8), np.zeros(1 << 20)
    assert behind(small.ctypes.data, 64) == []
    assert behind(large.ctypes.data, large.nbytes) == []
    with mapping(-1) as address:
        assert behind(address, 2 * PAGE) == []


RIGHTS = """\
1000-3000 rw-p 00000000 00:00 0
3000-4000 rw-p 00000000 00:00 0    [heap]
4000-5000 r--p 00000000 08:01 7    /lib/x.so
6000-7000 rw-p 00000000 00:00 0
7000-8000 ---p 00000000 00:00 0
8000-9000 -w-p 00000000 00:00 0
"""


@pytest.mark.parametrize(
    ("address", "length", "expected"),
    [
        (0x1000, 0x3000, "rw"),
        (0x3FFF, 1, "rw"),
        (0x3FFF, 2, "r"),
        (0x4000, 0x1000, "r"),
        (0x4000, 0x1001, ""),
        (0x0FFF, 2, ""),
        (0x5000, 1, ""),
        (0x6000, 0x1000, "rw"),
        (0x6000, 0x1001, ""),
        (0x8000, 1, ""),
        (0x9000, 1, ""),
    ],
)
def test_rights(address: int, length: int, expected: str) -> None:
    assert rights(RIGHTS.splitlines(), address, length) == expected

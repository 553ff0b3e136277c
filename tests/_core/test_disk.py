"""Checksums, staging and reading of what lies on a disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry import _core
from kvferry.store.ssd.disk import Aligned

OK, CORRUPT = _core.DISK_OK, _core.DISK_CORRUPT
MISSING, FAILED = _core.DISK_MISSING, _core.DISK_FAILED
BLOCK = 4096
SIZE = 40 * BLOCK
ANY = np.random.default_rng(7).integers(0, 256, SIZE, np.uint8)


def words(*values: int) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


def bit_by_bit(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_sums(data: bytes, crc: int) -> None:
    assert _core.crc32c(data) == crc


@pytest.mark.parametrize("length", [1, 7, 8, 9, 3071, 3072, 3073, 6151])
@pytest.mark.parametrize("start", [0, 3])
def test_sums_of_any_length(length: int, start: int) -> None:
    data = ANY[start : start + length].tobytes()
    assert _core.crc32c(data) == bit_by_bit(data)
    cut = length // 3
    assert _core.crc32c(data[cut:], _core.crc32c(data[:cut])) == bit_by_bit(data)
    addresses = words(ANY.ctypes.data + start, ANY.ctypes.data)
    sums = _core.crc32c_all(addresses, words(length, 0)).tolist()
    assert sums == [bit_by_bit(data), 0]


def test_staged_values_lie_among_zeros() -> None:
    run = np.full(1000, 9, np.uint8)
    ats, lengths = words(100, 164, 900), words(60, 0, 100)
    addresses = words(ANY.ctypes.data, 0, ANY.ctypes.data + 500)
    crcs = _core.stage(run.ctypes.data, 64, 1000, ats, lengths, addresses)
    expected = np.zeros(1000, np.uint8)
    expected[:64] = 9
    expected[100:160], expected[900:] = ANY[:60], ANY[500:600]
    assert (run == expected).all()
    assert crcs.tolist() == [_core.crc32c(ANY[:60]), 0, _core.crc32c(ANY[500:600])]


@pytest.mark.parametrize(
    ("ats", "lengths"),
    [
        (words(63), words(1)),
        (words(64, 100), words(37, 1)),
        (words(100, 64), words(1, 1)),
        (words(990), words(11)),
        (words(1 << 63), words(1 << 63)),
        (words(64), words(2**64 - 64)),
        (words(64, 65), words(1)),
    ],
)
def test_what_does_not_fit_is_not_staged(
    ats: NDArray[np.uint64], lengths: NDArray[np.uint64]
) -> None:
    run = np.full(1000, 9, np.uint8)
    with pytest.raises(ValueError, match=r"values|arrays"):
        _core.stage(run.ctypes.data, 64, 1000, ats, lengths, np.zeros_like(ats))
    assert (run == 9).all()


@pytest.fixture(params=[os.O_DIRECT, 0], ids=["direct", "plain"])
def fd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(ANY.tobytes())
    fd = os.open(path, os.O_RDONLY | request.param)
    yield fd
    os.close(fd)


class Reads:
    """Reads of records, and where they went."""

    def __init__(self, room: int = 4 * BLOCK) -> None:
        self.scratch = Aligned(room)
        self.target = np.full(2 * SIZE, 9, np.uint8)

    def __call__(
        self, fds: list[int], offsets: list[int], lengths: list[int], crcs: list[int]
    ) -> list[int]:
        starts = np.cumsum([0, *lengths[:-1]]).astype(np.uint64)
        return _core.disk_read(
            np.array(fds, np.int32),
            words(*offsets),
            words(*lengths),
            np.array(crcs, np.uint32),
            starts + np.uint64(self.target.ctypes.data),
            self.scratch.address,
            len(self.scratch),
        ).tolist()


def sum_at(offset: int, length: int) -> int:
    return _core.crc32c(ANY[offset : offset + length])


@pytest.mark.parametrize("room", [2 * BLOCK, 5 * BLOCK, 64 * BLOCK])
def test_records_are_read_wherever_they_lie(fd: int, room: int) -> None:
    random = np.random.default_rng(room)
    offsets = (random.integers(0, SIZE // 64, 24) * 64).tolist()
    lengths = [int(random.integers(0, min(SIZE - at, 9 * BLOCK) + 1)) for at in offsets]
    for chosen in (offsets, sorted(offsets)):
        lengths = [min(length, SIZE - at) for length, at in zip(lengths, chosen, strict=True)]
        for at, length in zip(chosen, lengths, strict=True):
            reads = Reads(room)
            assert reads([fd], [at], [length], [sum_at(at, length)]) == [OK]
            assert (reads.target[:length] == ANY[at : at + length]).all()
            assert (reads.target[length:] == 9).all()
        few = slice(0, 9)
        reads = Reads(room)
        crcs = list(map(sum_at, chosen, lengths))
        assert reads([fd] * 9, chosen[few], lengths[few], crcs[few]) == [OK] * 9
        pieces = [ANY[a : a + n] for a, n in zip(chosen[few], lengths[few], strict=True)]
        assert (reads.target[: sum(lengths[few])] == np.concatenate(pieces)).all()


def test_each_record_has_a_verdict(fd: int, tmp_path: Path) -> None:
    write_only = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
    reads = Reads()
    crc = sum_at(64, 100)
    cases = [
        (fd, 64, 100, crc, OK),
        (fd, 64, 100, crc ^ 1, CORRUPT),
        (-1, 64, 100, crc, MISSING),
        (write_only, 64, 100, crc, FAILED),
        (fd, SIZE - 64, 128, crc, CORRUPT),
        (fd, 8 * SIZE, 128, crc, CORRUPT),
        (fd, 64, 100, crc, OK),
    ]
    fds, offsets, lengths, crcs, verdicts = map(list, zip(*cases, strict=True))
    assert reads(fds, offsets, lengths, crcs) == verdicts
    assert (reads.target[:100] == ANY[64:164]).all()
    os.close(write_only)


@pytest.mark.parametrize(("offset", "length"), [(1 << 63, 1), (64, 2**63 - 1), (2**64 - 1, 2)])
def test_impossible_records_are_corrupt(fd: int, offset: int, length: int) -> None:
    scratch = Aligned(2 * BLOCK)
    found = _core.disk_read(
        np.array([fd], np.int32),
        words(offset),
        words(length),
        np.zeros(1, np.uint32),
        words(0),
        scratch.address,
        2 * BLOCK,
    )
    assert found.tolist() == [CORRUPT]


def test_scratch_memory_is_of_whole_blocks(fd: int) -> None:
    nothing = words()
    for address, room in ((64, 2 * BLOCK), (BLOCK, BLOCK), (BLOCK, 2 * BLOCK + 512)):
        with pytest.raises(ValueError, match="whole blocks"):
            _core.disk_read(
                np.zeros(0, np.int32), nothing, nothing, np.zeros(0, "u4"), nothing, address, room
            )

"""Folders that hold anything: opening survives, and no wrong byte is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry import _core
from kvferry.errors import UsageError
from kvferry.store.ssd import record, segment
from kvferry.store.ssd.log import Log
from kvferry.store.ssd.record import BLOCK, ROW, Verdict, summed
from tests.store.ssd.values import append, bury, keys_of, open_log, verdicts

Random = np.random.Generator
Data = NDArray[np.uint8]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sealed segments, and one that is not."""
    folder = tmp_path / "original"
    log, _ = open_log(folder)
    append(log, range(9))
    log.seal()
    append(log, range(10, 19))
    bury(log, [3])
    log.seal()
    append(log, range(20, 25))
    append(log, range(30, 34))
    log.close()
    (folder / f"{2:016x}.idx").unlink()
    return folder


def survive(folder: Path) -> list[tuple[int, bool]]:
    """Open, read all, go on, and open again; the rows that were found."""
    log, found = open_log(folder)
    for each in found:
        assert set(verdicts(log, *each)) <= {Verdict.OK, Verdict.CORRUPT}
    rows = keys_of(found)
    append(log, [40])
    log.close()
    log, found = open_log(folder)
    assert keys_of(found) == [*rows, (40, True)]
    log.close()
    return rows


# anything


def overwrite(data: Data, random: Random) -> Data:
    at = int(random.integers(0, len(data)))
    end = at + int(random.integers(1, 5000))
    data[at:end] = random.integers(0, 256, len(data[at:end]))
    return data


def flip(data: Data, random: Random) -> Data:
    for at in random.integers(0, len(data), random.integers(1, 20)):
        data[at] ^= 1 << int(random.integers(0, 8))
    return data


def shorten(data: Data, random: Random) -> Data:
    return data[: int(random.integers(0, len(data)))]


def lengthen(data: Data, random: Random) -> Data:
    return np.append(data, random.integers(0, 256, int(random.integers(1, 9000)), np.uint8))


def replace(data: Data, random: Random) -> Data:
    return random.integers(0, 256, int(random.integers(0, 9000)), np.uint8)


def swap(data: Data, random: Random) -> Data:
    """Blocks of the file in another order."""
    blocks = data[: len(data) // 64 * 64].reshape(-1, 64)
    return random.permutation(blocks).reshape(-1)


KINDS = [overwrite, flip, shorten, lengthen, replace, swap]


def test_any_bytes(folder: Path, tmp_path: Path) -> None:
    fuzz(folder, tmp_path, rounds=24)


@pytest.mark.slow
def test_many_bytes(folder: Path, tmp_path: Path) -> None:
    fuzz(folder, tmp_path, rounds=1000)


def fuzz(folder: Path, tmp_path: Path, rounds: int) -> None:
    random = np.random.default_rng(rounds)
    names = sorted(path.name for path in folder.glob("0*"))
    for number in range(rounds):
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        for name in random.choice(names, random.integers(1, 3), replace=False):
            kind: Callable[[Data, Random], Data] = KINDS[number % len(KINDS)]
            data = np.fromfile(copy / name, np.uint8)
            kind(data, random).tofile(copy / name)
        survive(copy)
        shutil.rmtree(copy)


def test_an_identity_of_any_bytes(folder: Path) -> None:
    random = np.random.default_rng(3)
    good = np.fromfile(folder / "identity", np.uint8)
    for kind in KINDS * 5:
        kind(good.copy(), random).tofile(folder / "identity")
        if np.fromfile(folder / "identity", np.uint8).tobytes() == good.tobytes():
            continue
        with pytest.raises(UsageError) as raised:
            open_log(folder)
        assert raised.value.cause in ("ssd_damaged", "ssd_version")
    good.tofile(folder / "identity")
    assert len(survive(folder)) == 9 + 10 + 9


def test_what_is_no_plain_file(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / f"{7:016x}.kvf")
    os.mkfifo(folder / f"{1:016x}.new")
    (folder / f"{8:016x}.kvf").mkdir()
    (folder / f"{9:016x}.kvf").symlink_to(folder / f"{0:016x}.kvf")
    (folder / f"{0:016x}.idx").unlink()
    (folder / f"{0:016x}.idx").mkdir()
    (folder / "f").write_bytes(b"")
    (folder / f"{2**63:016x}.kvf").write_bytes(b"?")
    (folder / f"{3:016x}.kvf").write_bytes(b"")
    (folder / "0000000000000002.KVF").write_bytes(b"?")
    assert len(survive(folder)) == 9 + 10 + 9
    assert (folder / f"{9:016x}.kvf").is_symlink()


# lies whose checksums are right


def resum_index(path: Path, lie: Callable[[Any, Any], None]) -> None:
    data = np.fromfile(path, np.uint8)
    head = data[: segment.INDEX_HEAD.itemsize].view(segment.INDEX_HEAD)[0:1].reshape(())
    rows = data[segment.INDEX_HEAD.itemsize :].view(ROW)
    lie(head, rows)
    head["rows_crc32c"] = _core.crc32c(rows.view(np.uint8))
    summed(head)
    data.tofile(path)


def set_row(index: int, **fields: int) -> Callable[[Any, Any], None]:
    def lie(head: Any, rows: Any) -> None:
        for name, value in fields.items():
            rows[name][index] = value

    return lie


def set_head(**fields: int) -> Callable[[Any, Any], None]:
    def lie(head: Any, rows: Any) -> None:
        for name, value in fields.items():
            head[name] = value

    return lie


def overlap(head: Any, rows: Any) -> None:
    rows["at"][8] = rows["at"][7]


INDEX_LIES = {
    "beyond the file": set_row(8, at=1 << 40),
    "longer than the file": set_row(8, length=1 << 40),
    "length and offset that wrap": set_row(8, at=2**64 - 64, length=4096),
    "in the head": set_row(0, at=0),
    "crooked": set_row(0, at=BLOCK + 2000 + 1),
    "overlapping": overlap,
    "no kind": set_row(4, kind=7),
    "gone with a value": set_row(4, kind=2),
    "not growing": set_row(4, sequence=3),
    "sequence without end": set_row(8, sequence=2**64 - 1),
    "many rows": set_head(rows=2**63),
    "another version": set_head(version=2),
    "another file": set_head(birth=1),
    "another length": set_head(bytes=4096),
}


@pytest.mark.parametrize("lie", INDEX_LIES.values(), ids=INDEX_LIES)
def test_an_index_that_cannot_be_is_not_believed(
    folder: Path, lie: Callable[[Any, Any], None]
) -> None:
    resum_index(folder / f"{0:016x}.idx", lie)
    log, found = open_log(folder)
    assert log.damage.indices == 1
    assert len(keys_of(found)) == 9 + 10 + 9
    for each in found:
        assert set(verdicts(log, *each)) <= {Verdict.OK}
    log.close()


@pytest.mark.parametrize(
    "lie", [set_row(8, crc32c=1), set_row(8, at=BLOCK + 1024), set_row(8, length=19999)]
)
def test_what_a_believed_index_says_is_checked_when_it_is_read(
    folder: Path, lie: Callable[[Any, Any], None]
) -> None:
    def alone(head: Any, rows: Any) -> None:
        rows["kind"][:8], rows["length"][:8] = 2, 0
        lie(head, rows)

    resum_index(folder / f"{0:016x}.idx", alone)
    log, found = open_log(folder)
    assert verdicts(log, *found[0]) == [Verdict.CORRUPT]
    log.close()


def resum_run(path: Path, lie: Callable[[Any, Any], None]) -> None:
    """The first run of a segment."""
    data = np.fromfile(path, np.uint8)
    run = data[BLOCK:]
    head = run[: record.HEAD.itemsize].view(record.HEAD)[0:1].reshape(())
    rows = run[record.HEAD.itemsize : record.ends_of(int(head["rows"]))].view(ROW)
    lie(head, rows)
    head["rows_crc32c"] = _core.crc32c(rows.view(np.uint8))
    summed(head)
    data.tofile(path)


RUN_LIES = {
    "many rows": set_head(rows=2**32 - 1),
    "no rows": set_head(rows=0),
    "many bytes": set_head(bytes=2**63),
    "no bytes": set_head(bytes=0),
    "crooked bytes": set_head(bytes=5000),
    "of another place": set_head(at=2 * BLOCK),
    "of another file": set_head(birth=1),
    "another sequence": set_head(sequence=2**63),
    "beyond the run": set_row(1, at=1 << 40),
    "longer than the run": set_row(1, length=2**64 - 1),
    "among the rows": set_row(0, at=64),
}


@pytest.mark.parametrize("lie", RUN_LIES.values(), ids=RUN_LIES)
def test_a_run_that_cannot_be_ends_a_segment(folder: Path, lie: Callable[[Any, Any], None]) -> None:
    resum_run(folder / f"{2:016x}.kvf", lie)
    log, found = open_log(folder)
    assert len(keys_of(found)) == 9 + 10
    assert log.damage.torn > 0
    log.close()


def test_a_segment_in_the_middle_is_cut_too(folder: Path) -> None:
    (folder / f"{1:016x}.idx").unlink()
    resum_run(folder / f"{1:016x}.kvf", set_head(rows=0))
    log, found = open_log(folder)
    assert (log.damage.cut, log.damage.torn) == (1, 0)
    assert len(keys_of(found)) == 9 + 9
    assert log.doubtful == [0, 1]  # what was cut off may have said that these are void
    for number in log.doubtful:
        log.drop(number)
    log.close()
    log, found = open_log(folder)
    assert (len(keys_of(found)), log.doubtful) == (9, [])
    log.close()


def test_a_file_without_end(folder: Path) -> None:
    """A hole of a terabyte behind the last run costs nothing."""
    os.truncate(folder / f"{2:016x}.kvf", 1 << 40)
    log = Log(folder, "tenant@machine")
    assert len(keys_of(log.rows())) == 9 + 10 + 9
    log.close()
    assert (folder / f"{2:016x}.kvf").stat().st_size < 1 << 20

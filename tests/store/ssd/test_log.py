"""A log in a real folder: what was appended is read, found again, and dropped."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from kvferry.errors import ClosedError, DeviceError, UsageError
from kvferry.store.ssd import handles
from kvferry.store.ssd.disk import Disk
from kvferry.store.ssd.identity import owner_name
from kvferry.store.ssd.log import Log
from kvferry.store.ssd.opening import Damage
from kvferry.store.ssd.record import Verdict, new_rows, offset_of, places_of, segment_of
from tests.store.ssd.disks import Faulty, NoDirect, refuse
from tests.store.ssd.values import OWNER, append, bury, keys_of, open_log, verdicts

OK, CORRUPT, MISSING = Verdict.OK, Verdict.CORRUPT, Verdict.MISSING


def test_places() -> None:
    offsets = np.array([0, 64, 2**36 - 64], np.uint64)
    for number in (0, 1, 2**33 - 1):
        places = places_of(number, offsets)
        assert (places >= 0).all()
        assert segment_of(places).tolist() == [number] * 3
        assert offset_of(places).tolist() == offsets.tolist()


@pytest.mark.parametrize("disk", [os, NoDirect()], ids=["direct", "plain"])
def test_what_was_appended_is_read_and_found_again(tmp_path: Path, disk: Disk) -> None:
    log, found = open_log(tmp_path / "ssd", disk=disk)
    assert found == []
    assert log.direct == (disk is os)
    parts = [append(log, range(9)), bury(log, [3, 4]), append(log, range(20, 50))]
    for rows, places in parts:
        assert set(verdicts(log, rows, places)) <= {OK}
    before, after = log.segments()[:-1], log.segments()[-1]
    assert before
    assert all(each.sealed for each in before)
    assert not after.sealed
    log.close()
    log, found = open_log(tmp_path / "ssd", disk=disk)
    assert keys_of(found) == keys_of(parts)
    assert len(found) == len(log.segments())
    rows = np.concatenate([each.rows for each in found])
    assert rows["sequence"].tolist() == list(range(len(rows)))
    assert (rows == np.concatenate([each.rows for each in parts])).all()
    values = rows["kind"] == 1
    assert (rows["attrs"][values] == rows["digest"][values][:, 0] + 1).all()
    for each in found:
        assert set(verdicts(log, *each)) <= {OK}
    assert append(log, [60]).rows["sequence"] == len(rows)
    assert log.damage == Damage()
    log.close()


def test_a_scan_finds_what_an_index_tells(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    parts = [append(log, range(30)), bury(log, [1, 20]), append(log, [2])]
    log.close()
    for path in tmp_path.glob("*.idx"):
        path.unlink()
    for _ in range(2):  # the second time by the indices that the first one wrote
        log, found = open_log(tmp_path)
        assert keys_of(found) == keys_of(parts)
        assert all(each.sealed for each in log.segments())
        for each in found:
            assert set(verdicts(log, *each)) <= {OK}
        log.close()
        assert log.damage == Damage()


def test_one_value_longer_than_a_run(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, run_bytes=4096)
    found = append(log, [8, 8, 8])
    assert verdicts(log, *found) == [OK] * 3
    rows = new_rows(2)
    rows["length"] = 5, 15 * 4096
    with pytest.raises(UsageError) as raised:
        log.append(rows, np.zeros(2, np.uint64))
    assert raised.value.cause == "too_large"
    assert verdicts(log, *append(log, [8])) == [OK]
    log.close()


def test_a_flipped_byte_is_noticed(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    rows, places = append(log, [5, 6, 7])
    log.seal()
    with open(tmp_path / f"{0:016x}.kvf", "r+b") as file:
        file.seek(int(rows["at"][1]) + 2000)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    assert verdicts(log, rows, places) == [OK, CORRUPT, OK]
    log.close()
    log, found = open_log(tmp_path)
    assert verdicts(log, *found[0]) == [OK, CORRUPT, OK]
    log.close()


def test_what_was_dropped_is_missing(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    rows, places = append(log, [7] * 20)
    numbers = segment_of(places)
    assert numbers.max() == 3
    with pytest.raises(UsageError) as raised:
        log.drop(3)
    assert raised.value.cause == "ssd_active"
    assert set(verdicts(log, rows, places)) == {OK}
    for number in (1, 1, 99):
        log.drop(number)
    answers = [MISSING if number == 1 else OK for number in numbers]
    assert verdicts(log, rows, places) == answers
    assert [each.number for each in log.segments()] == [0, 2, 3]
    assert sorted(path.name[15:] for path in tmp_path.glob("0*")) == [
        "0.idx",
        "0.kvf",
        "2.idx",
        "2.kvf",
        "3.kvf",
    ]
    log.close()


def test_readers_of_what_is_dropped_end_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handles, "MOST_IDLE", 2)
    log, _ = open_log(tmp_path)
    rows, places = append(log, [7, 5, 6] * 30)
    log.seal()
    wrong: list[object] = []

    def read() -> None:
        for _ in range(30):
            wrong.extend({OK, MISSING}.union(verdicts(log, rows, places)) - {OK, MISSING})

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for segment in log.segments():
        log.drop(segment.number)
    for reader in readers:
        reader.join()
    assert wrong == []
    assert set(verdicts(log, rows, places)) == {MISSING}
    log.close()
    assert list(tmp_path.glob("0*")) == []


def test_a_folder_is_one_owners(tmp_path: Path) -> None:
    folder = tmp_path / "of" / "it"
    log, _ = open_log(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    append(log, [1])

    def refused() -> str:
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(UsageError) as raised:
            Log(folder, owner)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        return raised.value.cause

    owner = OWNER
    assert refused() == "ssd_in_use"
    log.close()
    owner = "somebody else"
    assert refused() == "ssd_owner"
    owner = OWNER
    identity = folder / "identity"
    good = identity.read_bytes()
    identity.write_bytes(good[:8] + b"\2" + good[9:])
    assert refused() == "ssd_version"
    for bad in (b"", good[:-1], good + b"x", good[:20] + b"?" + good[21:], b"x" * 5000):
        identity.write_bytes(bad)
        assert refused() == "ssd_damaged"
    identity.write_bytes(good)
    log, found = open_log(folder)
    assert keys_of(found) == [(1, True)]
    log.close()


def test_an_owners_name_tells_tenants_apart() -> None:
    assert owner_name("a") != owner_name("b")
    assert owner_name("a") == owner_name("a")
    machine = Path("/etc/machine-id")
    if machine.exists():
        assert machine.read_text().strip() not in owner_name("a")


def test_segments_of_another_folder_are_left_alone(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, keys in ((ours, range(40)), (theirs, range(100, 140))):
        log, _ = open_log(folder)
        append(log, keys)
        log.close()
    last = max(ours.glob("*.kvf"))
    number = int(last.stem, 16) + 1
    foreign = ours / f"{number:016x}.kvf"
    foreign.write_bytes((theirs / f"{0:016x}.kvf").read_bytes())
    foreign.with_suffix(".idx").write_bytes((theirs / f"{0:016x}.idx").read_bytes())
    log, found = open_log(ours)
    assert [key for key, _ in keys_of(found)] == list(range(40))
    assert log.damage == Damage(foreign=1)
    rows, places = append(log, [50])
    assert segment_of(places).tolist() == [number + 1]
    assert verdicts(log, rows, places) == [OK]
    log.close()
    assert foreign.read_bytes() == (theirs / f"{0:016x}.kvf").read_bytes()


def test_the_order_of_calls(tmp_path: Path) -> None:
    log = Log(tmp_path, OWNER)
    with pytest.raises(UsageError, match="rows"):
        log.append(new_rows(0), np.zeros(0, np.uint64))
    assert list(log.rows()) == []
    with pytest.raises(UsageError, match="once"):
        next(log.rows())
    assert log.append(new_rows(0), np.zeros(0, np.uint64)).tolist() == []
    log.seal()
    log.sync()
    assert log.segments() == []
    log.close()
    log.close()
    with pytest.raises(ClosedError):
        log.append(new_rows(0), np.zeros(0, np.uint64))
    with pytest.raises(UsageError):
        Log(tmp_path, OWNER, segment_bytes=5000)


@pytest.mark.parametrize(("error", "length"), [(errno.EIO, 1), (errno.ENOSPC, 100)])
def test_nothing_counts_of_an_append_that_fails(tmp_path: Path, error: int, length: int) -> None:
    """Whether one step is refused, or all from then on until the disk is well again."""
    at = 0
    while _failing(tmp_path / str(at), error, at, at + length):
        at += 1
    assert at > 5


def _failing(folder: Path, error: int, at: int, until: int) -> bool:
    """Whether the disk failed at all: the append has fewer steps than that."""
    disk = Faulty()
    log, _ = open_log(folder, disk=disk)
    good = append(log, range(7))
    begun = disk.steps
    disk.fault = refuse(error, begun + at, begun + until)
    more, cause = [], ""
    try:
        more = [append(log, range(10, 25))]
    except DeviceError as raised:
        cause = raised.cause
    assert cause in ("", "ssd_full" if error == errno.ENOSPC else "ssd_io")
    reached = disk.steps > begun + at
    disk.fault = refuse(error, 0, 0)
    assert set(verdicts(log, *good)) <= {OK}
    more.append(append(log, [50, 51]))
    if cause:
        assert segment_of(more[0].places).min() > segment_of(good.places).max()
    assert (np.concatenate([each.rows for each in more])["sequence"] > 6).all()
    log.close()
    log, found = open_log(folder)
    assert keys_of(found) == keys_of([good, *more])
    for each in found:
        assert set(verdicts(log, *each)) <= {OK}
    log.close()
    return reached


def test_a_disk_that_writes_little_at_a_time(tmp_path: Path) -> None:
    class Short(Faulty):
        def pwrite(self, fd: int, data: object, at: int, /) -> int:
            return os.pwrite(fd, memoryview(data)[:4096], at)  # type: ignore[arg-type]

    log, _ = open_log(tmp_path, disk=Short())
    rows, places = append(log, range(30))
    assert set(verdicts(log, rows, places)) == {OK}
    log.close()


def test_a_disk_that_gives_nothing(tmp_path: Path) -> None:
    class WriteOnly(Faulty):
        def open(self, path: Path, flags: int, mode: int, /) -> int:
            return super().open(path, flags | (os.O_WRONLY if path.suffix == ".kvf" else 0), mode)

    log, _ = open_log(tmp_path, disk=WriteOnly())
    rows, places = append(log, [5, 6])
    assert verdicts(log, rows, places) == [Verdict.FAILED] * 2
    log.close()

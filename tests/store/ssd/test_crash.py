"""The process ends at every step of a short history; what is found then is whole, or not there."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest

from kvferry.store.ssd.disk import Disk
from kvferry.store.ssd.log import Log
from kvferry.store.ssd.opening import Found
from kvferry.store.ssd.record import BLOCK, Verdict
from kvferry.testing import Child, Parent
from tests.store.ssd.disks import Faulty, Torn, die
from tests.store.ssd.values import append, bury, keys_of, open_log, verdicts

SECTOR = 512
DONE = 7  # exit status of a history that came to its end


class Step(NamedTuple):
    """values: keys that are put; gone: keys that are buried; or what else is called."""

    values: range = range(0)
    gone: range = range(0)
    call: Callable[[Log], None] = lambda log: None


HISTORY = [
    Step(values=range(6)),
    Step(gone=range(2, 4)),
    Step(values=range(7, 8)),
    Step(call=lambda log: log.seal()),
    Step(values=range(10, 25)),  # over several segments
    Step(call=lambda log: log.drop(0)),
    Step(call=lambda log: log.sync()),
    Step(gone=range(12, 13)),
    Step(values=range(40, 42)),
]
DROPS = 5  # which step makes what the first three wrote leave


def live(folder: Path, lives: int, disk: Disk, came: Callable[[int], object]) -> None:
    """The history, so many times in one folder; `came` hears of each step that is done."""
    for life in range(lives):
        log, _ = open_log(folder, disk=disk)
        for number, step in enumerate(HISTORY):
            if step.values:
                append(log, step.values)
            elif step.gone:
                bury(log, step.gone)
            elif number != DROPS or life == 0:
                step.call(log)
            came(life * len(HISTORY) + number)
        log.close()


def expected(done: int) -> list[tuple[int, bool]]:
    """Rows of the first `done` steps of both lives, in order; also those that were dropped."""
    steps = (HISTORY * 2)[:done]
    return [
        each
        for step in steps
        for each in [*((k, True) for k in step.values), *((k, False) for k in step.gone)]
    ]


def fork_and_live(folder: Path, lives: int, disk: Disk) -> int:
    """The status of a process that lived; folder/came has a byte for each step that was done."""
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        came = os.open(folder / "came", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            live(folder / "ssd", lives, disk, lambda step: os.write(came, b"x"))
            os._exit(DONE)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def serve(parent: Parent, folder: str) -> None:
    """Lives that end where they are told to; of a process without threads, which may be forked."""
    for lives, kind, at in parent:
        disk = Torn(at) if kind == "torn" else Faulty(die(at))
        parent.tell(fork_and_live(Path(folder, f"{kind}-{at}"), lives, disk))


Ends: TypeAlias = Callable[[int, str, int], "Path | None"]


@pytest.fixture
def ends(spawn: Callable[..., Child], tmp_path: Path) -> Ends:
    """The folder of lives that ended at a step; None: they came to their end before."""
    child = spawn(serve, str(tmp_path))

    def end(lives: int, kind: str, at: int) -> Path | None:
        child.tell([lives, kind, at])
        status = child.hear()
        assert status in (DONE, -signal.SIGKILL)
        return tmp_path / f"{kind}-{at}" if status == -signal.SIGKILL else None

    return end


def test_killed_at_every_step_and_within_some_writes(ends: Ends, tmp_path: Path) -> None:
    assert kill_at_every_step(ends, lives=1) > 25
    kill_within_writes(ends, tmp_path, slice(1, None, 4))


@pytest.mark.slow
def test_killed_at_every_step_of_two_lives(ends: Ends) -> None:
    assert kill_at_every_step(ends, lives=2) > 45


def kill_at_every_step(ends: Ends, lives: int) -> int:
    """How many there are."""
    at = 0
    while (folder := ends(lives, "killed", at)) is not None:
        check(folder)
        at += 1
    return at


@pytest.mark.slow
def test_killed_within_every_write(ends: Ends, tmp_path: Path) -> None:
    kill_within_writes(ends, tmp_path, slice(None))


def kill_within_writes(ends: Ends, tmp_path: Path, which: slice) -> None:
    disk = Faulty()
    live(tmp_path / "whole", 2, disk, lambda step: None)
    writes = [step for step, name in enumerate(disk.names) if name == "pwrite"]
    assert len(writes) > 12
    for at in writes[which]:
        folder = ends(2, "torn", at)
        assert folder is not None
        check(folder)


def check(folder: Path) -> None:
    """All that was done is there, and of what was under way some; and the log goes on."""
    done = len((folder / "came").read_bytes()) if (folder / "came").exists() else 0
    log, found = open_log(folder / "ssd")
    rows = keys_of(found)
    for each in found:
        assert set(verdicts(log, *each)) <= {Verdict.OK}
    check_sequences(found)
    must, may = expected(done), expected(done + 1)
    if done > DROPS:
        must, may = must[9:], may[9:]
    elif done == DROPS and len(rows) < len(must):
        must = must[9:]  # the drop was done, and not told of
    assert rows[: len(must)] == must
    if done != DROPS:
        assert rows == may[: len(rows)]
    more = append(log, [50])
    log.close()
    log, again = open_log(folder / "ssd")
    assert keys_of(again) == [*rows, (50, True)]
    check_sequences(again)
    assert verdicts(log, *again[-1])[-1] is Verdict.OK
    assert more.rows["sequence"][0] == again[-1].rows["sequence"][-1]
    log.close()


def check_sequences(found: list[Found]) -> None:
    sequences = [each.rows["sequence"].astype(np.int64) for each in found]
    assert (np.diff(np.concatenate([np.zeros(0, np.int64), *sequences])) > 0).all()


# what a loss of power, or a disk, makes of the last sectors


def test_any_end_of_a_segment(tmp_path: Path) -> None:
    check_tails(tmp_path, stride=7)


@pytest.mark.slow
def test_every_end_of_a_segment(tmp_path: Path) -> None:
    check_tails(tmp_path, stride=1)


def check_tails(folder: Path, stride: int) -> None:
    original = folder / "original"
    log, _ = open_log(original)
    parts = [append(log, range(5)), append(log, range(20, 24)), bury(log, [1]), append(log, [5])]
    log.close()
    (index,) = original.glob("*.idx")
    index.unlink()
    runs = [BLOCK, *(int(each.rows["at"].min()) for each in parts[1:])]
    size = index.with_suffix(".kvf").stat().st_size
    for number, at in enumerate(range(0, size, SECTOR * stride)):
        damage = (truncate, flip, zero)[number % 3] if stride > 1 else None
        for each in (truncate, flip, zero) if damage is None else (damage,):
            copy = folder / "copy"
            shutil.copytree(original, copy)
            each(copy / index.with_suffix(".kvf").name, at)
            check_tail(copy, parts, runs, at)
            shutil.rmtree(copy)


def truncate(path: Path, at: int) -> None:
    os.truncate(path, at)


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x10]))


def zero(path: Path, at: int) -> None:
    size = path.stat().st_size
    os.truncate(path, at)
    os.truncate(path, size)


def check_tail(folder: Path, parts: list[Found], runs: list[int], at: int) -> None:
    """The runs that lie before the damage are there; of others it depends on what was hit."""
    log, found = open_log(folder)
    whole = keys_of(parts)
    rows = keys_of(found)
    assert rows == whole[: len(rows)]
    ends = [*runs[1:], 1 << 40]
    untouched = sum(len(part.rows) for part, end in zip(parts, ends, strict=True) if end <= at)
    assert len(rows) >= (untouched if at >= BLOCK else 0)
    for each in found:
        assert set(verdicts(log, *each)) <= {Verdict.OK}
    append(log, [60])
    log.close()
    log, found = open_log(folder)
    assert keys_of(found) == [*rows, (60, True)]
    log.close()

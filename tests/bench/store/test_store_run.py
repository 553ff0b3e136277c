"""Runs with all processes of ours, and with other stores: stand-ins, or none at all."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from kvferry.bench.result import write_json
from kvferry.bench.store import Plan, Rival, run_store
from kvferry.bench.store.messages import Open
from kvferry.bench.store.party import open_party
from kvferry.bench.store.result import Row, StoreResult
from kvferry.bench.store.run import _open_rivals
from kvferry.bench.store.table import lines, rows_table
from kvferry.bench.store.tasks import TASKS, Op, Role, Task
from kvferry.errors import PeerError, UsageError

MIB = 1 << 20
STAND_INS = Path(__file__).parent / "stand_ins"
SIZE = 16 * MIB


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvferry.bench.store.passes.MOST_CALLS", 4)
    monkeypatch.setattr("kvferry.bench.store.passes.MOST_KEPT", 512)
    monkeypatch.setattr("kvferry.bench.store.measure.ROUNDS", 1)
    monkeypatch.setattr("kvferry.bench.store.run.IMPORTS", 1)


@pytest.fixture
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    monkeypatch.setenv("PATH", f"{STAND_INS / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


def text_of(result: StoreResult) -> str:
    console = Console(width=160, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(rows_table(result.rows))
    for line in lines(result):
        console.print(line, soft_wrap=True)
    console.file.close()
    return console.export_text()


def by(rows: list[Row], task: Task) -> dict[str, Row]:
    same = (task.op.value, task.block, task.batch, task.full)
    return {row.who: row for row in rows if (row.op, row.block, row.batch, row.full) == same}


@pytest.mark.slow
@pytest.mark.usefixtures("_stand_ins")
def test_every_task_is_measured_and_right(tmp_path: Path) -> None:
    rivals = [Rival("mooncake", sys.executable), Rival("redis", sys.executable)]
    result = run_store(Plan(SIZE, 0.0, 3000), beside=rivals)
    assert result.verified
    assert result.absent == {}
    for task in TASKS:
        rows = by(result.rows, task)
        ours = {role.value for role in task.roles if role is not Role.RIVAL}
        theirs = {"mooncake", "redis"} if Role.RIVAL in task.roles else set()
        assert set(rows) == ours | theirs
        for name in theirs:
            assert rows[name].verified
            assert rows[name].wanted == []
            assert rows[name].of_embedded
        for who in ours:
            row = rows[who]
            assert row.calls in (1, 2, 4)
            assert 0 < row.p50_us <= row.p99_us
            assert row.mkeys > 0
            assert (row.gbps is None) == (task.op in (Op.VIEW, Op.EXISTS_BATCH))
            assert (row.of_embedded is None) == (who == "embedded" or task.roles == (Role.FAR,))
            assert {want.figure for want in row.wanted} == {
                want.figure.value for want in task.wants(Role(who))
            }
            assert set(row.cpu_us) == ({"user"} if who == "embedded" else {"user", "node"})
    big = by(result.rows, TASKS[7])
    assert big["embedded"].limit == big["mapped"].limit == "copy loop"
    assert big["far"].limit == "tcp link"
    assert big["far"].of_link == pytest.approx(big["far"].gbps / big["far"].limit_gbps, abs=0.01)
    memory = result.memory
    assert memory is not None
    assert memory.objects == 3000
    assert memory.node_bytes > memory.empty_bytes
    text = text_of(result)
    for row in result.rows:
        assert row.op in text
    assert "embedded" in text
    assert "p50 6 us: " in text
    assert "0.9 of embedded: " in text
    assert "at 3,000 objects (wanted: at most 350" in text
    assert "…" not in text
    write_json(result, tmp_path / "store.json")
    read = msgspec.json.decode((tmp_path / "store.json").read_bytes(), type=StoreResult)
    assert read.rows == result.rows


@pytest.mark.usefixtures("_stand_ins")
def test_a_short_run_finds_the_byte_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAULT", "corrupt")  # of mooncake's
    rivals = [Rival("mooncake", sys.executable), Rival("redis", sys.executable)]
    few = Plan(SIZE, 0.0, 0, tuple(task for task in TASKS if task.batch in (1, 128)))
    result = run_store(few, beside=rivals)
    assert not result.verified
    for row in result.rows:
        sees = row.who == "mooncake" and row.op != Op.EXISTS_BATCH
        assert row.verified is not sees, row
    big = by(result.rows, TASKS[7])
    assert set(big) == {"embedded", "mapped", "far", "mooncake", "redis"}
    assert (big["mapped"].limit, big["far"].limit) == ("copy loop", "tcp link")
    text = text_of(result)
    assert "p50 6 us: " in text
    assert "NO" in text
    assert "…" not in text


def test_a_store_that_is_not_there_is_one_line() -> None:
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        rivals = [Rival("redis", "/no/python")]
        assert list(_open_rivals(Plan(SIZE, 0.0, 0), rivals, stack, absent)) == []
    result = StoreResult({}, {}, [], None, absent, {}, 0.0)
    (said,) = [line for line in lines(result) if line.startswith("no rows of ")]
    assert "redis" in said
    assert "No such file" in said
    assert "\n" not in said


@pytest.mark.parametrize("name", ["mooncake", "redis"])
def test_a_package_that_is_not_there_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()  # hides one that is installed, and has nothing in it
    (tmp_path / name / "__init__.py").write_text("raise ImportError('none here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    asked, wanted = Rival(name, sys.executable), Open(MIB, MIB, str(tmp_path))
    with (
        pytest.raises(UsageError, match=f"none here.*pip install {asked.install}"),
        open_party(asked, name, Role.RIVAL, wanted),
    ):
        pass


def test_a_server_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PATH", "/nowhere")
    asked, wanted = Rival("redis", sys.executable), Open(MIB, MIB, str(tmp_path))
    with (
        pytest.raises(PeerError, match="redis-server is not installed"),
        open_party(asked, "redis", Role.RIVAL, wanted),
    ):
        pass


def test_a_side_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match="no room for 16777216"):
        run_store(Plan(8 * MIB, 0.0, 0))


@pytest.mark.slow
def test_all_processes_end_with_whoever_started_them(tmp_path: Path) -> None:
    code = (
        "import time; from pathlib import Path; from kvferry.bench.store.run import open_ours\n"
        f"with open_ours(1 << 20, 4 << 20, Path({str(tmp_path)!r})) as parties:\n"
        "    print(*[each.pid for each in parties], flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        handles = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
        try:
            assert len(handles) == 3
            for handle in handles:
                assert select.select([handle], [], [], 30)[0], "it lives on"
        finally:
            for handle in handles:
                os.close(handle)


@pytest.mark.usefixtures("_stand_ins")
def test_a_server_ends_with_whoever_started_it(tmp_path: Path) -> None:
    code = (
        "import time; from kvferry.bench.store.server import *\n"
        f"server = Server([find_program('redis-server')], {str(tmp_path)!r}, lambda: True)\n"
        "print(server.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        handle = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        try:
            assert select.select([handle], [], [], 30)[0], "it lives on"
        finally:
            os.close(handle)

"""Runs with all processes of ours, and with other stores: stand-ins, or none at all."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from kvferry.bench.result import write_json
from kvferry.bench.store import Plan, Rival, run_store
from kvferry.bench.store.result import Row, StoreResult
from kvferry.bench.store.table import lines, rows_table
from kvferry.bench.store.tasks import TASKS, Op, Role, Task
from kvferry.errors import UsageError

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


def plan(*ops: Op, objects: int = 0) -> Plan:
    """Small blocks, a pool that is not full."""
    tasks = tuple(task for task in TASKS if task.op in ops and task.block < MIB and not task.full)
    return Plan(SIZE, 0.0, objects, tasks)


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


def test_every_task_is_measured_and_right(tmp_path: Path) -> None:
    result = run_store(Plan(SIZE, 0.0, 3000))
    assert result.verified
    assert result.absent == {}
    for task in TASKS:
        rows = by(result.rows, task)
        assert set(rows) == {role.value for role in task.roles if role is not Role.RIVAL}
        for who, row in rows.items():
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
    assert msgspec.json.decode((tmp_path / "store.json").read_bytes(), type=StoreResult) == result


@pytest.mark.usefixtures("_stand_ins")
def test_other_stores_stand_beside_ours() -> None:
    rivals = [Rival("mooncake", sys.executable), Rival("redis", sys.executable)]
    todo = plan(Op.GET, Op.GET_BATCH, Op.EXISTS_BATCH, Op.PUT, Op.PUT_BATCH)
    result = run_store(todo, beside=rivals)
    assert result.verified
    assert result.absent == {}
    for task in todo.tasks:
        rows = by(result.rows, task)
        for name in ("mooncake", "redis"):
            row = rows[name]
            assert row.verified
            assert row.wanted == []
            assert row.of_embedded is not None
            assert row.of_embedded > 0
    assert set(result.cpu_s) == {"embedded", "mapped", "far", "mooncake", "redis"}


@pytest.mark.usefixtures("_stand_ins")
def test_a_byte_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAULT", "corrupt")
    result = run_store(plan(Op.GET_BATCH, Op.PUT), beside=[Rival("mooncake", sys.executable)])
    assert not result.verified
    assert {row.who: row.verified for row in result.rows} == {
        "embedded": True,
        "mapped": True,
        "mooncake": False,
    }
    assert "NO" in text_of(result)


def test_a_store_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mooncake", "redis"):  # hides one that is installed, and has nothing in it
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('none here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    rivals = [Rival("mooncake", sys.executable), Rival("redis", "/no/python")]
    result = run_store(plan(Op.VIEW), beside=rivals)
    assert result.verified
    assert {row.who for row in result.rows} == {"embedded", "mapped"}
    assert set(result.absent) == {"mooncake", "redis"}
    said = [line for line in lines(result) if line.startswith("no rows of ")]
    assert len(said) == 2
    assert "pip install mooncake-transfer-engine-non-cuda" in said[0]
    assert "No such file" in said[1]
    assert all("\n" not in line for line in said)


def test_a_server_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PATH", "/nowhere")
    result = run_store(plan(Op.VIEW), beside=[Rival("redis", sys.executable)])
    assert "redis-server is not installed" in result.absent["redis"]


def test_a_side_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match="no room for 16777216"):
        run_store(Plan(8 * MIB, 0.0, 0))


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

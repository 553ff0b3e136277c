"""Packages beside ours: real processes, with stand-ins for the packages, or the packages."""

from __future__ import annotations

import itertools
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from kvferry import PeerError, UsageError
from kvferry.bench import run as runner
from kvferry.bench.cases import Plan
from kvferry.bench.layouts import Layout, model, plain
from kvferry.bench.peers import Asked, parse_peers
from kvferry.bench.peers.packages import PACKAGES
from kvferry.bench.peers.pair import Calls, open_pair
from kvferry.bench.result import Costs
from kvferry.bench.run import run
from kvferry.bench.session import Session
from kvferry.bench.shares import Pattern
from kvferry.bench.table import rows_table
from kvferry.bench.walk import Walk

MIB = 1 << 20
STAND_INS = Path(__file__).parent / "stand_ins"
# NAME_PYTHON: a Python that has the package, where it is not this one.
REAL = {name: os.environ.get(f"{name.upper()}_PYTHON", sys.executable) for name in PACKAGES}


def asked(name: str = "mooncake") -> Asked:
    (one,) = parse_peers([name])
    return one


def calls_of(layout: Layout, batch: int, size: int = 4 * MIB, batches: int = 2) -> Calls:
    walk = Walk(layout, size // layout.slot_bytes)
    return [walk.moves(np.arange(n * batch, (n + 1) * batch)) for n in range(batches)]


@pytest.fixture
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


@pytest.fixture
def fault(_stand_ins: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    monkeypatch.setenv("STAND_IN_FAULT", request.param)
    return str(request.param)


@pytest.fixture
def _no_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    def free(session: Session, memory: dict[str, int]) -> Costs:
        return Costs(1.0, 1.0, 1.0, 1.0, 1.0, memory, 1, 0)

    monkeypatch.setattr(runner, "measure_costs", free)


def test_a_peer_is_a_name_and_a_python() -> None:
    assert parse_peers(["mooncake", "nixl=/opt/bin/python"]) == (
        Asked("mooncake", sys.executable),
        Asked("nixl", "/opt/bin/python"),
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [(["rsync"], "unknown peer 'rsync': know mooncake, nixl"), (["nixl", "nixl=/x"], "twice")],
)
def test_what_is_no_peer_is_refused(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_peers(words)


@pytest.mark.usefixtures("_stand_ins")
@pytest.mark.parametrize("name", PACKAGES)
def test_blocks_come_to_their_places(name: str) -> None:
    layouts = [plain(4096), model("smollm2-135m")]
    with open_pair(asked(name), 4 * MIB) as pair:
        for layout, batch, op in itertools.product(layouts, [1, 3], ["write", "read"]):
            calls = calls_of(layout, batch)
            done = pair.run(op, calls)
            assert done.bytes == 2 * batch * layout.slot_bytes
            assert len(done.calls) == 2
            assert sum(done.calls) <= done.end - done.begin
            verdict = pair.verify(op, calls)
            assert verdict.good
            assert verdict.blocks == 2 * batch * layout.pieces


@pytest.mark.usefixtures("_stand_ins")
def test_one_pair_moves_blocks_of_several_sizes() -> None:
    with open_pair(asked("nixl"), 4 * MIB) as pair:
        for block in (4096, 16384, 4096):
            assert pair.verify("write", calls_of(plain(block), 2)).good


@pytest.mark.parametrize("fault", ["corrupt"], indirect=True)
@pytest.mark.parametrize("name", PACKAGES)
def test_a_corrupted_byte_is_found(name: str, fault: str) -> None:
    with open_pair(asked(name), 4 * MIB) as pair:
        for op in ("write", "read"):
            verdict = pair.verify(op, calls_of(plain(4096), 3))
            assert not verdict.good, op
            assert (verdict.blocks, verdict.wrong, verdict.stray) == (6, 6, 0), op


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()  # hides one that is installed, and has nothing in it
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    hint = f"cannot import it .*: pip install {PACKAGES[name].install}"
    with pytest.raises(UsageError, match=hint) as refused, open_pair(asked(name), MIB):
        pass
    assert "\n" not in str(refused.value)


def test_a_missing_python_is_one_line() -> None:
    with (
        pytest.raises(UsageError, match=r"peer nixl: .*No such file.*'/no/python'"),
        open_pair(Asked("nixl", "/no/python"), MIB),
    ):
        pass


@pytest.mark.parametrize("fault", ["crash"], indirect=True)
def test_a_package_that_crashes_has_last_words(fault: str) -> None:
    with (
        pytest.raises(PeerError, match=r"of mooncake ended with status -6; .*: .*about to crash"),
        open_pair(asked(), MIB),
    ):
        pass


@pytest.mark.parametrize("fault", ["refuse"], indirect=True)
def test_a_package_that_refuses_is_quoted(fault: str) -> None:
    with (
        open_pair(asked(), 4 * MIB) as pair,
        pytest.raises(PeerError, match=r"initiator of mooncake failed: .*mooncake returned -7"),
    ):
        pair.run("write", calls_of(plain(4096), 1))


@pytest.mark.usefixtures("_stand_ins")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_is_an_error_and_both_are_reaped(victim: int) -> None:
    with open_pair(asked(), 4 * MIB) as pair:
        pids = pair.pids
        os.kill(pids[victim], signal.SIGKILL)
        with pytest.raises(PeerError, match=r"ended with status -9"):
            pair.run("write", calls_of(plain(4096), 1))
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.usefixtures("_stand_ins")
def test_both_end_with_whoever_started_them() -> None:
    code = (
        "import time; from kvferry.bench.peers import *; from kvferry.bench.peers.pair import *\n"
        "with open_pair(*parse_peers(['nixl']), 1 << 20) as pair:\n"
        "    print(*pair.pids, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        handles = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
        try:
            for handle in handles:
                assert select.select([handle], [], [], 30)[0], "it lives on"
        finally:
            for handle in handles:
                os.close(handle)


def plan(**changes: object) -> Plan:
    few = {
        "layouts": (plain(64 << 10),),
        "paths": ("fabric/inline", "fabric/host"),
        "ops": ("write", "read"),
        "batches": (4,),
        "streams": (1,),
        "seconds": 0.0,
    }
    return Plan(**{**few, **changes})  # type: ignore[arg-type]


@pytest.mark.usefixtures("_stand_ins", "_no_costs")
def test_a_run_has_rows_of_peers_beside_ours() -> None:
    result = run(plan(), 4 * MIB, beside=parse_peers(PACKAGES))
    assert result.verified
    mooncake, nixl = (
        {"peer": "mooncake", "transport": "tcp"},
        {"peer": "nixl", "transport": "ucx"},
    )
    theirs = [(row.op, row.path) for row in result.rows if "peer" in row.path]
    assert theirs == [(op, path) for op in ("write", "read") for path in (mooncake, nixl)]
    assert [("peer" in row.path) for row in result.rows] == 2 * [False, True, True, False]
    ours, row = result.rows[:2]
    assert (row.block, row.batch, row.callers, row.threads) == (64 << 10, 4, 1, 1)
    assert row.limit == ours.limit
    assert row.repeats == 5
    assert row.gbps_min <= row.gbps <= row.gbps_max
    assert row.ratio == pytest.approx(row.gbps / row.limit_gbps, abs=0.01)
    assert row.cpu_s["initiator"] > 0
    assert row.cpu_s["target"] > 0
    console = Console(width=200)
    with console.capture() as shown:
        console.print(rows_table(result.rows))
    assert re.search(r"^mooncake/tcp +write +64 KiB +4 ", shown.get(), re.M)


@pytest.mark.usefixtures("_no_costs")
@pytest.mark.parametrize("fault", ["corrupt"], indirect=True)
def test_wrong_bytes_of_a_peer_are_wrong_bytes(fault: str) -> None:
    result = run(
        plan(paths=("fabric/inline",), ops=("read",)), 4 * MIB, beside=parse_peers(["nixl"])
    )
    assert [row.verified for row in result.rows] == [True, False]


def test_peers_that_cannot_be_are_refused_before_anything_is_measured() -> None:
    with pytest.raises(UsageError, match="'/no/python'"):
        run(plan(), 4 * MIB, pytest.fail, parse_peers(["nixl=/no/python"]))
    for many in ({"threads": 2}, {"pattern": Pattern.PAIRWISE, "peers": 2}):
        with pytest.raises(UsageError, match="without pattern and threads"):
            run(plan(**many), 4 * MIB, pytest.fail, parse_peers(["nixl"]))


@pytest.mark.parametrize("name", PACKAGES)
def test_the_real_package_moves_blocks(name: str) -> None:
    calls = calls_of(plain(64 << 10), 8)
    try:
        with open_pair(Asked(name, REAL[name]), 4 * MIB) as pair:
            assert pair.run("write", calls).bytes == 1 * MIB
            assert pair.verify("write", calls).good
            assert pair.verify("read", calls).good
    except UsageError as missing:
        pytest.skip(str(missing))

"""The command line: what it prints, and the status it ends with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kvferry
from kvferry import _core
from kvferry.bench import measure
from kvferry.bench import run as runner
from kvferry.bench.result import Costs
from kvferry.bench.session import Session
from kvferry.bench.variants import VARIANTS
from kvferry.bench.verify import Verdict
from kvferry.cli import main

COMMAND = [sys.executable, "-c", "from kvferry.cli import main; main()"]
SMALL = ["--size", "16MiB", "--seconds", "0", "--blocks", "64KiB", "--paths", "fabric/inline"]

ROW = {
    "path": dict,
    "preset": (str, type(None)),
    "op": str,
    "layout": (str, type(None)),
    "block": int,
    "batch": int,
    "streams": int,
    "callers": int,
    "threads": int,
    "repeats": int,
    "bytes": int,
    "gbps": float,
    "gbps_min": float,
    "gbps_max": float,
    "limit_gbps": float,
    "limit": str,
    "limit_variant": str,
    "ratio": float,
    "p50_us": float,
    "p99_us": float,
    "verified": bool,
    "staged_bytes": int,
    "submissions": dict,
    "cpu_s": dict,
}
COSTS = {
    "build_us",
    "resolve_us",
    "import_s",
    "bare_copy_us",
    "inline_us",
    "memory_bytes",
    "growth_calls",
    "growth_bytes",
    "paths",
}

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process: status, output, errors."""

    def no_costs(session: Session, memory: dict[str, int]) -> Costs:
        return Costs(1.0, 1.0, 1.0, 1.0, 1.0, memory, 1, 0)

    monkeypatch.setattr(runner, "measure_costs", no_costs)
    # It would be so for all of this process, and other tests look into it.
    monkeypatch.setattr(_core, "process_conceal", lambda: 0)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvferry", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"kvferry {kvferry.__version__}\n", "")


@pytest.mark.parametrize("wrong", ["--grace=nan", "--grace=-1", "--objects=0", "--peer=10.0.0.3"])
def test_a_node_says_what_it_cannot_be(command: Command, tmp_path: Path, wrong: str) -> None:
    status, out, err = command("node", "--dram=1MiB", f"--listen=unix://{tmp_path}/n", wrong)
    assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_node_whose_leases_last(tmp_path: Path, end: int) -> None:
    address = f"unix://{tmp_path}/n"
    words = [*COMMAND, "node", "--dram=1MiB", f"--listen={address}", "--grace=60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert address in node.stdout.readline()
        with kvferry.Store(address) as store:
            store.put("key", b"value")
            store.put("other", b"value")
            store.lease(["key"], 60)
            node.send_signal(end)
            while store.exists("other"):  # it drains
                time.sleep(0.01)
            assert store.get("key") == b"value"
            node.send_signal(end)
            assert node.wait(20) == 0


def test_help_names_the_commands(command: Command) -> None:
    status, out, _ = command("--help")
    assert status == 0
    assert {"bench", "doctor", "explain"} <= set(out.split())


def test_doctor_tries_the_paths(command: Command) -> None:
    status, out, _ = command("doctor")
    assert status == 0
    assert re.search(r"^ok +fabric path", out, re.M)
    assert re.search(r"^(ok|warn) +cma path", out, re.M)
    assert re.search(r"^ok +tcp path", out, re.M)


# A single object that stays of each call shows in the fewer calls as well.
@pytest.mark.parametrize("calls", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_bench_from_end_to_end(tmp_path: Path, calls: int) -> None:
    fewer = f"from kvferry.bench import costs; costs.measure_costs.__defaults__ = ({calls},)"
    file = tmp_path / "bench.json"
    options = ["--size", "64MiB", "--seconds", "0.05", "--blocks", "64KiB", "--json", str(file)]
    done = subprocess.run(
        [*COMMAND[:-1], f"{fewer}; {COMMAND[-1]}", "bench", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(file.read_text())
    assert list(result) == ["machine", "settings", "rows", "costs"]
    assert {"cpu", "numa", "kernel", "pages", "versions", "commit"} <= set(result["machine"])
    assert set(result["costs"]) == COSTS
    rows = result["rows"]
    assert len(rows) == 2 * 2 * 3  # ops, batches; inline, and streams 1 and 2
    for row in rows:
        assert list(row) == list(ROW)
        assert all(isinstance(row[name], kind) for name, kind in ROW.items()), row
        assert set(row["path"]) == {"link", "submitter", "staging", "addressing"}
        assert set(row["submissions"]) == {"inline", "stream", "coprocessor"}
        assert set(row["cpu_s"]) == {"initiator", "target"}
        assert row["verified"]
        assert row["repeats"] >= 5
        assert row["staged_bytes"] == 0
    shown = [line for line in done.stdout.splitlines() if line.startswith("fabric/")]
    assert len(shown) == len(rows)
    assert "may stay in the cache" in done.stderr or not result["machine"]["l3"]
    # both processes together, beyond the memory that is moved
    assert sum(result["costs"]["memory_bytes"].values()) < 150 << 20
    assert result["costs"]["growth_calls"] == calls
    assert result["costs"]["growth_bytes"] < 1 << 20


def test_a_failed_verification_is_status_1(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "verify_case", lambda crew: Verdict(4, 1, 0))
    status, out, err = command("bench", *SMALL)
    assert status == 1
    assert "NO" in out
    assert "some bytes were wrong" in err


def test_a_side_is_shrunk_with_a_word(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvferry.bench.session.free_memory", lambda: 48 << 20)
    status, out, err = command("bench", *SMALL)
    assert status == 0
    assert "12 MiB a side, not 16 MiB: a quarter of the 48 MiB of memory that are free" in err
    assert "12 MiB a side" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["jump"], "unknown bench 'jump': know sweep, layout, trace, acl"),
        (["layout"], "bench layout needs a model's name"),
        (["layout", "gpt"], "unknown layout 'gpt': know deepseek-r1, llama-3-8b"),
        (["sweep", "twice"], "bench sweep takes no name"),
        (["layout", "qwen3-8b", "--blocks", "4KiB"], "no --blocks"),
        (["--layout", "qwen3-8b"], "--layout belongs to bench trace"),
        (["trace", "missing.jsonl"], "trace missing.jsonl: No such file"),
        (["--size", "big"], "bad size 'big'"),
        (["--blocks", "4KiB,5"], "bad size '5'"),
        (["--blocks", "1GiB", "--size", "4GiB"], "above 256 MiB"),
        (["--paths", "fabric/warp"], "unknown submitter 'warp'"),
        (["--paths", "loopback/inline", "--size", "1MiB", "--blocks", "4KiB"], "another engine"),
        (["--ops", "swap"], "unknown op 'swap'"),
        (["--ops", ","], "--ops is empty"),
        (["--batches", "0"], "'0' is no number"),
        (["--streams", "9", "--size", "1MiB", "--blocks", "4KiB"], "streams is 9"),
        (["--threads", "2", "--size", "8KiB", "--blocks", "8KiB"], "no room for two blocks"),
        (["--pattern", "ring"], "unknown pattern 'ring': know pairwise, one-to-many, many-to-one"),
        (["--peers", "3"], "--peers belongs to --pattern"),
        (["--plot", "picture.gif"], "cannot draw picture.gif: know .png, .svg, .pdf"),
        (["acl", "--ab"], "acl goes without --ab"),
        (["ssd", "--ab"], "ssd goes without --ab"),
        (["ssd", "/nowhere/at/all"], "no folder /nowhere/at/all"),
        (["acl", "--blocks", "4KiB"], "acl goes without --blocks"),
        (["acl", "--json", "/nowhere/at/all.json"], "cannot write /nowhere/at/all.json"),
        (["--ab", "--pattern", "pairwise"], "--ab goes without --pattern"),
        (["trace", "--ab"], "--ab goes without WHAT"),
        (["--ab", "--threads", "2"], "--ab goes without --threads"),
        (["--ab", "--layout", "gpt"], "unknown layout 'gpt'"),
        (["--ab", "--size", "1MiB"], "no room for two blocks of 1 MiB"),
        (["--json", "/nowhere/at/all.json"], "cannot write /nowhere/at/all.json"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(
    arguments: list[str], complaint: str, command: Command
) -> None:
    status, out, err = command("bench", *arguments)
    assert (status, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1
    assert err.startswith("kvferry: ")


def test_a_pattern_and_threads_are_told(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    more = ["--pattern", "many-to-one", "--threads", "2", "--ops", "write", "--batches", "8"]
    status, out, _ = command("bench", *SMALL, *more, "--json", str(file))
    assert status == 0
    assert "many-to-one, 2 peers: GB/s of all together" in out
    assert "2 threads submit on each channel" in out
    result = json.loads(file.read_text())
    assert result["settings"] == {
        "size": 16 << 20,
        "seconds": 0.0,
        "threads": 2,
        "pattern": "many-to-one",
        "peers": 2,
    }
    (row,) = result["rows"]
    assert (row["callers"], row["threads"], row["verified"]) == (4, 4, True)


def test_a_comparison_from_end_to_end(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvferry.bench.ab.VARIANTS", VARIANTS[:2])
    file = tmp_path / "ab.json"
    options = ["--size", "16MiB", "--seconds", "0", "--json", str(file)]
    status, out, err = command("bench", "--ab", *options)
    assert (status, err) == (0, "")
    assert re.search(r"^fabric/host x 1 +base .* yes", out, re.M)
    assert re.search(r"^512 keys", out, re.M)
    result = json.loads(file.read_text())
    assert set(result) == {
        "machine",
        "settings",
        "variants",
        "refused",
        "keys",
        "unverified_keys",
    }
    for row in result["variants"]:
        assert set(row["cpu"]) == {"caller", "engines", "coprocessor", "target", "other"}
        assert row["recovery"]["verified"]


def test_what_acl_costs_from_end_to_end(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvferry.bench.acl_costs.COUNTS", (1, 3))
    monkeypatch.setattr("kvferry.bench.acl_costs.TURNS", 2)
    file = tmp_path / "acl.json"
    status, out, err = command("bench", "acl", "--seconds", "0", "--json", str(file))
    assert (status, err) == (0, "")
    assert "No card is needed" in out
    result = json.loads(file.read_text())
    rows = result["rows"]
    assert {(row["by"], row["streams"], row["descriptors"]) for row in rows} == {
        *(("inline", 1, count) for count in (1, 3)),
        *((by, n, count) for by in ("host", "engines") for n in (1, 4) for count in (1, 3)),
    }
    assert len(re.findall(r"^(?:inline|host|engines) ", out, re.M)) == len(rows)
    assert all(row["repeats"] == 40 and row["transfer_ns"] > 0 for row in rows)
    assert result["machine"]["cpu"]


def test_a_bad_line_of_a_trace_is_named(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    good = b'{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n'
    file.write_bytes(good + b"{}\n")
    status, _, err = command("bench", "trace", str(file), "--layout", "smollm2-135m", *SMALL[:4])
    assert status == 2
    assert f"trace {file}, line 2" in err


def test_figures_are_of_host_memory(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that touches a device's memory dies of it."""
    monkeypatch.setenv("KVFERRY_RUNTIME", "cann")
    monkeypatch.setenv("KVFERRY_ACL_LIBRARY", "/nowhere/libascendcl.so")
    status, _, err = command("bench", *SMALL)
    assert status == 2
    assert "memory of the host" in err
    status, out, _ = command("doctor")
    assert status == 0
    assert "64 KiB went to another process" in out


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_bench_leaves_no_target(sign: signal.Signals) -> None:
    options = ["--size", "16MiB", "--blocks", "64KiB", "--seconds", "60"]
    with subprocess.Popen(
        [*COMMAND, "bench", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as bench:
        target = os.pidfd_open(_child(bench.pid))
        try:
            bench.send_signal(sign)
            assert bench.wait(30) != 0
            ended, _, _ = select.select([target], [], [], 30)
            assert ended, "the target lives on"
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(target, signal.SIGKILL)
            os.close(target)


def _child(parent: int) -> int:
    """The first child of a process, once it has one."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.005)
    raise TimeoutError("no child")

"""What paged KV costs, measured for no time at all; beside a vLLM that stands in, or none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvferry.bench.paged import Vllm, measure_paged, parse_peer
from kvferry.bench.paged.blocks import BlocksRow, measure_blocks
from kvferry.bench.paged.run import WORKER
from kvferry.bench.paged.steps import STEPS
from kvferry.bench.paged.table import blocks_table, pages_table
from kvferry.bench.peers.process import start_process
from kvferry.cli.app import app
from kvferry.errors import PeerError, UsageError

MIB = 1 << 20
STAND_INS = Path(__file__).parent / "stand_ins"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvferry.bench.paged.blocks.WARM", 0)
    monkeypatch.setattr("kvferry.bench.paged.blocks.ROUNDS", 1)
    monkeypatch.setattr("kvferry.bench.paged.pages.ROUNDS", 1)
    monkeypatch.setattr("kvferry.bench.paged.pages.REQUESTS", (5,))
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


def test_beside_a_peer() -> None:
    found = measure_paged(24 * MIB, 0, Vllm(sys.executable))
    assert found.verified
    assert found.peer == "vLLM 0.0"
    assert [row.step for row in found.blocks] == list(STEPS)
    assert all(row.us > 0 and row.peer_us for row in found.blocks)
    assert [(row.layout, row.op) for row in found.pages] == [
        ("smollm2-135m", "write"),
        ("llama-3-8b", "write"),
        ("smollm2-135m", "read"),
        ("llama-3-8b", "read"),
    ]
    assert all(row.gbps > 0 and row.engine_gbps > 0 and row.limit_gbps > 0 for row in found.pages)
    assert blocks_table(found).row_count == len(STEPS)
    assert pages_table(found).row_count == 4


def beside() -> list[BlocksRow]:
    with start_process(Vllm(sys.executable), "block manager", WORKER) as process:
        process.hear(str)
        return measure_blocks(0, process)


def test_a_peer_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "hashes")
    assert not any(row.verified for row in beside())
    monkeypatch.setenv("STAND_IN", "fails")
    with pytest.raises(PeerError, match="failed: ValueError: asked to"):
        beside()


def test_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(UsageError, match=r"cannot import it.*pip install vllm"):
        measure_paged(24 * MIB, 0, Vllm(sys.executable))


def test_which_peer() -> None:
    assert parse_peer([]) is None
    assert parse_peer(["vllm=/a/python"]) == Vllm("/a/python")
    assert parse_peer(["vllm"]) == Vllm(sys.executable)
    for words in (["nixl"], ["vllm", "vllm"]):
        with pytest.raises(UsageError, match="vllm alone"):
            parse_peer(words)


@pytest.mark.parametrize("options", [["--blocks", "4KiB"], ["--peer", "redis"], ["smollm2-135m"]])
def test_goes_alone(options: list[str]) -> None:
    answer = CliRunner().invoke(app, ["bench", "paged", *options])
    assert isinstance(answer.exception, UsageError)

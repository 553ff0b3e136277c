"""A whole run: its rows, and what they say of the bytes that moved."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest

from kvferry import PathRefused
from kvferry.bench import measure
from kvferry.bench import run as runner
from kvferry.bench.cases import Plan
from kvferry.bench.costs import measure_costs
from kvferry.bench.layouts import model, plain
from kvferry.bench.path_costs import measure_path_costs
from kvferry.bench.result import Costs, Result, write_json
from kvferry.bench.run import run
from kvferry.bench.session import Session, open_session
from kvferry.bench.verify import Verdict

MIB = 1 << 20


def plan(**changes: object) -> Plan:
    few = {
        "layouts": (plain(64 << 10),),
        "paths": ("fabric/inline",),
        "ops": ("write",),
        "batches": (16,),
        "streams": (1,),
        "seconds": 0.0,
    }
    return Plan(**{**few, **changes})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _no_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    def free(session: Session, memory: dict[str, int]) -> Costs:
        return Costs(1.0, 1.0, 1.0, 1.0, 1.0, memory, 1, 0)

    monkeypatch.setattr(runner, "measure_costs", free)


def test_inline_and_streams_count_what_they_did() -> None:
    paths = ("fabric/inline", "ubshmem")
    result = run(plan(paths=paths, streams=(2,), ops=("write", "read")), 32 * MIB)
    assert result.verified
    for row in result.rows:
        inline = row.path["submitter"] == "inline"
        calls = row.bytes // (16 * 64 << 10)
        assert row.submissions == {
            "inline": calls if inline else 0,
            "stream": 0 if inline else 2 * calls,
            "coprocessor": 0,
        }
        assert row.threads == row.streams == (1 if inline else 2)
        assert row.preset == (None if inline else "ubshmem")
        assert row.repeats == 5
        assert row.gbps_min <= row.gbps <= row.gbps_max
        assert row.ratio == pytest.approx(row.gbps / row.limit_gbps, abs=0.01)
        assert row.cpu_s["initiator"] > row.cpu_s["target"]
    assert [row.op for row in result.rows] == ["write", "write", "read", "read"]


def test_a_layout_moves_scattered_pages_of_two_sizes() -> None:
    result = run(plan(layouts=(model("deepseek-r1"),), ops=("read",)), 64 * MIB)
    (row,) = result.rows
    assert row.verified
    assert (row.layout, row.block, row.batch) == ("deepseek-r1", 8784 << 10, 3)


def test_a_trace_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl.gz"
    line = b'{"timestamp": %d, "input_length": 1024, "output_length": 1, "hash_ids": [%d, 0, 9]}\n'
    file.write_bytes(gzip.compress(b"".join(line % (n, 1000 + n) for n in range(10))))
    result = run(plan(layouts=(model("smollm2-135m"),), trace=file, batches=(2,)), 32 * MIB)
    (row,) = result.rows
    assert row.verified
    assert row.repeats >= 5
    # each request is one call of 2 blocks and one of 1
    assert row.bytes % (360 << 10) == 0


def test_a_case_that_fails_to_verify_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "verify_case", lambda crew: Verdict(4, 1, 0))
    result = run(plan(), 16 * MIB)
    assert not result.verified
    assert [row.verified for row in result.rows] == [False]


def test_a_path_that_is_not_there_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(PathRefused, match="the peer is another engine"):
        run(plan(paths=("fabric/inline", "loopback/inline")), 16 * MIB, pytest.fail)


def test_what_is_written_can_be_read_again(tmp_path: Path) -> None:
    result = run(plan(), 16 * MIB)
    file = tmp_path / "bench.json"
    write_json(result, file)
    assert msgspec.json.decode(file.read_bytes(), type=Result).rows == result.rows
    assert set(result.costs.memory_bytes) == {"initiator", "target"}


def test_costs_are_measured() -> None:
    with open_session(16 * MIB) as session:
        found = measure_costs(session, {}, calls=1000)
    assert found.growth_calls == 1000
    assert all(
        cost > 0
        for cost in (
            found.build_us,
            found.resolve_us,
            found.import_s,
            found.bare_copy_us,
            found.inline_us,
        )
    )


@pytest.mark.parametrize(
    ("path", "limit"),
    [("cma/host", "process_vm loop"), ("tcp/host", "socket loop"), ("fabric/host", "memcpy/nt")],
)
def test_a_row_is_measured_against_the_loop_of_its_link(path: str, limit: str) -> None:
    result = run(plan(paths=(path,), ops=("write", "read")), 16 * MIB)
    assert result.verified
    assert {row.limit for row in result.rows} == {limit}
    assert min(row.limit_gbps for row in result.rows) > 0


def test_a_coprocessor_counts_its_batches() -> None:
    (row,) = run(plan(paths=("fabric/coprocessor",)), 16 * MIB).rows
    assert row.verified
    assert row.submissions["coprocessor"] > 0


def test_costs_of_two_paths_are_measured() -> None:
    with open_session(8 << 20) as session:
        costs = measure_path_costs(session)
    assert all(us is not None and us > 0 for us in costs)

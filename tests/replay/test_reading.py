"""Files: found out, decompressed, counted, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvferry.errors import UsageError
from kvferry.replay import FORMATS, figures_of, read_trace
from kvferry.replay import lines as lines_module
from tests.replay.samples import LINES, agentic_lines, azure_lines, mooncake_lines, written


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("file", ["trace", "trace.gz"])
def test_each_format_is_read(name: str, file: str, tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path / file, LINES[name]()))
    assert (trace.format, trace.skipped) == (name, 0)
    assert trace.arrivals[0] == 0
    assert (np.diff(trace.arrivals) >= 0).all()
    assert len(trace.starts) == len(trace) + 1
    assert trace.starts[-1] == len(trace.blocks)
    assert np.array_equal(np.unique(trace.blocks), np.arange(trace.unique))


def test_ids_of_a_conversation_are_its_own(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path / "a", agentic_lines()))
    assert trace.arrivals.tolist() == [0.0, 0.0, 2.5, 2.5]  # they begin together
    assert trace.unique == 14
    first, other, second = trace.of(0), trace.of(1), trace.of(2)
    assert np.array_equal(first[:3], second[:3])
    assert not np.intersect1d(first, other).size


def test_parents_are_the_blocks_before(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path / "a", agentic_lines()))
    parents, second = trace.parents(), trace.of(2)
    assert parents[second].tolist() == [second[0], *second[:-1].tolist()]


def test_requests_are_served_in_the_order_of_their_arrival(tmp_path: Path) -> None:
    lines = mooncake_lines()
    trace = read_trace(written(tmp_path / "a", [*lines[5:], *lines[:5]]))
    assert np.array_equal(trace.inputs, read_trace(written(tmp_path / "b", lines)).inputs)


def test_tokens_of_a_block_may_be_said(tmp_path: Path) -> None:
    line = '{"timestamp":0,"input_length":130,"output_length":1,"hash_ids":[1,2,3]}'
    file = written(tmp_path / "a", [line])
    assert read_trace(file, block_tokens=64).block_tokens == 64
    with pytest.raises(UsageError, match="line 1: 3 blocks for 130 tokens: of 512"):
        read_trace(file)
    with pytest.raises(UsageError, match="block_tokens"):
        read_trace(file, block_tokens=0)


BROKEN = [*mooncake_lines(6), "{", *mooncake_lines(1), '{"timestamp":-4}']


def test_a_bad_line_is_told_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 7: .*bad_line"):
        read_trace(written(tmp_path / "a.gz", BROKEN))


def test_bad_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path / "a", BROKEN), skip_bad=True)
    assert (len(trace), trace.skipped) == (7, 2)
    assert figures_of(trace).skipped == 2


def test_a_block_is_named_once(tmp_path: Path) -> None:
    line = '{"timestamp":0,"input_length":1024,"output_length":1,"hash_ids":[5,5]}'
    with pytest.raises(UsageError, match="named twice"):
        read_trace(written(tmp_path / "a", [line]))


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    file = written(tmp_path / "a.gz", mooncake_lines(2000))
    file.write_bytes(file.read_bytes()[:-4000])
    with pytest.raises(UsageError, match=r"line \d+: cannot be decompressed"):
        read_trace(file)
    trace = read_trace(file, skip_bad=True)
    assert 0 < len(trace) < 2000
    assert trace.skipped == 1


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST", 4000)
    monkeypatch.setattr("kvferry.replay.reading.LONGEST", 4000)
    lines = mooncake_lines(3)
    file = written(tmp_path / "a", [*lines, "[" * 20_000, *lines])
    with pytest.raises(UsageError, match="line 4: longer than"):
        read_trace(file)
    assert len(read_trace(file, skip_bad=True)) == 6


@pytest.mark.parametrize(
    ("lines", "cause"),
    [([], "empty"), (azure_lines()[:1], "empty"), (["hello"], "format"), (["{}"], "format")],
)
def test_what_is_no_trace_is_refused(lines: list[str], cause: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_trace(written(tmp_path / "a", lines))
    assert refused.value.cause == cause


def test_a_format_may_be_forced_and_has_to_be_known(tmp_path: Path) -> None:
    file = written(tmp_path / "a", ["{}", *mooncake_lines(2)])
    assert len(read_trace(file, format="mooncake", skip_bad=True)) == 2
    with pytest.raises(UsageError, match="'csv' is not one of"):
        read_trace(file, format="csv")
    with pytest.raises(UsageError, match="No such file"):
        read_trace(tmp_path / "nothing")
    with pytest.raises(UsageError, match="trace"):
        read_trace(tmp_path)

"""The comparison: its rows, what it refuses, and what a wrong byte does to it."""

from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from kvferry import UsageError
from kvferry.bench import ab, keys, recovery
from kvferry.bench.ab_table import keys_lines, keys_table, variants_lines, variants_table
from kvferry.bench.comparison import Comparison, Recovery
from kvferry.bench.lane import Lane
from kvferry.bench.layouts import MODELS, model
from kvferry.bench.parties import Clocks
from kvferry.bench.recovery import measure_recovery
from kvferry.bench.result import write_json
from kvferry.bench.session import open_session
from kvferry.bench.variants import BASE, VARIANTS, Variant
from kvferry.bench.verify import Verdict
from kvferry.path import Path as Route
from kvferry.path import parse

MIB = 1 << 20
NOT_HERE = Variant("loopback/inline/none", 1, "link")
FEW = (BASE, BASE._replace(streams=2, varies="streams"), NOT_HERE)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three variants, one of which this machine refuses; no target is killed."""
    monkeypatch.setattr(ab, "VARIANTS", FEW)
    monkeypatch.setattr(ab, "measure_recovery", lambda engine, variant: Recovery(2.0, 1.0, 3, True))
    monkeypatch.setattr(keys, "ROUNDS", 1)


def test_each_variant_differs_from_another_in_one_thing() -> None:
    def told(variant: Variant) -> tuple[Route, int]:
        (path,) = parse(variant.path)
        return path, variant.streams

    for variant in VARIANTS[1:]:
        base = VARIANTS[-2] if "of tcp" in variant.varies else BASE
        (path, streams), (base_path, base_streams) = told(variant), told(base)
        differences = [
            name
            for name, one, other in (
                ("link", path.link, base_path.link),
                ("submitter", path.submitter, base_path.submitter),
                ("staging", path.staging, base_path.staging),
                ("streams", streams, base_streams),
            )
            if one != other
        ]
        assert differences == [variant.varies.split()[0]]
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


@pytest.mark.usefixtures("few")
def test_a_comparison_has_a_row_a_variant_and_a_column_a_variant(tmp_path: Path) -> None:
    found = ab.compare(32 * MIB, None, 0.0)
    assert found.verified
    names = ["fabric/host x 1", "fabric/host x 2"]
    assert [row.variant for row in found.variants] == names
    calls = 2 * ab.ROUNDS  # 16 blocks each, of 32 that a side has
    for row in found.variants:
        assert row.path == "fabric/host/none"
        assert 0 < row.p50_us <= row.p99_us
        assert min(row.write_gbps, row.read_gbps, row.connect_ms, row.allocate_ms) > 0
        assert row.grant.asked <= row.grant.granted
        assert row.cpu.caller > 0
        assert row.staged_bytes == 0
        assert row.submissions["stream"] == 2 * calls * row.streams
    (refused,) = found.refused
    assert (refused.variant, refused.varies) == ("loopback/inline x 1", "link")
    assert "the peer is another engine" in refused.reason
    assert [row.keys for row in found.keys] == [32, 64, 128, 256, 512]
    assert all(list(row.ms) == names and min(row.ms.values()) > 0 for row in found.keys)
    file = tmp_path / "ab.json"
    write_json(found, file)
    again = msgspec.json.decode(file.read_bytes(), type=Comparison)
    assert (again.variants, again.keys, again.refused) == (
        found.variants,
        found.keys,
        found.refused,
    )


@pytest.mark.usefixtures("few")
def test_a_wrong_byte_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Lane.verify

    def wrong(lane: Lane) -> Verdict:
        return real(lane) if lane.case.streams == 1 else Verdict(4, 1, 0)

    monkeypatch.setattr(Lane, "verify", wrong)
    found = ab.compare(32 * MIB, model("smollm2-135m"), 0.0)
    assert not found.verified
    assert [row.verified for row in found.variants] == [True, False]
    assert found.unverified_keys == ["fabric/host x 2"]
    assert "fabric/host x 2: NOT verified" in list(keys_lines(found))
    assert len(re.findall(r"NO\s*$", shown(found), re.M)) == 1


@pytest.mark.usefixtures("few")
def test_tables_say_what_was_refused_and_that_slots_repeat() -> None:
    found = ab.compare(32 * MIB, None, 0.0)
    text = shown(found)
    assert "loopback/inline x 1 (link): refused: the peer is another engine" in text
    assert "a side has 91 slots, which repeat where more keys are moved" in text
    assert "granted 16 MiB" in text
    assert "512 keys" in text


def test_a_side_without_room_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="no room for two blocks of 1 MiB"):
        ab.compare(MIB, None, 0.0)
    with pytest.raises(UsageError, match="no room for two blocks of 8784 KiB"):
        ab.compare(4 * MIB, model("deepseek-r1"), 0.0)


@pytest.mark.parametrize(
    ("size", "name"),
    [(16 * MIB, "smollm2-135m"), (1 << 30, "llama-3-8b"), (64 << 30, "deepseek-r1")],
)
def test_the_keys_are_of_the_largest_model_that_fits(size: int, name: str) -> None:
    assert keys.key_layout(size) is MODELS[name]


def test_more_keys_than_slots_repeat_and_are_verified_once_each() -> None:
    assert keys.slots_repeat(511)
    assert not keys.slots_repeat(512)
    assert (keys.key_batch(100), keys.key_batch(5000)) == (100, 512)


def test_processor_time_is_told_apart_by_party() -> None:
    before = Clocks(caller=1, engines=2, unfolding=0.5, initiator=4, target=1)
    after = Clocks(caller=2, engines=5, unfolding=1.5, initiator=9, target=1.5)
    cpu = after.since(before).per_gigabyte(2 * 10**9)
    assert (cpu.caller, cpu.engines, cpu.coprocessor) == (0.5, 1.0, 0.5)
    assert (cpu.target, cpu.other) == (0.25, 0.5)
    assert before.plus(before).caller == 2


def test_bytes_move_again_after_the_target_was_killed() -> None:
    with open_session(MIB) as session:
        found = measure_recovery(session.engine, BASE)
        assert found.verified
        assert found.attempts > 1
        assert 0 < found.start_ms < recovery.WITHIN_SECONDS * 1e3
        assert set(session.engine.regions) == {"kv"}
        # the pair that was there before has not noticed
        lane = Lane(ab._case(BASE, "write", 4096, 4, MIB), session)
        assert lane.verify().good


def test_a_peer_that_does_not_come_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "WITHIN_SECONDS", 0.0)
    with open_session(MIB) as session, pytest.raises(TimeoutError, match="not back within"):
        measure_recovery(session.engine, BASE)


def shown(found: Comparison) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(variants_table(found))
    for line in variants_lines(found):
        console.print(line, soft_wrap=True)
    console.print(keys_table(found))
    for line in keys_lines(found):
        console.print(line, soft_wrap=True)
    return console.export_text()

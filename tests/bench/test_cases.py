from __future__ import annotations

from dataclasses import replace

import pytest

from kvferry import UsageError
from kvferry.bench.cases import Plan, cases
from kvferry.bench.layouts import model, plain
from kvferry.bench.shares import Pattern

GIB = 1 << 30
PLAN = Plan(
    layouts=(plain(4 << 10), plain(16 << 20)),
    paths=("fabric/inline", "fabric/host"),
    ops=("write", "read"),
    batches=(1, 128),
    streams=(1, 2),
    seconds=0.1,
)


def test_has_every_combination_once() -> None:
    found = cases(PLAN, GIB)
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 3
    assert {(case.path, case.streams) for case in found} == {
        ("fabric/inline", 1),
        ("fabric/host", 1),
        ("fabric/host", 2),
    }
    assert {case.batch for case in found if case.layout == plain(16 << 20)} == {1, 16}


def test_the_direction_changes_once() -> None:
    ops = [case.op for case in cases(PLAN, GIB)]
    assert ops == sorted(ops, reverse=True)


def test_batches_that_become_equal_are_one_case() -> None:
    small = replace(PLAN, layouts=(plain(16 << 20),), paths=("fabric/inline",))
    assert [case.batch for case in cases(small, 32 << 20)] == [1, 1]
    assert [case.op for case in cases(small, 32 << 20)] == ["write", "read"]


def test_a_preset_keeps_its_name() -> None:
    found = cases(replace(PLAN, paths=("ubshmem", "fabric/host/none")), GIB)
    assert {case.preset for case in found} == {"ubshmem", None}


def test_a_coprocessor_has_one_stream() -> None:
    found = cases(replace(PLAN, paths=("fabric/coprocessor", "fabricmem")), GIB)
    assert {case.streams for case in found} == {1}


def test_threads_share_a_side() -> None:
    found = cases(replace(PLAN, layouts=(plain(16 << 20),), batches=(128,), threads=4), GIB)
    assert {(case.batch, case.threads) for case in found} == {(4, 4)}


def test_peers_share_a_side() -> None:
    four = replace(PLAN, layouts=(plain(4 << 10),), pattern=Pattern.MANY_TO_ONE, peers=4)
    assert {case.slots for case in cases(four, GIB)} == {GIB // 4 // 4096}


@pytest.mark.parametrize(
    ("change", "size", "match"),
    [
        ({"paths": ("warp/inline",)}, GIB, "unknown link"),
        ({"paths": ("fast",)}, GIB, "unknown path"),
        ({"ops": ("write", "swap")}, GIB, "unknown op 'swap': know write, read"),
        ({"layouts": (plain(16 << 20),)}, 31 << 20, "no room for two blocks of 16 MiB"),
        ({"layouts": (plain(16 << 20),), "threads": 9}, 128 << 20, "no room for 9 blocks"),
        ({"layouts": (plain(512 << 20),)}, 4 * GIB, "above 256 MiB"),
        ({"layouts": (model("deepseek-r1"),)}, 16 << 20, "8784 KiB"),
    ],
)
def test_refuses(change: dict[str, object], size: int, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        cases(replace(PLAN, **change), size)  # type: ignore[arg-type]

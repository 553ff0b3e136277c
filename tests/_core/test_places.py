"""Which nodes have a key, against a dict of lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvferry import _core

KEYS = 40
SEED = bytes(range(16))

Model = dict[int, tuple[set[int], int]]  # nodes, and how many there should be

told = st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(0, 6)), max_size=30)
steps = st.lists(st.tuples(st.integers(1, 6), told, st.booleans()), max_size=12)


def digests(numbers: list[int]) -> NDArray[np.uint64]:
    """Of which some halves are alike."""
    return np.array([[n * 77, n % 3] for n in numbers], np.uint64).reshape(-1, 2)


def tell(model: Model, node: int, rows: list[tuple[int, int]]) -> list[int]:
    codes = []
    for key, wanted in rows:
        nodes, most = model.get(key, (set(), 0))
        if not wanted:
            codes.append(_core.PLACE_DROPPED if node in nodes else _core.PLACE_UNKNOWN)
            model[key] = nodes - {node}, most
            continue
        most = max(min(wanted, _core.PLACES), most if nodes else 0)
        if node in nodes:
            codes.append(_core.PLACE_KNOWN)
        elif len(nodes) == _core.PLACES:
            codes.append(_core.PLACE_CROWDED)
        else:
            codes.append(_core.PLACE_ADDED)
            nodes = nodes | {node}
        model[key] = nodes, most
    return codes


def scanned(table: _core.Places, lacking: bool) -> dict[tuple[int, ...], tuple[set[int], int]]:
    found = {}
    for shard in range(_core.SHARDS):
        start = 0
        while True:
            start, rows = table.scan(shard, start, 3, lacking)
            if not len(rows):
                break
            for row in rows:
                assert tuple(row["digest"].tolist()) not in found
                nodes = set(row["places"].tolist()) - {0}
                found[tuple(row["digest"].tolist())] = nodes, int(row["wanted"])
    return found


@settings(max_examples=25, deadline=None)
@given(steps)
def test_agrees_with_a_dict(steps: list[Any]) -> None:
    table, model = _core.Places(1 << 20, SEED), dict[int, tuple[set[int], int]]()
    for node, rows, forget in steps:
        names = digests([key for key, _ in rows])
        codes = table.tell(node, names, np.array([wanted for _, wanted in rows], np.uint8))
        assert codes.tolist() == tell(model, node, rows)
        if forget:
            had = table.held(node)
            assert sum(table.forget(node, shard) for shard in range(_core.SHARDS)) == had
            model = {key: (nodes - {node}, most) for key, (nodes, most) in model.items()}
        there = {key: row for key, row in model.items() if row[0]}
        found = table.find(digests(list(range(KEYS))))
        for key in range(KEYS):
            assert set(found[key].tolist()) - {0} == there.get(key, (set(), 0))[0]
        lacking = {key: row for key, row in there.items() if len(row[0]) < row[1]}
        for wanted, expected in (False, there), (True, lacking):
            named = {tuple(digests([key])[0].tolist()): row for key, row in expected.items()}
            assert scanned(table, wanted) == named
        assert table.rows - table.idle == len(there)
        assert table.lacking == len(lacking)
        for each in range(1, 7):
            assert table.held(each) == sum(each in row[0] for row in there.values())


def test_no_more_rows_than_permitted() -> None:
    table = _core.Places(100, SEED)
    names, ones = digests(list(range(150))), np.ones(150, np.uint8)
    codes = table.tell(1, names, ones)
    assert np.bincount(codes, minlength=4).tolist() == [100, 0, 0, 50]
    assert codes[:100].any() == 0
    assert table.rows == table.held(1) == 100
    assert table.tell(2, names, ones).tolist() == codes.tolist()
    assert (table.find(names)[100:] == 0).all()


def test_memory_follows_what_is_used() -> None:
    table = _core.Places(1 << 20, SEED)
    empty = table.memory
    names = np.random.default_rng(3).integers(0, 1 << 63, (200_000, 2)).astype(np.uint64)
    assert (table.tell(9, names, np.ones(len(names), np.uint8)) == _core.PLACE_ADDED).all()
    assert (table.find(names) == [9, 0, 0, 0]).all()
    assert 25 * len(names) < table.memory - empty < 80 * len(names)
    assert (table.tell(9, names, np.zeros(len(names), np.uint8)) == _core.PLACE_DROPPED).all()
    assert table.held(9) == 0


def test_refuses() -> None:
    table, one = _core.Places(10, SEED), np.ones(1, np.uint8)
    for node, kind in (0, ValueError), (1 << 16, OverflowError), (-1, OverflowError):
        with pytest.raises(kind):
            table.tell(node, digests([1]), one)
    with pytest.raises(ValueError, match="one length"):
        table.tell(1, digests([1, 2]), one)
    with pytest.raises(ValueError, match="shard"):
        table.scan(_core.SHARDS, 0, 1)
    with pytest.raises(ValueError, match="shard"):
        table.forget(1, _core.SHARDS)
    with pytest.raises(ValueError, match="secret"):
        _core.Places(10, b"short")
    assert table.rows == 0
    assert table.scan(0, 1 << 60, 5)[1].tolist() == []

"""Reads without an RPC: what they answer, hold, count and touch, whatever the index holds."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry import _core
from kvferry.testing import Child
from tests._core.tables import (
    EPOCH,
    Memory,
    digests,
    put,
    slots,
    words,
)

Spawn = Callable[..., Child]


class Table:
    """A node and one user in one process."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory.make()
        self.memory.pool[:] = np.arange(len(self.memory.pool)) * 7 % 251
        self.index = self.memory.node()
        self.lines = self.memory.users()
        self.reader = self.memory.reader(self.lines)

    def bytes(self, offset: int, length: int) -> bytes:
        return self.memory.pool[offset : offset + length].tobytes()

    def counted(self) -> dict[str, int]:
        counters = zip(_core.COUNTERS, self.lines.counters().tolist(), strict=True)
        return {name: count for name, count in counters if count}


@pytest.fixture
def table() -> Table:
    return Table()


def get_into(
    table: Table, keys: list[str], rooms: list[int]
) -> tuple[list[int], list[int], list[bytes]]:
    """The same by all three doors, each for itself."""
    outs = [bytearray(b"\xee" * room) for room in rooms]
    statuses, lengths = table.reader.get_all(keys, outs)
    block = np.full((len(keys), max(rooms)), 0xEE, np.uint8)
    addresses = block.ctypes.data + np.arange(len(keys), dtype=np.uint64) * np.uint64(max(rooms))
    again = table.reader.get_into(digests(*keys), addresses, words(*rooms))
    assert [each.tolist() for each in again] == [statuses.tolist(), lengths.tolist()]
    for at, (key, room) in enumerate(zip(keys, rooms, strict=True)):
        out = bytearray(b"\xee" * room)
        assert table.reader.get(key, out) == (statuses[at], lengths[at])
        assert out == outs[at] == block[at, :room].tobytes()
    return statuses.tolist(), lengths.tolist(), [bytes(out) for out in outs]


def test_every_answer(table: Table) -> None:
    put(table.index, digests("a"), 1, 64, 300)
    put(table.index, digests("empty"), 2)
    put(table.index, digests("outside"), 3, len(table.memory.pool) - 99, 100)
    put(table.index, digests("end"), 4, len(table.memory.pool) - 100, 100)
    keys = ["a", "none", "a", "empty", "outside", "end"]
    statuses, lengths, outs = get_into(table, keys, [300, 300, 299, 9, 200, 100])
    hit, absent, small = _core.HIT, _core.ABSENT, _core.TOO_SMALL
    assert statuses == [hit, absent, small, hit, _core.CORRUPT, hit]
    assert lengths == [300, 0, 300, 0, 0, 100]
    end = table.bytes(len(table.memory.pool) - 100, 100)
    assert outs == [
        table.bytes(64, 300),
        b"\xee" * 300,
        b"\xee" * 299,
        b"\xee" * 9,
        b"\xee" * 200,
        end,
    ]
    assert table.reader.exists(digests("a", "none")).tolist() == [hit, absent]
    counted = {"hits": 3, "bytes": 400, "absent": 1, "too_small": 1, "corrupt": 1}
    assert table.counted() == {name: 3 * count for name, count in counted.items()}


@pytest.mark.parametrize("length", [65_535, 65_537, 131_071, 131_072, 1_000_003])
def test_long_objects(length: int) -> None:
    table = Table(Memory.make(pool=length + 1))
    put(table.index, digests("a"), 1, 1, length)
    statuses, _, outs = get_into(table, ["a", "a"], [length, length])
    assert statuses == [_core.HIT] * 2
    assert outs == [table.bytes(1, length)] * 2


def test_what_left_is_absent(table: Table) -> None:
    found = put(table.index, digests("a"), 1, 0, 10)
    table.index.mark(slots(*found), words(1))
    assert table.reader.get("a", bytearray(10)) == (_core.ABSENT, 0)
    put(table.index, digests("a"), 2, 64, 10)
    out = bytearray(10)
    assert table.reader.get("a", out) == (_core.HIT, 10)
    assert out == table.bytes(64, 10)


def test_a_view_is_held_until_let_go(table: Table) -> None:
    put(table.index, digests("a", "b"), 10, 128, 50)
    before = _core.now()
    status, address, length, generation, line = table.reader.hold("b")
    assert (status, length, generation) == (_core.HIT, 50, 11)
    assert address == table.memory.pool.ctypes.data + 128
    assert table.lines.held(words(9, 10, 11, 12)).tolist() == [False, False, True, False]
    (claimed,) = table.lines.claimed()
    assert (claimed["line"], claimed["generation"]) == (line, 11)
    assert before <= claimed["since"] <= _core.now()
    assert claimed["owner"] == threading.get_ident()
    assert not table.reader.let_go(line, 10)
    assert not table.reader.let_go(1 << 40, 11)
    assert table.reader.let_go(line, 11)
    assert not table.reader.let_go(line, 11)
    assert not table.lines.held(words(11)).any()
    assert len(table.lines.claimed()) == 0
    assert table.reader.hold("none") == (_core.ABSENT, 0, 0, 0, 0)
    assert len(table.lines.claimed()) == 0


def test_lines_run_out(table: Table) -> None:
    put(table.index, digests("a"), 1, 0, 10)
    views = [table.reader.hold("a") for _ in range(len(table.lines))]
    assert len({line for *_, line in views}) == len(table.lines) == 4
    assert table.reader.hold("a")[0] == _core.NO_LINE
    assert get_into(table, ["a", "b"], [10, 10])[0] == [_core.NO_LINE] * 2
    assert table.counted() == {"hits": 4, "bytes": 40, "no_line": 7}
    assert table.reader.let_go(views[2][4], 1)
    assert table.reader.get("a", bytearray(10))[0] == _core.HIT
    assert table.reader.exists(digests("a")).tolist() == [_core.HIT]


def test_touches_tell_the_latest(table: Table) -> None:
    (one,) = put(table.index, digests("a"), (5 << 32) + 3, 0, 10)
    (two,) = put(table.index, digests("b"), 9, 0, 10)
    for key in ("a", "none", "b"):
        table.reader.get(key, bytearray(10))
    table.reader.get("b", bytearray(9))
    touches = table.lines.touches()
    assert touches["slot"].tolist() == [one, two]
    assert touches["generation"].tolist() == [3, 9]
    assert len(table.lines.touches()) == 0
    outs = [bytearray(10)] * 1000
    for _ in range(9):
        table.reader.get_all(["b"] * 1000, outs)
    table.reader.get("a", outs[0])
    touches = table.lines.touches()
    assert len(touches) == _core.TOUCHES
    assert touches["slot"].tolist() == [two] * (_core.TOUCHES - 1) + [one]
    assert len(table.lines.touches()) == 0


def test_another_run_of_the_node_is_foreign(table: Table) -> None:
    put(table.index, digests("a"), 1, 0, 10)
    late = table.memory.reader(table.lines, EPOCH + 1)
    assert late.get("a", bytearray(10)) == (_core.FOREIGN, 0)
    table.index.retire()
    assert get_into(table, ["a"], [10])[0] == [_core.FOREIGN]
    assert table.reader.hold("a")[0] == _core.FOREIGN
    assert table.reader.exists(digests("a", "b")).tolist() == [_core.FOREIGN] * 2


def test_bad_arguments_read_nothing(table: Table) -> None:
    with pytest.raises(BufferError):
        table.reader.get("a", b"constant")
    with pytest.raises(BufferError):
        table.reader.get_all(["a", "b"], [bytearray(1), b"constant"])
    with pytest.raises(TypeError):
        table.reader.get(7, bytearray(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one length"):
        table.reader.get_all(["a"], [])
    with pytest.raises(ValueError, match="one length"):
        table.reader.get_into(digests("a"), words(1), words())
    with pytest.raises(ValueError, match="one at least"):
        _core.Lines(table.memory.lines.ctypes.data, _core.lines_bytes(0))
    assert [len(each) for each in table.reader.get_all([], [])] == [0, 0]
    assert table.counted() == {}


SPOIL = st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=64))


@given(st.integers(0, 1 << 32), st.lists(SPOIL, max_size=20), st.booleans())
def test_whatever_the_index_holds(
    seed: int, spoil: list[tuple[int, bytes]], all_of_it: bool
) -> None:
    table = Table(Memory.make(16))
    names = [str(key) for key in range(16)]
    put(table.index, digests(*names), 1, 64, 64)
    body = table.memory.index[4096:]
    if all_of_it:
        body[:] = np.random.default_rng(seed).integers(0, 256, len(body), np.uint8)
    for at, part in spoil:
        start = at % (len(body) - len(part))
        body[start : start + len(part)] = np.frombuffer(part, np.uint8)
    outs = [bytearray(b"\xee" * 80) for _ in names]
    statuses, lengths = table.reader.get_all(names, outs)
    for status, length, out in zip(statuses.tolist(), lengths.tolist(), outs, strict=True):
        assert status in (_core.HIT, _core.ABSENT, _core.TOO_SMALL, _core.CORRUPT)
        assert out[length if status == _core.HIT else 0 :].strip(b"\xee") == b""
        assert status != _core.HIT or length <= 80
    table.reader.exists(digests(*names))
    assert len(table.lines.claimed()) == 0


@given(st.binary(min_size=64, max_size=640))
def test_whatever_a_user_writes(garbage: bytes) -> None:
    memory = Memory.make(lines=8)
    lines = memory.users()
    tail = memory.lines[-512:]
    tail[: len(garbage[:512])] = np.frombuffer(garbage[:512], np.uint8)
    memory.lines[64:72] = np.frombuffer(garbage[:8], np.uint8)
    assert len(lines.touches()) <= _core.TOUCHES
    named = set(np.frombuffer(tail[:].tobytes(), np.uint64)[::8].tolist()) - {0}
    asked = np.array(sorted({1, 2, *named}), np.uint64)
    assert set(asked[lines.held(asked)].tolist()) == named
    lines.claimed()
    lines.counters()

"""Values in pieces and parts of values, at a node in another process and at one in this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvferry import Pieces
from kvferry.errors import RightsError, UsageError
from kvferry.store import Answer, Store
from kvferry.store.codecs import Zstd
from kvferry.testing import spawn
from tests.store.conftest import short_folder
from tests.store.settings import node_of, over_tcp, sound, warm_up
from tests.store.user.test_draft import serve

BRIEF = 16 << 10  # at a distance, what is larger does not come along with the answer
UNTOUCHED = 0xEE


class Place(NamedTuple):
    """user  the store that a test is about
    look   what the process of the node has of a key
    """

    user: Store
    look: Callable[[str], bytes | None]


@contextmanager
def place_of(way: str) -> Iterator[Place]:
    """A user of a node in another process, which must be sound in the end; or the node itself."""
    if way == "embedded":
        with Store(size="8MiB") as store:
            yield Place(store, store.get)
        return
    with short_folder() as folder, spawn(serve, str(folder)) as child:
        unix, tcp = child.hear()

        def look(key: str) -> bytes | None:
            found = child.ask(["get", key])
            return None if found is None else bytes.fromhex(found)

        with over_tcp(), Store(unix if way == "mapped" else f"kv://{tcp}") as user:
            warm_up(user)
            yield Place(user, look)
        assert child.ask(["sound", ""]) == []
        child.result()


@pytest.fixture(scope="module", params=["embedded", "mapped", "far"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place_of(request.param) as made:
        yield made


@pytest.fixture
def store(place: Place) -> Store:
    return place.user


def some_bytes(size: int, seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def cut(value: bytes, ends: list[int]) -> list[bytes]:
    """A value in pieces, some of which may have no bytes."""
    at = sorted({min(end, len(value)) for end in ends} | {0, len(value)})
    return [value[begin:end] for begin, end in pairwise(at)] + [b""]


class Room:
    """Memory for pieces of these lengths, apart from each other, all of it UNTOUCHED."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = [[bytearray([UNTOUCHED]) * length for length in row] for row in rows]

    @property
    def pieces(self) -> Pieces:
        return Pieces.of(self.rows, writable=True)

    @property
    def whole(self) -> list[bytes]:
        return [b"".join(row) for row in self.rows]


LENGTHS = st.sampled_from([0, 1, 100, BRIEF, BRIEF + 1, 70_000])
ENDS = st.lists(st.integers(0, 70_000), max_size=4)
VALUES = st.lists(st.tuples(LENGTHS, ENDS), min_size=1, max_size=4)
ROWS = st.lists(st.lists(st.sampled_from([0, 1, 60, 20_000]), max_size=5), min_size=4, max_size=4)
NAMES = count()
OFFSETS = st.sampled_from([0, 1, 50, BRIEF, 50_000, 69_999, 70_000, (1 << 64) - 1])
MODEL = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def part_of(value: bytes | None, offset: int, length: int) -> bytes | None:
    if value is None or offset + length > len(value):
        return None
    return value[offset : offset + length]


@MODEL
@given(VALUES, ROWS, st.data())
def test_a_model_of_bytes(
    place: Place, drawn: list[tuple[int, list[int]]], rows: list[list[int]], data: st.DataObject
) -> None:
    store, keys = place.user, [f"{next(NAMES)}" for _ in range(4)]  # which may not all be there
    there = {
        key: some_bytes(length, i)
        for i, (key, (length, _)) in enumerate(zip(keys, drawn, strict=False))
    }
    split = [cut(value, ends) for value, (_, ends) in zip(there.values(), drawn, strict=True)]
    stored = store.put_batch(list(there), Pieces.of(split))
    assert stored.ok
    assert stored.lengths.tolist() == [len(value) for value in there.values()]
    assert {key: place.look(key) for key in there} == there

    room = Room(rows)
    results = store.get_batch_into(keys, room.pieces)
    for at, key in enumerate(keys):
        value, size = there.get(key), sum(rows[at])
        fits = value is not None and len(value) <= size
        said = Answer.ABSENT if value is None else Answer.FOUND if fits else Answer.TOO_SMALL
        assert results[at] is said
        expected = value if value is not None and fits else b""
        assert room.whole[at] == expected + bytes([UNTOUCHED]) * (size - len(expected))

    room = Room(rows)
    offsets = [[data.draw(OFFSETS) for _ in row] for row in rows]
    results, moved = store.get_ranges(keys, room.pieces, offsets)
    assert results.codes.tolist() == [
        Answer.FOUND if key in there else Answer.ABSENT for key in keys
    ]
    assert results.lengths.tolist() == [len(there.get(key, b"")) for key in keys]
    said_moved = iter(moved.tolist())
    for key, row, begins in zip(keys, room.rows, offsets, strict=True):
        for piece, offset in zip(row, begins, strict=True):
            part = part_of(there.get(key), offset, len(piece))
            assert next(said_moved) == (-1 if part is None else len(piece))
            assert piece == (bytes([UNTOUCHED]) * len(piece) if part is None else part)
    assert store.remove_batch(list(there)).ok


def test_lists_of_buffers_stand_for_one(store: Store) -> None:
    big = np.frombuffer(some_bytes(300_000, 1), np.uint8)
    assert store.put("one", [b"a", bytearray(b"bc")]) is Answer.STORED
    results = store.put_batch(["two", "three"], [(big[:7], big[7:]), b"alone"])
    assert results.ok
    assert store.get_batch(["one", "two", "three"]) == [b"abc", big.tobytes(), b"alone"]
    outs: list[Any] = [[bytearray(2), bytearray(2)], np.zeros(300_000, np.uint8)]
    assert store.get_batch_into(["one", "two"], outs).ok
    assert outs[0] == [b"ab", b"c\0"]
    assert (outs[1] == big).all()
    store.remove_batch(["one", "two", "three"])


def test_in_a_thread_of_the_store() -> None:
    with Store(size="1MiB") as store:
        out = [bytearray(1), bytearray(2)]
        assert store.put_batch_async(["key"], [[b"1", b"23"]]).wait(10).ok
        assert store.get_batch_into_async(["key"], [out]).wait(10).ok
        assert out == [b"1", b"23"]


def test_many_pieces_by_address(place: Place) -> None:
    """Sixty layers of sixteen values."""
    store, layers = place.user, 60
    memory = np.frombuffer(bytearray(some_bytes(16 * layers * 1024, 3)), np.uint8)
    starts = np.arange(17) * layers
    addresses = memory.ctypes.data + np.arange(16 * layers).reshape(layers, 16).T.ravel() * 1024
    lengths = np.full(16 * layers, 1024)
    keys = [f"layered {i}" for i in range(16)]
    assert store.put_batch(keys, Pieces(starts, addresses, lengths, memory)).ok
    blocks: NDArray[np.uint8] = memory.reshape(layers, 16, 1024)
    assert place.look(keys[5]) == blocks[:, 5].tobytes()
    before = memory.copy()
    memory[:] = 0
    assert store.get_batch_into(keys, Pieces(starts, addresses, lengths, memory)).ok
    assert (memory == before).all()
    memory[:] = 0
    one = Pieces(np.arange(17), addresses[::layers], lengths[:16], memory)
    results, moved = store.get_ranges(keys, one, [0] * 16)
    assert results.ok
    assert (moved == 1024).all()
    assert (memory[: 16 * 1024] == before[: 16 * 1024]).all()
    assert not memory[16 * 1024 :].any()
    store.remove_batch(keys)


def test_no_rows_and_no_pieces(store: Store) -> None:
    none = Pieces([0], [], [])
    assert len(store.put_batch([], none)) == 0
    assert len(store.get_batch_into([], none)) == 0
    assert [len(each) for each in store.get_ranges([], none, [])] == [0, 0]
    assert store.put_batch(["empty"], Pieces([0, 0], [], [])).ok
    assert store.get("empty") == b""
    assert store.get_batch_into(["empty"], Pieces([0, 0], [], []))[0] is Answer.FOUND
    results, moved = store.get_ranges(
        ["empty", "not there"], Pieces([0, 1, 1], [0], [0]), [[0], []]
    )
    assert (list(results), moved.tolist()) == ([Answer.FOUND, Answer.ABSENT], [0])
    store.remove("empty")


REFUSED: dict[str, tuple[Callable[[Store, Any], Any], type[Exception], str]] = {
    "rows": (lambda s, out: s.get_ranges(["k", "l"], [[out]], [0]), UsageError, "lengths"),
    "put rows": (lambda s, _: s.put_batch(["k"], Pieces([0], [], [])), UsageError, "lengths"),
    "get rows": (lambda s, _: s.get_batch_into(["k"], Pieces([0], [], [])), UsageError, "lengths"),
    "offsets": (lambda s, out: s.get_ranges(["k"], [[out]], [[0, 1]]), UsageError, "offsets"),
    "in rows": (
        lambda s, out: s.get_ranges(["k", "k"], [[out], [out]], [[0, 0], []]),
        UsageError,
        "offsets",
    ),
    "negative": (lambda s, out: s.get_ranges(["k"], [[out]], [[-1]]), UsageError, "offsets"),
    "huge": (lambda s, out: s.get_ranges(["k"], [[out]], [1 << 64]), UsageError, "offsets"),
    "floats": (lambda s, out: s.get_ranges(["k"], [[out]], np.zeros(1)), UsageError, "offsets"),
    "read-only": (
        lambda s, out: s.get_ranges(["k"], [[out, b"1"]], [0, 0]),
        RightsError,
        "read_only",
    ),
    "read-only whole": (
        lambda s, out: s.get_batch_into(["k"], [[out, b"1"]]),
        RightsError,
        "read_only",
    ),
    "read-only pieces": (
        lambda s, _: s.get_batch_into(["k"], Pieces.of([b"1"])),
        RightsError,
        "read_only",
    ),
    "strided": (
        lambda s, out: s.get_batch_into(["k"], [[np.zeros(8)[::2]]]),
        UsageError,
        "not_contiguous",
    ),
    "no buffer": (lambda s, out: s.get_batch_into(["k"], [[out, 5]]), UsageError, "not_a_buffer"),
    "put no buffer": (lambda s, out: s.put_batch(["new"], [[out, 5]]), UsageError, "not_a_buffer"),
    "objects": (
        lambda s, out: s.put_batch(["new"], [[np.array([object()])]]),
        UsageError,
        "not_a_buffer",
    ),
    "no key": (lambda s, out: s.get_ranges(cast(Any, [5]), [[out]], [0]), UsageError, "key"),
    "no key whole": (lambda s, out: s.get_batch_into(cast(Any, [5]), [[out]]), UsageError, "key"),
    "one key": (lambda s, out: s.get_ranges("k", [[out]], [0]), UsageError, "key"),
}


def test_what_is_refused_moves_nothing(store: Store) -> None:
    store.put("k", b"value")
    for name, (call, error, cause) in REFUSED.items():
        out = bytearray(3)
        with pytest.raises(error) as refused:
            call(store, out)
        assert refused.value.cause == cause, name  # type: ignore[attr-defined]
        assert out == bytes(3)
        assert not store.exists("new")
    store.remove("k")


def test_what_lies_on_a_disk(folder: Path) -> None:
    values = {f"key {i}": some_bytes(100_000, i) for i in range(20)}  # ten fill the pool
    with (
        Store(size="1MiB", ssd=folder / "ssd", ssd_size="16MiB", listen=["127.0.0.1:0"]) as node,
        over_tcp(),
        Store(f"kv://{node.engine.addresses[0]}") as far,
    ):
        tier = node_of(node).tier
        assert tier is not None
        for key, value in values.items():
            assert node.put(key, [value[:7], value[7:]]) is Answer.STORED
            assert tier.flush(15)
        for store in (node, far):
            room = Room([[99_999, 9]] * len(values))
            assert store.get_batch_into(list(values), room.pieces).ok
            assert [each[:100_000] for each in room.whole] == list(values.values())
            room = Room([[10]] * len(values))
            results, moved = store.get_ranges(list(values), room.pieces, [70_000] * len(values))
            assert results.ok
            assert (moved == 10).all()
            assert room.whole == [value[70_000:70_010] for value in values.values()]


def test_another_node_has_them(folder: Path) -> None:
    """Each way: of a node whose memory is mapped, and over a wire."""
    values = {f"key {i}": some_bytes(size, i) for i, size in enumerate((10, BRIEF, 50_000))}
    for host in (f"unix://{folder}/node", "127.0.0.1:0"):
        with Store(size="1MiB", listen=[host]) as there, over_tcp():
            (address,) = there.engine.addresses
            with Store(size="1MiB", peers=[address]) as here:
                there.put_batch(list(values), list(values.values()))
                here.put("own", b"own value")
                keys = ["own", *values, "none"]
                room = Room([[4, 60_000]] * 5)
                results = here.get_batch_into(keys, room.pieces)
                assert results.codes.tolist() == [Answer.FOUND] * 4 + [Answer.ABSENT]
                for value, got in zip(values.values(), room.whole[1:], strict=False):
                    assert got.startswith(value + bytes([UNTOUCHED]))
                room = Room([[4, 5]] * 5)
                results, moved = here.get_ranges(keys, room.pieces, [[1, 4]] * 5)
                assert moved.tolist() == [4, 5, 4, 5, 4, 5, 4, 5, -1, -1]
                assert room.rows[0] == [b"wn v", b"value"]
                for value, row in zip(values.values(), room.rows[1:], strict=False):
                    assert row == [value[1:5], value[4:9]]


def test_a_codec_takes_whole_values() -> None:
    with Store(size="1MiB", codec=Zstd()) as store:
        store.put("k", b"value")
        pieces = Pieces.of([[bytearray(5)]])
        calls: list[Callable[[], Any]] = [
            lambda: store.put_batch(["new"], pieces),
            lambda: store.put("new", [b"ab"]),
            lambda: store.get_batch_into(["k"], pieces),
            lambda: store.get_batch_into(["k"], [[bytearray(5)]]),
            lambda: store.get_ranges(["k"], pieces, [0]),
            lambda: store.draft(["new"], [5]),
        ]
        for call in calls:
            with pytest.raises(UsageError) as refused:
                call()
            assert refused.value.cause == "encoded"
        assert not store.exists("new")
        assert sound(node_of(store)) == []

"""What goes in comes out: values of every kind of buffer, keys of every kind, one and many."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kvferry.errors import RightsError, UsageError
from kvferry.store import Answer, Cause, Store
from tests.store.settings import Setting

STRAIGHT = 256 << 10  # at a distance, larger ones go where the caller has them


@pytest.fixture
def setting(emptied: Setting) -> Setting:
    return emptied


class Tensor:
    """What torch tensors offer, and no buffer."""

    def __init__(self, memory: np.ndarray[Any, Any], contiguous: bool = True) -> None:
        self.memory = memory
        self.device = SimpleNamespace(type="cpu")
        self.contiguous = contiguous

    def data_ptr(self) -> int:
        return self.memory.ctypes.data

    def numel(self) -> int:
        return self.memory.size

    def element_size(self) -> int:
        return self.memory.itemsize

    def is_contiguous(self) -> bool:
        return self.contiguous


def some_bytes(size: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def test_a_value_of_any_size_comes_back(store: Store) -> None:
    for size in (0, 1, 63, 64, 65, 4096, 4097, STRAIGHT - 1, STRAIGHT, STRAIGHT + 1):
        key, value, out = f"key {size}", some_bytes(size), bytearray(b"\xee" * (size + 3))
        assert store.put(key, value) is Answer.STORED
        assert store.get(key) == value
        assert store.get_into(key, out) == size
        assert out == value + b"\xee" * 3
        with store.view(key) as block:
            assert block is not None
            assert block.readonly
            assert bytes(block or b"") == value
        assert store.exists(key)
        assert store.why(key).cause is Cause.PRESENT


def test_what_is_not_there_is_none(store: Store) -> None:
    out = bytearray(b"\xee" * 8)
    assert store.get("no") is None
    assert store.get_into("no", out) is None
    assert out == b"\xee" * 8
    with store.view("no") as block:
        assert block is None
    assert not store.exists("no")
    assert not store.remove("no")
    assert store.why("no").cause is Cause.NEVER
    assert store.get_batch(["no", "none"]) == [None, None]


def test_a_value_of_no_bytes_is_not_absent(store: Store) -> None:
    for key, value in (("a", b""), ("b", np.empty(0)), ("c", Tensor(np.empty(0, np.float16)))):
        assert store.put(key, value) is Answer.STORED
        assert store.get(key) == b""
        assert store.get_into(key, bytearray()) == 0
        assert store.get_into(key, bytearray(8)) == 0
        with store.view(key) as block:
            assert block is not None
            assert bytes(block) == b""
        assert store.exists(key)
        assert store.remove(key)
        assert not store.exists(key)
    found = store.put_batch(["d", "e"], [b"", b"x"])
    assert found.ok
    assert store.get_batch(["d", "no", "e"]) == [b"", None, b"x"]
    results = store.get_batch_into(["d", "no", "e"], [bytearray(), bytearray(), bytearray(1)])
    assert list(results) == [Answer.FOUND, Answer.ABSENT, Answer.FOUND]
    assert results.lengths.tolist() == [0, 0, 1]


def test_text_and_bytes_name_the_same(store: Store) -> None:
    for text in ("", "plain", "ключ", "\0", "a" * 5000, "🗝"):
        assert store.put(text, text.encode() + b"!") is Answer.STORED
        assert store.put(text.encode(), b"other") is Answer.PRESENT
        assert store.get(text.encode()) == text.encode() + b"!"
    assert store.exists_batch(["plain", b"plain", "Plain"]).tolist() == [True, True, False]


def sources() -> dict[str, tuple[Any, bytes]]:
    numbers = np.arange(60, dtype=np.int32)
    plain = numbers.tobytes()
    raw = bytes(range(240))
    return {
        "bytes": (raw, raw),
        "bytearray": (bytearray(raw), raw),
        "array": (array.array("d", [1.5, 2.5]), array.array("d", [1.5, 2.5]).tobytes()),
        "ctypes": ((ctypes.c_uint32 * 3)(1, 2, 3), bytes((ctypes.c_uint32 * 3)(1, 2, 3))),
        "of 3 dimensions": (numbers.reshape(3, 4, 5), plain),
        "read-only": (np.frombuffer(plain, np.int32), plain),
        "of no dimension": (np.array(7.5), np.array(7.5).tobytes()),
        "of another byte order": (numbers.astype(">i4"), numbers.astype(">i4").tobytes()),
        "of records": (np.zeros(3, "u1,f8"), bytes(27)),
        "of moments": (np.arange(3).astype("M8[s]"), np.arange(3).tobytes()),
        "a view of floats": (memoryview(np.arange(4.0)), np.arange(4.0).tobytes()),
        "a part of a view": (memoryview(raw)[10:20], raw[10:20]),
        "a tensor": (Tensor(numbers), plain),
    }


def test_values_are_buffers_of_any_kind(store: Store) -> None:
    for kind, (value, expected) in sources().items():
        keys = [f"{kind} {at}" for at in range(3)]
        assert store.put(keys[0], value) is Answer.STORED
        assert list(store.put_batch(keys[1:], [value, value])) == [Answer.STORED] * 2
        assert store.get(keys[0]) == expected, kind
        assert store.get_batch(keys) == [expected] * 3, kind


def test_destinations_are_buffers_of_any_kind(store: Store) -> None:
    store.put("one", some_bytes(48, 1))
    store.put("two", some_bytes(48, 2))
    for out in (
        bytearray(48),
        np.zeros((2, 3, 4), np.int16),
        np.zeros(12, ">i4"),
        np.zeros(4, "u4,f8"),
        np.zeros(6, "M8[s]"),
        memoryview(bytearray(48)),
        Tensor(np.zeros(12, np.int32)),
    ):
        memory = out.memory if isinstance(out, Tensor) else np.asarray(out)
        assert store.get_into("one", out) == 48
        assert memory.tobytes() == some_bytes(48, 1), memory.dtype
        assert store.get_batch_into(["two"], [out]).ok
        assert memory.tobytes() == some_bytes(48, 2), memory.dtype


def test_a_number_as_destination(store: Store) -> None:
    out = np.array(0.0)
    store.put("pi", np.array(3.25))
    assert store.get_into("pi", out) == 8
    assert out == 3.25


@pytest.mark.parametrize("size", [100, STRAIGHT])
def test_into_what_is_too_small_nothing_is_written(store: Store, size: int) -> None:
    store.put("key", some_bytes(size))
    store.put("small", b"small")
    for room in (0, 1, size - 1):
        out = bytearray(b"\xee" * room)
        with pytest.raises(UsageError) as refused:
            store.get_into("key", out)
        assert refused.value.cause == "too_small"
        assert out == b"\xee" * room
    outs = [bytearray(b"\xee" * 99), bytearray(b"\xee" * 5), bytearray(b"\xee" * 99)]
    results = store.get_batch_into(["key", "small", "no"], outs)
    assert list(results) == [Answer.TOO_SMALL, Answer.FOUND, Answer.ABSENT]
    assert results.lengths.tolist() == [size, 5, 0]
    assert outs == [b"\xee" * 99, b"small", b"\xee" * 99]
    assert store.get("key") == some_bytes(size)


def test_read_only_destinations_are_refused(store: Store) -> None:
    store.put("key", b"value")
    fixed = np.zeros(5, np.uint8)
    fixed.flags.writeable = False
    for out in (b"12345", fixed, memoryview(bytearray(5)).toreadonly()):
        with pytest.raises(RightsError) as refused:
            store.get_into("key", out)
        assert refused.value.cause == "read_only"
        with pytest.raises(RightsError):
            store.get_batch_into(["key"], [out])


def test_what_is_no_buffer_of_bytes_is_refused(store: Store) -> None:
    scattered = np.zeros((4, 4), np.uint8)[:, ::2]
    gone = memoryview(bytearray(8))
    gone.release()
    for thing, cause in (
        (scattered, "not_contiguous"),
        (Tensor(np.zeros(4), contiguous=False), "not_contiguous"),
        (memoryview(bytes(9))[::-1], "not_contiguous"),
        (np.array([object()]), "not_a_buffer"),
        (gone, "not_a_buffer"),
        ("text", "not_a_buffer"),
        (None, "not_a_buffer"),
        (7, "not_a_buffer"),
        ([1, 2], "not_a_buffer"),
    ):
        with pytest.raises(UsageError) as refused:
            store.put("key", thing)
        assert refused.value.cause == cause, thing
        with pytest.raises(UsageError) as refused:
            store.put_batch(["key", "other"], [b"good", thing])
        assert (refused.value.cause, refused.value.index) == (cause, 1)
        with pytest.raises(UsageError):
            store.get_into("key", thing)
        with pytest.raises(UsageError):
            store.get_batch_into(["key", "other"], [bytearray(4), thing])
    assert store.exists_batch(["key", "other"]).tolist() == [False, False]


CALLS: dict[str, Any] = {
    "put": lambda store, key: store.put(key, b"v"),
    "get": lambda store, key: store.get(key),
    "get_into": lambda store, key: store.get_into(key, bytearray(4)),
    "view": lambda store, key: store.view(key),
    "exists": lambda store, key: store.exists(key),
    "remove": lambda store, key: store.remove(key),
    "why": lambda store, key: store.why(key),
    "parent": lambda store, key: store.put("good", b"v", parent=key),
    "put_batch": lambda store, key: store.put_batch(["good", key], [b"1", b"2"]),
    "parents": lambda store, key: store.put_batch(["good"], [b"1"], parents=[key]),
    "get_batch": lambda store, key: store.get_batch(["good", key]),
    "into": lambda store, key: store.get_batch_into(["good", key], [bytearray(1), bytearray(1)]),
    "exists_batch": lambda store, key: store.exists_batch(["good", key]),
    "remove_batch": lambda store, key: store.remove_batch(["good", key]),
    "lease": lambda store, key: store.lease(["good", key], 1),
    "pin": lambda store, key: store.pin(["good", key]),
    "group": lambda store, key: store.group(["good", key]),
}


def test_what_is_no_key_is_refused(store: Store) -> None:
    for name, call in CALLS.items():
        for key in (7, (), 1.5, ["k"], "\ud800", "fine\udfff", bytearray(b"k")):
            with pytest.raises(UsageError) as refused:
                call(store, key)
            assert refused.value.cause == "key", (name, key)
    assert not store.exists("good")


def test_one_key_is_no_batch(store: Store) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: store.put_batch("ab", [b"1", b"2"]),
        lambda: store.get_batch("ab"),
        lambda: store.get_batch_into("ab", [bytearray(1), bytearray(1)]),
        lambda: store.exists_batch("ab"),
        lambda: store.remove_batch("ab"),
        lambda: store.pin("ab"),
        lambda: store.group("ab"),
        lambda: store.lease("ab", 1),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()
    assert not store.exists("a")


def test_columns_of_a_batch_have_one_length(store: Store) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: store.put_batch(["a"], []),
        lambda: store.put_batch([], [b"1"]),
        lambda: store.put_batch(["a", "b"], [b"1", b"2"], parents=["c"]),
        lambda: store.get_batch_into(["a", "b"], [bytearray(1)]),
    ]
    for call in calls:
        with pytest.raises(UsageError) as refused:
            call()
        assert refused.value.cause == "lengths"
    assert not store.exists("a")


def test_a_batch_of_nothing_is_legal(store: Store) -> None:
    assert len(store.put_batch([], [])) == 0
    assert store.put_batch([], []).ok
    assert store.get_batch([]) == []
    assert len(store.get_batch_into([], [])) == 0
    assert len(store.exists_batch([])) == 0
    assert len(store.remove_batch([])) == 0
    assert len(store.pin([])) == 0
    assert len(store.group([])) == 0
    with store.lease([], 1) as lease:
        assert len(lease.held) == 0


def test_the_first_value_stays(store: Store) -> None:
    assert store.put("key", b"first") is Answer.STORED
    assert store.put("key", b"second") is Answer.PRESENT
    assert list(store.put_batch(["new", "key"], [b"n", b"third"])) == [
        Answer.STORED,
        Answer.PRESENT,
    ]
    assert store.get_batch(["key", "new"]) == [b"first", b"n"]


def test_of_a_key_twice_in_a_batch_the_first_value_stays(store: Store) -> None:
    results = store.put_batch(["a", "b", "a", "a"], [b"1", b"2", b"3", b"4"])
    assert list(results) == [Answer.STORED, Answer.STORED, Answer.PRESENT, Answer.PRESENT]
    assert results.lengths.tolist() == [1, 1, 0, 0]
    outs = [bytearray(1) for _ in range(3)]
    assert store.get_batch_into(["a", "b", "a"], outs).ok
    assert outs == [b"1", b"2", b"1"]
    assert list(store.remove_batch(["a", "a", "b"])) == [
        Answer.REMOVED,
        Answer.ABSENT,
        Answer.REMOVED,
    ]


def test_a_batch_of_all_sizes_is_compared(store: Store) -> None:
    sizes = [0, 1, 64, 65, 1000, 4096, 30000, STRAIGHT] + [100] * 300
    values = [some_bytes(size, seed) for seed, size in enumerate(sizes)]
    keys = [f"key {at}" for at in range(len(sizes))]
    assert store.put_batch(keys, values).ok
    outs = [bytearray(size) for size in sizes]
    results = store.get_batch_into(keys, outs)
    assert results.ok
    assert results.lengths.tolist() == sizes
    assert outs == values
    assert store.get_batch(keys) == values
    assert store.exists_batch([*keys, "no"]).tolist() == [True] * len(keys) + [False]


def test_values_above_the_pool_are_too_large(store: Store) -> None:
    capacity = store.stats()["usage"]["capacity"]
    large = bytes(capacity + 1)
    with pytest.raises(UsageError) as refused:
        store.put("large", large)
    assert refused.value.cause == "too_large"
    results = store.put_batch(["a", "large", "b"], [b"1", large, b"2"])
    assert list(results) == [Answer.STORED, Answer.TOO_LARGE, Answer.STORED]
    assert results.lengths.tolist() == [1, 0, 1]
    assert store.get_batch(["a", "large", "b"]) == [b"1", None, b"2"]
    assert store.put("as large as the pool", large[1:]) is Answer.STORED
    with pytest.raises(UsageError):
        store.put("large", large)
    assert store.get("as large as the pool") == large[1:]


def test_results_are_a_sequence(store: Store) -> None:
    results = store.put_batch(["a", "b", "a"], [b"", b"", b""])
    assert results[0] is Answer.STORED
    assert results[-1] is Answer.PRESENT
    assert results[1:] == [Answer.STORED, Answer.PRESENT]
    assert repr(results) == "<Results of 3: 2 STORED, 1 PRESENT>"
    assert results.ok
    absent = store.get_batch_into(["a", "no"], [bytearray(1), bytearray(1)])
    assert not absent.ok
    assert absent.present.tolist() == [True, False]

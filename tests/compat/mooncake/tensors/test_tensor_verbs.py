"""Tensors as they are and in equal parts: what is stored, what comes back, what is refused."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from .shelf import Memory

REFUSED = -600
TYPES = ["f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", "f2"]
NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

TORCH = importlib.util.find_spec("torch") is not None
ML_DTYPES = importlib.util.find_spec("ml_dtypes") is not None


@pytest.fixture(
    params=["numpy", pytest.param("torch", marks=pytest.mark.skipif(not TORCH, reason="no torch"))]
)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What makes tensors of NumPy arrays; and which of the two a process uses."""
    if request.param == "torch":
        import torch

        return torch.from_numpy
    monkeypatch.setattr("mooncake.tensor_values._torch", lambda: None)
    return lambda array: array


def numpy_of(tensor: Any) -> np.ndarray[Any, Any]:
    return tensor if isinstance(tensor, np.ndarray) else tensor.numpy()


def same(tensor: Any, array: np.ndarray[Any, Any]) -> bool:
    found = numpy_of(tensor)
    return (
        found.dtype == array.dtype and found.shape == array.shape and bool((found == array).all())
    )


def grid(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape).astype(dtype)


def test_every_type_comes_back(shelf: Any, kind: Any) -> None:
    for dtype in TYPES:
        store, array = shelf(), grid(3, 5, dtype=dtype)
        assert store.put_tensor("k", kind(array)) == 0
        got = store.get_tensor("k")
        assert type(got) is type(kind(array))
        assert same(got, array)
        numpy_of(got)[0] = 1  # it is the caller's own
        assert same(store.get_tensor("k"), array)


@pytest.mark.skipif(not TORCH, reason="no torch")
def test_narrow_types_of_torch(shelf: Any) -> None:
    import torch

    for name in NARROW:
        store = shelf()
        tensor = torch.arange(24, dtype=torch.float32).reshape(4, 6).to(getattr(torch, name))
        assert store.put_tensor_with_tp("k", tensor, 0, 2, 1) == 0
        for rank, part in enumerate(tensor.chunk(2, dim=1)):
            got = store.get_tensor_with_tp("k", rank, 2)
            assert got.dtype == tensor.dtype
            assert torch.equal(got.view(torch.uint8), part.contiguous().view(torch.uint8))


@pytest.mark.skipif(not ML_DTYPES, reason="no ml_dtypes")
def test_narrow_types_of_numpy(shelf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ml_dtypes

    monkeypatch.setattr("mooncake.tensor_values._torch", lambda: None)
    for name in NARROW:
        store, array = shelf(), grid(4, 6, dtype=getattr(ml_dtypes, name))
        assert store.put_tensor("k", array) == 0
        assert same(store.get_tensor("k"), array)


def test_what_lies_otherwise_is_stored_in_order(shelf: Any, kind: Any) -> None:
    store, array = shelf(), grid(4, 6)
    for key, tensor in {"t": kind(array).T, "s": kind(array)[::2, 1:3]}.items():
        assert store.put_tensor(key, tensor) == 0
        assert same(store.get_tensor(key), numpy_of(tensor))
    store.put_tensor("big", array.astype(">f4"))
    assert same(store.get_tensor("big"), array)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1,) * 8])
def test_odd_shapes(shelf: Any, kind: Any, shape: tuple[int, ...]) -> None:
    store, array = shelf(), grid(*shape)
    assert store.put_tensor("k", kind(array)) == 0
    assert same(store.get_tensor("k"), array)


def test_a_scalar_gets_a_dimension(shelf: Any, kind: Any) -> None:
    store = shelf()
    assert store.put_tensor("k", kind(np.array(3.5))) == 0
    assert same(store.get_tensor("k"), np.array([3.5]))


@pytest.mark.parametrize(
    "thing", [None, "text", b"x", [1.0], np.zeros((1,) * 9), np.zeros(2, "c8"), np.array("x")]
)
def test_what_is_no_tensor(shelf: Any, thing: Any) -> None:
    store, memory = shelf(), Memory()
    assert store.put_tensor("k", thing) == REFUSED
    assert store.upsert_pub_tensor("k", thing) == REFUSED
    assert store.batch_put_tensor(["k", "l"], [thing, grid(2)]) == [REFUSED, 0]
    assert store.put_tensor_with_tp("k", thing, 0, 2, 0) == REFUSED
    assert store.put_tensor_with_parallelism("k", thing) == REFUSED
    assert list(store.objects) == ["l"]
    store.put_parts("k", b"y" * 400)
    assert store.get_tensor("k") is None
    assert store.get_tensor_into("k", memory.at, 1000) is None
    assert store.batch_get_tensor(["k", "l", "m"])[::2] == [None, None]


def test_put_keeps_and_upsert_replaces(shelf: Any) -> None:
    store, config = shelf(), object()
    first, second = grid(2, 3), grid(2, 3) + 1
    store.put_tensor("k", first)
    assert store.pub_tensor("k", second, config) == 0
    assert store.config is config
    assert same(store.get_tensor("k"), first)
    for number, verb in enumerate([store.upsert_tensor, store.upsert_pub_tensor]):
        assert verb("k", second + number) == 0
        assert same(store.get_tensor("k"), second + number)
    assert store.batch_upsert_tensor(["k", "l"], [first, second]) == [0, 0]
    assert store.batch_upsert_pub_tensor(["l"], [first]) == [0]
    assert all(same(got, first) for got in store.batch_get_tensor(["k", "l"]))


def test_a_batch_of_unequal_columns(shelf: Any) -> None:
    store = shelf()
    assert store.batch_put_tensor(["a", "b"], [grid(2)]) == [REFUSED] * 2
    assert store.batch_put_tensor([], []) == []
    assert store.batch_put_tensor_from(["a"], [1, 2], [3]) == [REFUSED]
    assert store.batch_get_tensor_into(["a"], [1, 2], [3]) == [None]
    assert store.objects == {}


def test_into_memory_and_from_it(shelf: Any, kind: Any) -> None:
    store, memory, array = shelf(), Memory(), grid(4, 6)
    store.put_tensor("k", array)
    got = store.get_tensor_into("k", memory.at, 400)
    assert same(got, array)
    memory.bytes[304:400].view(np.float32)[:] += 1
    assert same(got, array + 1)  # over that memory
    assert store.put_tensor_from("l", memory.at, 400) == 0
    assert same(store.get_tensor("l"), array + 1)
    assert store.upsert_tensor_from("k", memory.at, 400) == 0
    assert store.objects["k"] == store.objects["l"] == memory.bytes[:400].tobytes()
    columns = ["m", "n", "o"], [memory.at] * 3, [399, 400, 401]
    assert store.batch_put_tensor_from(*columns) == [REFUSED, 0, REFUSED]
    assert store.batch_upsert_tensor_from(*columns) == [REFUSED, 0, REFUSED]
    got = store.batch_get_tensor_into(
        ["k", "?", "n"], [memory.at + 1000 * i for i in range(3)], [400] * 3
    )
    assert got[1] is None
    assert same(got[0], array + 1)
    assert same(got[2], array + 1)


def test_memory_that_does_not_do(shelf: Any) -> None:
    store, memory = shelf(), Memory()
    store.put_tensor("k", grid(4, 6))
    for size in (0, 10, 304, 399):
        assert store.get_tensor_into("k", memory.at, size) is None
        assert store.put_tensor_from("l", memory.at, size) == REFUSED
    for address in (0, 8, 1 << 62):
        assert store.get_tensor_into("k", address, 400) is None
        assert store.put_tensor_from("l", address, 400) == REFUSED
        assert store.put_tensor_with_tp_from("l", address, 400, 0, 2, 0) == REFUSED
        assert store.put_tensor_with_parallelism_from("l", address, 400) == REFUSED
    assert memory.untouched
    assert list(store.objects) == ["k"]


def test_there_is_no_cuda(shelf: Any) -> None:
    store = shelf()
    assert store.get_tensor_into_cuda("k", grid(2)) == REFUSED
    assert store.batch_get_tensor_into_cuda(["k", "l"], [grid(2)] * 2) == [REFUSED] * 2


def test_equal_parts(shelf: Any, kind: Any) -> None:
    store, memory, array = shelf(), Memory(), grid(4, 6)
    assert store.pub_tensor_with_tp("k", kind(array), None, 1, 3, 1) == 0
    assert sorted(store.objects) == ["k_tp_0", "k_tp_1", "k_tp_2"]
    for rank, part in enumerate(np.split(array, 3, axis=1)):
        assert same(store.get_tensor_with_tp("k", rank, 3), part)
        assert same(store.get_tensor_with_tp_into("k", memory.at, 336, rank, 3), part)
        assert store.get_tensor_with_tp("k", rank, 2) is None
        assert store.get_tensor_with_tp_into("k", memory.at, 335, rank, 3) is None
    assert store.get_tensor_with_tp("k", 3, 3) is None
    assert store.get_tensor_with_tp("k") is None
    store.upsert_tensor("k", array)
    assert same(store.get_tensor_with_tp("k", 5, 1), array)
    store.get_tensor_into("k", memory.at, 400)
    keys = ["a", "b"]
    assert store.batch_put_tensor_with_tp_from(keys, [memory.at] * 2, [400, 300], 0, 2, 0) == [
        0,
        REFUSED,
    ]
    assert store.batch_put_tensor_with_tp(["b", "c"], [array, "x"], 0, 2, 0) == [0, REFUSED]
    halves = store.batch_get_tensor_with_tp(["a", "b", "c"], 1, 2)
    assert same(halves[0], array[2:])
    assert same(halves[1], array[2:])
    assert halves[2] is None
    assert store.put_tensor_with_tp("whole", array) == 0
    assert same(store.get_tensor("whole"), array)


@pytest.mark.parametrize("place", [(0, 4, 1), (0, 2, 2), (0, 2, -1), (0, 1 << 20, 0)])
def test_what_is_not_divided_evenly(shelf: Any, place: tuple[int, int, int]) -> None:
    from mooncake.parallelism import ParallelAxis, TensorParallelism

    rank, size, split_dim = place
    store, array = shelf(), grid(4, 6)
    writer = SimpleNamespace(rank=rank, size=size, split_dim=split_dim)
    several = TensorParallelism([ParallelAxis("tp", *place), ParallelAxis("dp")])
    assert store.put_tensor_with_tp("k", array, *place) == REFUSED
    assert store.put_tensor_with_parallelism("k", array, writer_partition=writer) == REFUSED
    assert store.put_tensor_with_parallelism("k", array, several) == REFUSED
    assert store.objects == {}


def test_tensors_as_bytes(kind: Any) -> None:
    import ctypes

    from mooncake.tensors import _deserialize_tensor, _serialize_tensor, _tensor_metadata_size

    array = grid(4, 6)
    header, address, size, kept = _serialize_tensor(kind(array).T)
    assert len(header) == _tensor_metadata_size() == 304
    stored = header + ctypes.string_at(address, size)
    del kept
    assert same(_deserialize_tensor(stored), array.T)
    with pytest.raises(ValueError, match="399 bytes"):
        _deserialize_tensor(stored[:-1])
    with pytest.raises(ValueError, match="no tensor"):
        _serialize_tensor("text")

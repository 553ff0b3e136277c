"""Safetensors files: what is written, what is read, what is no such file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .dividing import same

ABSENT, REFUSED = -1100, -600
ARRAY = np.arange(24, dtype=np.float32).reshape(4, 6)


def written(path: Path, index: Any, elements: bytes) -> str:
    text = json.dumps(index).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + elements)
    return str(path)


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_file_of_one_tensor(shelf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = shelf()
    store.put_tensor("k", ARRAY)
    monkeypatch.chdir(tmp_path)
    assert store.save_tensor_to_safetensor("k") == 0
    index = b'{"k":{"dtype":"F32","shape":[4,6],"data_offsets":[0,96]}}       '
    assert Path("k").read_bytes() == b"@" + bytes(7) + index + ARRAY.tobytes()
    assert same(store.load_tensor_from_safetensor("l", "k"), ARRAY)
    assert same(store.load_tensor_from_safetensor(file_name="k"), ARRAY)
    store.upsert_tensor("k", ARRAY.astype(np.int16).T)
    assert store.save_tensor_to_safetensor("k", "two") == 0
    assert same(store.load_tensor_from_safetensor("t", "two"), ARRAY.astype(np.int16).T)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k", "two"]
    assert same(store.get_tensor("l"), ARRAY)
    assert same(store.get_tensor("t"), ARRAY.astype(np.int16).T)


def test_what_cannot_be_saved(shelf: Any, tmp_path: Path) -> None:
    store = shelf()
    store.put_tensor("k", ARRAY)
    store.put_tensor("__metadata__", ARRAY)
    assert store.save_tensor_to_safetensor("nothing", str(tmp_path / "f")) == ABSENT
    assert store.save_tensor_to_safetensor("k", str(tmp_path / "none" / "f")) == REFUSED
    assert store.save_tensor_to_safetensor("__metadata__", str(tmp_path / "f")) == REFUSED
    assert list(tmp_path.iterdir()) == []


def test_one_of_several(shelf: Any, tmp_path: Path) -> None:
    store = shelf()
    two = {"__metadata__": {"x": "y"}, "p": entry(), "q": entry("I8", [1, 4], [8, 12])}
    file = written(tmp_path / "f", two, bytes(range(12)))
    assert same(store.load_tensor_from_safetensor("q", file), np.array([[8, 9, 10, 11]], np.int8))
    first = np.frombuffer(bytes(range(8)), np.float32)
    assert same(store.load_tensor_from_safetensor("other", file), first)
    assert same(store.load_tensor_from_safetensor(None, file), first)
    assert set(store.objects) == {"q", "other", file}


@pytest.mark.parametrize(
    "index",
    [
        [],
        {},
        {"__metadata__": {}},
        {"k": 1},
        {"k": {"dtype": "F32"}},
        {"k": entry("F31")},
        {"k": entry(["F32"])},
        {"k": entry(shape=[-2])},
        {"k": entry(shape=[2.0])},
        {"k": entry(shape="2")},
        {"k": entry(shape=[1 << 62, 1 << 62])},
        {"k": entry(shape=[3])},
        {"k": entry(shape=[1 << 40], offsets=[0, 1 << 42])},
        {"k": entry(shape=[1 << 63, 0], offsets=[0, 0])},
        {"k": entry(shape=[1] * 9, offsets=[0, 4])},
        {"k": entry(offsets=[8, 0])},
        {"k": entry(offsets=[4, 12])},
        {"k": entry(offsets=[0])},
        {"k": entry(offsets=[True, 8])},
    ],
)
def test_what_is_no_index(shelf: Any, tmp_path: Path, index: Any) -> None:
    store = shelf()
    file = written(tmp_path / "f", index, bytes(8))
    assert store.load_tensor_from_safetensor("k", file) is None
    assert store.objects == {}


def test_what_is_no_file(shelf: Any, tmp_path: Path) -> None:
    store, path = shelf(), tmp_path / "f"
    assert store.load_tensor_from_safetensor("k", str(path)) is None
    assert store.load_tensor_from_safetensor("k") is None
    good = Path(written(path, {"k": entry()}, bytes(8))).read_bytes()
    for wrong in [good[:length] for length in range(len(good))] + [
        b"\xff" * 8 + b"{}",
        (200 << 20).to_bytes(8, "little") + b"{}",
        (4).to_bytes(8, "little") + b"\xff" * 4,
    ]:
        path.write_bytes(wrong)
        assert store.load_tensor_from_safetensor("k", str(path)) is None
    assert store.objects == {}
    path.write_bytes(good)
    assert same(store.load_tensor_from_safetensor("k", str(path)), np.zeros(2, np.float32))

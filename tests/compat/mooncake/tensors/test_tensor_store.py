"""Tensors between two processes, through the store itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from kvferry.testing import Child, Parent
from tests.compat.mooncake.store.town import made, master
from tests.compat.mooncake.tensors.dividing import read_all, same, write
from tests.compat.mooncake.tensors.shelf import Memory

WRITTEN = ("whole", "tp_from", "several", "writer")
RETURNED = ("parts", "several_from")
ARRAY = np.arange(1 << 14, dtype=np.float32).reshape(4, 64, 64)


def neighbour(parent: Parent, address: str, folder: str) -> None:
    """Writes a tensor in every way, then says whether it reads what the other wrote."""
    store = made(address)
    for how in WRITTEN:
        write(store, how, ARRAY, 4, 1, how)
    assert store.save_tensor_to_safetensor("whole", f"{folder}/saved") == 0
    parent.tell("written")
    for how in parent:
        read_all(store, how, ARRAY + 1, 2, 0, f"back {how}")
        parent.tell("read")
    store.close()


def test_tensors_cross_processes(spawn: Callable[..., Child], tmp_path: Path) -> None:
    town = spawn(master)
    other = spawn(neighbour, address := town.hear(), str(tmp_path))
    assert other.hear() == "written"
    store, memory = made(address, 0), Memory(1 << 17)
    assert store.register_buffer(memory.at, memory.bytes.nbytes) == 0
    for how in WRITTEN:
        read_all(store, how, ARRAY, 2, 2, how)
    assert same(store.get_tensor_into("whole", memory.at, memory.bytes.nbytes), ARRAY)
    assert store.put_tensor_from("copy", memory.at, 304 + ARRAY.nbytes) == 0
    assert store.upsert_tensor("whole", ARRAY + 2) == 0
    found = store.batch_get_tensor(["copy", "whole", "nothing"])
    assert same(found[0], ARRAY)
    assert same(found[1], ARRAY + 2)
    assert found[2] is None
    loaded = store.load_tensor_from_safetensor("loaded", str(tmp_path / "saved"))
    assert same(loaded, ARRAY)
    assert same(store.get_tensor("loaded"), ARRAY)
    for how in RETURNED:
        write(store, how, ARRAY + 1, 4, 1, f"back {how}")
        assert other.ask(how) == "read"
    store.close()
    assert store.put_tensor("k", ARRAY) < 0
    assert store.get_tensor("k") is None
    assert store.batch_put_tensor_from(["k"], [memory.at], [304 + ARRAY.nbytes])[0] < 0
    assert store.get_tensor_into("k", memory.at, 400) is None

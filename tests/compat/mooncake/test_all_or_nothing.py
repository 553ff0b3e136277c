"""A call with one argument of a wrong type does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kvferry.testing import Child

from .peer import serve

SIZE = 4096


@pytest.fixture
def engine() -> Iterator[Any]:
    from mooncake.engine import TransferEngine

    made = TransferEngine()
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    yield made
    made.get_engine().close()


@pytest.mark.parametrize("wrong", [1.5, "x", None])
def test_registering(engine: Any, wrong: Any) -> None:
    ours = np.zeros(2 * SIZE, np.uint8)
    at = ours.ctypes.data
    with pytest.raises(TypeError):
        engine.batch_register_memory([at, wrong], [SIZE, SIZE])
    with pytest.raises(TypeError):
        engine.batch_register_memory([at, at + SIZE], [SIZE, wrong])
    assert engine.unregister_memory(at) == -3


def test_transfers_and_their_notifies(engine: Any, spawn: Callable[..., Child]) -> None:
    from mooncake.engine import TransferNotify, TransferOpcode

    child = spawn(serve, "127.0.0.1", "P2PHANDSHAKE", SIZE)
    said = child.hear()
    name, there = f"127.0.0.1:{said['port']}", said["registered"]
    ours = np.ones(SIZE, np.uint8)
    here = ours.ctypes.data
    assert engine.register_memory(here, SIZE) == 0
    for lists in (
        ([here, here], [there, there], [1, 2.0]),
        ([here, "x"], [there, there], [1, 1]),
        ([here], np.array([[there]]), [1]),
        ([here], [there], np.array([-1])),
        ([here], [1 << 64], [1]),
        ([here], [-1], [1]),
    ):
        with pytest.raises(TypeError):
            engine.batch_transfer_sync_write(name, *lists)
    bytes_for_list = b"12345678"
    assert engine.batch_transfer_sync_write(name, *[bytes_for_list] * 3) == -1
    arguments = (name, here, there, SIZE, TransferOpcode.Write)
    with pytest.raises(TypeError):
        engine.transfer_sync(*arguments, TransferNotify(b"a", 5))
    assert engine.transfer_sync(*arguments, TransferNotify("\ud800", "")) == -1
    assert child.ask("sum") == 0
    assert child.ask("notifies") == []
    unsigned = np.array([here], np.uint64), np.array([there], np.uint64), np.array([3], np.int8)
    assert engine.batch_transfer_sync_write(name, *unsigned) == 0
    assert child.ask("sum") == 3

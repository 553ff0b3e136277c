"""What was put when the call returned every other process finds, and what was removed nobody."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvferry.testing import spawn

from .conftest import Other
from .town import SIZE, client, made, master

SIZES = 3000, 20_000  # that come along with the answer, and that are read one-sided
WRITES: dict[str, Callable[[Any, str, int, int], Any]] = {
    "put_from": lambda store, key, at, size: store.put_from(key, at, size),
    "batch_put_from": lambda store, key, at, size: store.batch_put_from([key], [at], [size])[0],
    "multi_buffers": lambda store, key, at, size: store.batch_put_from_multi_buffers(
        [key], [[at, at + size // 2]], [[size // 2] * 2]
    )[0],
    "session": lambda store, key, at, size: layered(store, key, at, size),
}


def layered(store: Any, key: str, at: int, size: int) -> Any:
    assert store.batch_put_session_start([key], [size]) == [0]
    written = store.batch_put_from_multi_buffer_ranges([key], [[at]], [[size]], [[0]])
    assert written == [size]
    return store.batch_put_session_end([key])[0]


@pytest.mark.parametrize("rounds", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_every_write_is_found_at_once(store: Any, other: Other, memory: Any, rounds: int) -> None:
    """Here and there by turns; the value before is replaced or removed."""
    array, most = memory, max(SIZES) + 4096
    assert store.put("pattern", array[:most].tobytes()) == 0
    assert other.get_into("pattern", other.memory, most) == most
    for number in range(rounds):
        for way, write in WRITES.items():
            size, key, shift = SIZES[number % 2], f"{way} {number}", (7 * number) % 4096
            want = array[shift:][:size].tobytes()
            if number % 3:
                assert write(store, key, array.ctypes.data + shift, size) == 0
                assert bytes(other.get(key)) == want, key
            else:
                assert write(other, key, other.memory + shift, size) == 0
                assert store.get(key) == want, key
        key, value = f"value {number}", bytes([number % 256]) * 50
        assert store.put(key, value) == 0
        assert bytes(other.get(key)) == value
        assert store.upsert(key, value * 2) == 0
        assert bytes(other.get(key)) == value * 2
        assert store.remove(key, True) == 0
        assert other.get(key) == []


def test_a_master_that_is_away_is_waited_for_once(caplog: pytest.LogCaptureFixture) -> None:
    """The value is kept all the same."""
    with spawn(master) as child:
        address = child.hear()
        store = made(address)
        with spawn(client, address, SIZE) as other:
            assert other.hear()["code"] == 0
            assert store.put("before", b"1") == 0
            assert bytes(other.ask(["get", "before"])) == b"1"
            child.stop()
            with caplog.at_level(logging.WARNING, "mooncake"):
                began = time.monotonic()
                assert [store.put(f"key {at}", b"2") for at in range(5)] == [0] * 5
                assert 1.3 < time.monotonic() - began < 10
            assert len([each for each in caplog.records if "master" in each.message]) == 1
            assert np.all([store.get(f"key {at}") == b"2" for at in range(5)])
            child.kill()
        store.close()

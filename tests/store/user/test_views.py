"""Values looked at where they lie: they stay as long as somebody looks, and no longer."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kvferry.errors import ClosedError, Full
from kvferry.store import Answer, Store
from tests.store.settings import Setting, settings

VALUE = bytes(range(256)) * 16
NEAR = ("embedded", "mapped")


@pytest.fixture(params=NEAR)
def way(request: pytest.FixtureRequest) -> str:
    """Only who has the memory mapped looks at it there."""
    name: str = request.param
    return name


def figure(store: Store, group: str, name: str) -> int:
    return store.stats()[group][name]


def settle(setting: Setting) -> None:
    """What waited for readers is free."""
    with setting.node.clerk:
        setting.node.catalog.evict(0, 0)


def test_while_it_is_looked_at_a_value_stays(setting: Setting) -> None:
    store = setting.user
    store.put("key", VALUE)
    with store.view("key") as block:
        assert figure(store, "users", "held_lines") == 1
        assert store.remove("key")
        assert store.get("key") is None
        assert figure(store, "usage", "deferred") == len(VALUE)
        for at in range(300):  # fill the pool with others
            store.put(f"other {at}", b"\xee" * 4096)
        assert bytes(block or b"") == VALUE
    assert figure(store, "users", "held_lines") == 0
    settle(setting)
    assert figure(store, "usage", "deferred") == 0


def test_a_buffer_in_use_at_the_end_keeps_the_value(setting: Setting) -> None:
    store = setting.user
    store.put("key", VALUE)
    view = store.view("key")
    with pytest.raises(BufferError), view as block:  # noqa: PT012
        assert block is not None
        array = np.frombuffer(block, np.uint8)
        del block
    del view
    store.remove("key")
    settle(setting)
    assert figure(store, "users", "held_lines") == 1
    assert array.tobytes() == VALUE
    assert not array.flags.writeable
    del array
    gc.collect()
    assert figure(store, "users", "held_lines") == 0
    settle(setting)
    assert figure(store, "usage", "deferred") == 0


def test_what_is_not_entered_lets_go(store: Store) -> None:
    store.put("key", VALUE)
    views = [store.view("key") for _ in range(5)]
    assert figure(store, "users", "held_lines") == 5
    views.clear()
    gc.collect()
    assert figure(store, "users", "held_lines") == 0


def test_a_block_that_raises_lets_go(store: Store) -> None:
    store.put("key", VALUE)
    with pytest.raises(ZeroDivisionError), store.view("key"):
        raise ZeroDivisionError
    assert figure(store, "users", "held_lines") == 0


def test_a_block_is_entered_once(store: Store) -> None:
    store.put("key", VALUE)
    view = store.view("key")
    with view as block:
        assert bytes(block or b"") == VALUE
    with pytest.raises(ValueError, match="once"), view:
        pass


def test_nobody_writes_through_a_view(store: Store) -> None:
    store.put("key", VALUE)
    with store.view("key") as block:
        assert block is not None
        with pytest.raises(TypeError):
            block[0] = 1
    assert store.get("key") == VALUE


def test_more_views_than_lines(
    make: Callable[..., Setting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvferry.store.node.node.LINES", 4)
    store = make().user
    store.put("key", VALUE)
    views = [store.view("key") for _ in range(4)]
    for call in (
        lambda: store.view("key"),
        lambda: store.get("key"),
        lambda: store.get_into("key", bytearray(4096)),
    ):
        with pytest.raises(Full) as refused:
            call()
        assert refused.value.cause == "busy"
        assert refused.value.safe_to_retry
    out = bytearray(4096)
    assert list(store.get_batch_into(["key", "key"], [out, out])) == [Answer.BUSY] * 2
    assert store.exists("key")
    views.pop()
    gc.collect()
    assert store.get_batch_into(["key"], [out]).ok
    assert out == VALUE
    assert store.get("key") == VALUE
    views.clear()


def test_views_outlive_the_store(way: str, folder: Path) -> None:
    with settings(way, folder) as setting:
        store = setting.user
        store.put("key", VALUE)
        view = store.view("key")
        never = store.view("key")
        with view as block:
            store.close()
            assert bytes(block or b"") == VALUE
            with pytest.raises(ClosedError):
                store.view("key")
            if way == "mapped":
                with setting.another() as other:
                    assert other.remove("key")
                    other.put_batch([f"other {at}" for at in range(300)], [b"\xee" * 4096] * 300)
                assert bytes(block or b"") == VALUE
                setting.owner.close()
                assert bytes(block or b"") == VALUE
        del never, view
        gc.collect()


def test_an_array_outlives_the_store(way: str, folder: Path) -> None:
    with settings(way, folder) as setting:
        setting.user.put("key", VALUE)
        with pytest.raises(BufferError), setting.user.view("key") as block:  # noqa: PT012
            assert block is not None
            array = np.frombuffer(block, np.uint8)
            del block
    gc.collect()
    assert array.tobytes() == VALUE


def test_at_a_distance_a_view_is_a_copy(folder: Path) -> None:
    with settings("far", folder) as setting:
        setting.user.put("key", VALUE)
        with setting.user.view("key") as block:
            setting.owner.close()
            assert bytes(block or b"") == VALUE
            assert block is not None
            assert block.readonly

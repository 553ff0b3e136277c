"""A forked child is another user; what is its parent's it leaves alone."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kvferry.errors import ForkedError
from kvferry.store import Answer
from tests.store.settings import WAYS, Setting, over_tcp, sound

PAGE = bytes(range(256)) * 16


def in_child(body: Callable[[], None]) -> int:
    """The child's exit status: 0 when `body` returned."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("way", ["mapped", "far"])
def test_a_child_is_a_user_of_its_own(setting: Setting) -> None:
    store = setting.user
    assert setting.owner.put("parent", PAGE) is Answer.STORED
    assert store.get("parent") == PAGE
    view = store.view("parent")

    def body() -> None:
        with over_tcp():
            assert store.get("parent") == PAGE
            assert store.exists_batch(["parent", "no"], lease=0.01).tolist() == [True, False]
            assert store.put("child", PAGE[::-1]) is Answer.STORED
            assert store.get("child") == PAGE[::-1]
            assert store.put_batch(["child", "more"], [b"", b"more"]).ok
            assert store.stats()["users"]["users"] == 3
            assert store.put_batch_async(["later"], [b"l"]).wait(10).ok
            if setting.way == "mapped":
                with pytest.raises(RuntimeError), view:
                    pass
            store.close()

    assert in_child(body) == 0
    with view as block:
        assert bytes(block or b"") == PAGE
    assert store.get_batch(["parent", "child", "more"]) == [PAGE, PAGE[::-1], b"more"]
    assert store.put("after", b"a") is Answer.STORED
    assert sound(setting.node) == []


@pytest.mark.parametrize("way", ["mapped", "far"])
def test_a_child_that_uses_nothing_disturbs_nothing(setting: Setting) -> None:
    store = setting.user
    store.put("key", PAGE)
    with store.lease(["key"], 30) as lease:
        assert in_child(store.close) == 0
        assert in_child(lambda: None) == 0
        assert lease.valid
        assert lease.renew(20)
    assert store.get("key") == PAGE


def test_an_embedded_node_stays_with_its_process(folder: Path) -> None:
    from tests.store.settings import settings

    with settings(WAYS[0], folder) as setting:
        store = setting.user
        store.put("key", PAGE)
        view, lease = store.view("key"), store.lease(["key"], 30)
        array = np.zeros(len(PAGE), np.uint8)

        def body() -> None:
            for call in (
                lambda: store.get("key"),
                lambda: store.put("key", b"v"),
                lambda: store.get_into("key", array),
                lambda: store.view("key"),
                lambda: store.stats(),
                lambda: store.put_batch_async(["key"], [b"v"]),
                lambda: lease.renew(1),
            ):
                with pytest.raises(ForkedError):
                    call()
            with pytest.raises(RuntimeError), view:
                pass
            store.close()

        assert in_child(body) == 0
        with view as block:
            assert bytes(block or b"") == PAGE
        lease.release()
        assert store.get("key") == PAGE
        assert store.put("other", b"v") is Answer.STORED

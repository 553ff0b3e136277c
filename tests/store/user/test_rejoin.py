"""A channel that breaks while both its ends live: its user goes on, and nothing stays behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.settings import Setting, settings


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert true()


def break_channel(setting: Setting) -> None:
    home = setting.user._own.home
    home._channel.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["mapped", "far"])
@pytest.mark.parametrize("seen", [False, True], ids=["before the node sees it", "after"])
def test_a_broken_channel_leaves_nothing_behind(way: str, seen: bool, folder: Path) -> None:
    with settings(way, folder) as setting:
        store, node = setting.user, setting.node
        users = len(node.members)
        for round in range(4):
            for each in range(8):
                assert store.put(f"{round} {each}", bytes([round, each]) * 50)
            break_channel(setting)
            if seen:
                known = {each.number for each in node.members if not each.silent}
                until(lambda known=known: {e.number for e in node.members if not e.silent} != known)
            assert store.get(f"{round} 7") == bytes([round, 7]) * 50
            until(lambda: len(node.members) == users)
        assert all(each.joins == 1 for each in node.members)
        assert node.figures()["usage"]["quarantined"] == 0
        store.close()
        until(lambda: len(node.members) == 1)
        assert node.figures()["usage"]["reserved"] == 0


def test_a_view_outlives_the_channel_it_was_taken_over(folder: Path) -> None:
    with settings("mapped", folder) as setting:
        store, node = setting.user, setting.node
        store.put("kept", b"as it was" * 1000)
        with store.view("kept") as block:
            assert block is not None
            break_channel(setting)
            until(lambda: any(each.silent for each in node.members))
            assert store.remove("kept")
            store.put_batch([f"{n}" for n in range(200)], [b"?" * 9000] * 200)
            assert block == b"as it was" * 1000
        assert node.figures()["usage"]["deferred"] > 0 or store.get("kept") is None
        break_channel(setting)
        store.put("another", b"")
        until(lambda: len(node.members) == 2)
        until(lambda: node.figures()["usage"]["deferred"] == 0)


def test_a_view_outlives_several_channels(folder: Path) -> None:
    """The node takes the user for the same at first, and for another one later."""
    with settings("mapped", folder) as setting:
        store, node = setting.user, setting.node
        store.put("kept", b"as it was" * 1000)
        with store.view("kept") as block:
            assert block is not None
            break_channel(setting)
            assert store.put("soon", b"")
            break_channel(setting)
            until(lambda: any(each.silent for each in node.members))
            assert store.put("later", b"")
            assert store.remove("kept")
            store.put_batch([f"{n}" for n in range(200)], [b"?" * 9000] * 200)
            assert bytes(block) == b"as it was" * 1000

"""What exists stays as long as was asked for: by leases in shared memory where a user may write to
it, and by a message from everybody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvferry import _core
from kvferry.errors import Full, PeerError, UsageError
from kvferry.store import Answer, Cause, Limits, Store
from tests.store.node.tenancy import READER, A, host
from tests.store.settings import MIB, Setting, node_of, settings
from tests.store.user.test_staying import PAGE, fill, until

KEYS = ["a", "b", "c"]
HELD = [True, False, True, True]


@pytest.fixture
def setting(emptied: Setting) -> Setting:
    return emptied


def keep(store: Store, seconds: float = 30) -> None:
    assert store.put_batch(KEYS, [PAGE] * 3).ok
    assert store.exists_batch(["a", "no", "b", "c"], lease=seconds).tolist() == HELD


def test_what_exists_stays(store: Store, setting: Setting) -> None:
    keep(store)
    for turn in range(3):
        fill(store, f"other {turn}")
        assert store.get_batch(KEYS) == [PAGE] * 3
    assert list(store.remove_batch([*KEYS, "no"])) == [Answer.LEASED] * 3 + [Answer.ABSENT]
    with pytest.raises(Full) as refused:
        store.remove("a")
    assert (refused.value.cause, refused.value.safe_to_retry) == ("leased", True)
    assert store.why("a").cause is Cause.PRESENT
    assert store.remove("b", force=True)
    assert store.exists_batch(KEYS, lease=0).tolist() == [True, False, True]


def test_nobody_is_asked(make: Callable[..., Setting], monkeypatch: pytest.MonkeyPatch) -> None:
    setting = make()
    home: Any = setting.user._own.home

    def asked(*_: object) -> None:
        raise AssertionError("the node is asked")

    with setting.another("mapped") as other:
        assert other.put_batch(KEYS, [PAGE] * 3).ok
        with monkeypatch.context() as patch:
            if setting.way != "far":
                patch.setattr(home, "ask", asked)
            assert setting.user.exists_batch(["a", "no", "b", "c"], lease=30).tolist() == HELD
            assert setting.user.exists("a", lease=30)
            assert not setting.user.exists("no", lease=30)
        assert list(other.remove_batch(KEYS)) == [Answer.LEASED] * 3


def test_it_may_leave_when_its_time_is_over(store: Store) -> None:
    keep(store, 0.3)
    assert store.exists_batch(KEYS, lease=0.01).all()  # never shorter
    end = time.monotonic() + 0.2
    assert store.remove_batch(["a"])[0] is Answer.LEASED or time.monotonic() > end
    until(lambda: store.remove_batch(["a"])[0] is Answer.REMOVED)
    fill(store, "other")
    assert not store.exists_batch(KEYS).any()
    assert store.why("b").cause is Cause.EVICTED


def test_a_full_pool_says_that_it_is_leased(store: Store) -> None:
    keys = [f"key {at}" for at in range(62)]
    for start in range(0, 62, 31):
        assert store.put_batch(keys[start : start + 31], [PAGE] * 31).ok
    assert store.exists_batch(keys, lease=30).all()
    with pytest.raises(Full) as refused:
        store.put("big", PAGE * 8)
    assert refused.value.cause == "leased"
    assert store.get_batch(keys) == [PAGE] * 62


def test_what_has_expired_is_kept_by_nothing_new(store: Store) -> None:
    store.put("key", PAGE, ttl=0.02)
    time.sleep(0.03)
    assert not store.exists("key", lease=30)
    until(lambda: store.get("key") is None)
    until(lambda: store.put("key", PAGE, ttl=0.5) is Answer.STORED)
    assert store.exists("key", lease=1.0)
    time.sleep(0.7)
    assert store.exists("key")  # its lease is longer than its time
    until(lambda: store.why("key").cause is Cause.EXPIRED)


def test_a_lease_is_some_time(store: Store) -> None:
    with pytest.raises(UsageError, match="nan seconds"):
        store.exists_batch(["key"], lease=float("nan"))
    with pytest.raises(UsageError):
        store.exists_batch("key", lease=1)
    assert store.exists_batch([], lease=1).tolist() == []
    assert store.put("key", PAGE) is Answer.STORED
    assert store.exists("key", lease=-5)
    assert store.remove("key")


def test_no_lease_is_longer_than_the_node_permits(make: Callable[..., Setting]) -> None:
    store = make(limits=Limits(longest_lease=100_000_000)).user
    keep(store, 1e12)
    until(lambda: store.remove_batch(KEYS).codes.tolist() == [Answer.REMOVED] * 3)


def test_what_was_said_to_stay_is_there(folder: Path) -> None:
    """Whatever two users are told, while another puts more than there is room for."""
    over = threading.Event()
    wrong: list[bytes | None] = []
    kept = 0
    keys = [f"key {at}" for at in range(160)]

    def keeps(user: Store) -> None:
        nonlocal kept
        while not over.is_set():
            began = time.monotonic()
            there = user.exists_batch(keys, lease=0.05)
            found = user.get_batch([keys[at] for at in np.flatnonzero(there)[:20].tolist()])
            if time.monotonic() < began + 0.05:
                kept += len(found)
                wrong.extend(each for each in found if each != PAGE)

    with settings("mapped", folder) as setting, setting.another() as other:
        threads = [threading.Thread(target=keeps, args=[user]) for user in (setting.owner, other)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 0.6
        while time.monotonic() < end or not kept:
            for start in (0, 80):
                setting.user.put_batch(keys[start : start + 80], [PAGE] * 80)
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong


@contextmanager
def with_disk(way: str, folder: Path) -> Iterator[tuple[Store, Store]]:
    listen = (f"unix://{folder}/node", "127.0.0.1:0")
    with (
        Store(size=MIB, ssd=folder / "ssd", ssd_size="16MiB", listen=listen) as owner,
        owner if way == "embedded" else Store(listen[0]) as user,
    ):
        yield owner, user


@pytest.mark.parametrize("place", ["embedded", "mapped"])
def test_what_lies_on_the_disk_is_brought_in(place: str, folder: Path) -> None:
    with with_disk(place, folder) as (owner, user):
        tier = node_of(owner).tier
        assert tier is not None
        keys = [f"key {at}" for at in range(90)]
        for start in range(0, 90, 30):
            assert user.put_batch(keys[start : start + 30], [PAGE] * 30).ok
            assert tier.flush(15)
        index: Any = user._own.home
        gone = [key for key in keys if index.reader.get(key, bytearray())[0] == _core.BESIDE][:10]
        assert len(gone) == 10
        assert user.exists_batch([*gone, "no"], lease=30).tolist() == [True] * 10 + [False]
        assert [index.reader.get(key, bytearray(1 << 14))[0] for key in gone] == [_core.HIT] * 10
        assert list(user.remove_batch(gone)) == [Answer.LEASED] * 10
        assert user.get_batch(gone) == [PAGE] * 10


def test_a_reader_asks(folder: Path) -> None:
    with host(folder) as made:
        writer, reader = made.store(A), made.store(READER)
        assert writer.put("key", PAGE) is Answer.STORED
        assert reader.exists_batch(["key", "no"], lease=30).tolist() == [True, False]
        assert writer.remove_batch(["key"])[0] is Answer.LEASED
        home: Any = reader._own.home
        assert home._leasing is None


def test_a_node_that_is_gone_keeps_nothing(make: Callable[..., Setting]) -> None:
    setting = make()
    keep(setting.user)
    if setting.way != "embedded":
        setting.owner.close()
        with pytest.raises(PeerError):
            setting.user.exists_batch(KEYS, lease=1)

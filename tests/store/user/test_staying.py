"""How long values stay: times to live, leases, pins, groups, parents; and that they leave."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from kvferry.errors import Full, UsageError
from kvferry.store import Answer, Cause, Lease, Limits, Pin, Store
from tests.store.settings import Setting, sound

PAGE = bytes(range(256)) * 64  # of which the pool holds 64
PATIENCE = 5.0


@pytest.fixture
def setting(emptied: Setting) -> Setting:
    return emptied


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)


def fill(store: Store, name: str, count: int = 80) -> None:
    """Others, more than the pool of 1 MiB holds."""
    keys = [f"{name} {at}" for at in range(count)]
    for start in range(0, count, 50):
        assert store.put_batch(keys[start : start + 50], [PAGE] * len(keys[start : start + 50])).ok


def test_a_value_lives_as_long_as_it_was_given(store: Store) -> None:
    assert store.put("short", b"1", ttl=0.05) is Answer.STORED
    assert store.put("long", b"2", ttl=1000) is Answer.STORED
    assert store.put_batch(["short too", "for ever"], [b"3", b"4"], ttl=0.05).ok
    assert store.put("for ever too", b"5") is Answer.STORED
    assert store.get("long") == b"2"
    until(lambda: not store.exists("short"))
    until(lambda: not store.exists("short too"))
    assert store.why("short").cause is Cause.EXPIRED
    assert store.get_batch(["long", "for ever too"]) == [b"2", b"5"]
    assert store.put("short", b"anew") is Answer.STORED
    assert store.get("short") == b"anew"


def test_a_time_to_live_is_a_positive_number(store: Store) -> None:
    for ttl in (0, -1, float("nan"), float("inf"), 1e10):
        with pytest.raises(UsageError) as refused:
            store.put("key", b"v", ttl=ttl)
        assert refused.value.cause == "ttl"
        with pytest.raises(UsageError):
            store.put_batch(["key"], [b"v"], ttl=ttl)
    assert not store.exists("key")


def test_a_lease_keeps_values_while_it_lasts(store: Store) -> None:
    store.put_batch(["a", "b"], [PAGE, PAGE])
    with store.lease(["a", "no", "b", "a"], 30) as lease:
        assert lease.held.tolist() == [True, False, True, True]
        assert lease.seconds == pytest.approx(30, abs=0.1)
        fill(store, "other")
        assert store.get_batch(["a", "b"]) == [PAGE, PAGE]
        with pytest.raises(Full) as refused:
            store.remove("a")
        assert (refused.value.cause, refused.value.safe_to_retry) == ("leased", True)
        assert list(store.remove_batch(["a", "no"])) == [Answer.LEASED, Answer.ABSENT]
        assert store.get("a") == PAGE
    assert not lease.valid
    assert store.remove("a")
    lease.release()  # harmless
    fill(store, "more")
    assert not store.exists("b")
    assert store.why("b").cause is Cause.EVICTED
    assert store.why("a").cause is Cause.REMOVED


def test_a_lease_is_renewed_and_ends(store: Store) -> None:
    store.put("key", PAGE)
    lease = store.lease(["key"], 0.2)
    assert lease.renew(30)
    assert lease.seconds == pytest.approx(30, abs=0.1)
    assert lease.renew(0.001)  # never shorter
    assert lease.seconds == pytest.approx(30, abs=0.1)
    short = store.lease(["key"], 0.01)
    time.sleep(0.05)
    assert not short.valid
    assert not short.renew(10)
    with pytest.raises(Full):
        store.remove("key")
    lease.release()
    assert not lease.renew(10)
    until(lambda: store.remove_batch(["key"])[0] is Answer.REMOVED)


def test_a_lease_on_nothing_holds_nothing(store: Store) -> None:
    for seconds in (0, -5, 10):
        with store.lease(["no"], seconds) as lease:
            assert lease.held.tolist() == [False]
            assert not lease.valid


def test_a_lease_lasts_some_time(store: Store) -> None:
    store.put("key", PAGE)
    with pytest.raises(UsageError, match="nan seconds"):
        store.lease(["key"], float("nan"))
    with store.lease(["key"], float("inf")) as lease:
        assert 0 < lease.seconds < 3600
        with pytest.raises(UsageError):
            lease.renew(float("nan"))


def test_no_lease_is_longer_than_the_node_permits(make: Callable[..., Setting]) -> None:
    store = make(limits=Limits(longest_lease=2_000_000_000)).user
    store.put("key", b"v")
    with store.lease(["key"], 1e12) as lease:
        assert lease.seconds == pytest.approx(2, abs=0.1)
        assert lease.renew(1e12)
        assert lease.seconds == pytest.approx(2, abs=0.1)


def test_a_leased_value_expires_when_its_lease_ends(store: Store) -> None:
    with _leased_in_time(store, 0.1):
        time.sleep(0.3)
        assert store.exists("key")
    until(lambda: store.get("key") is None)
    until(lambda: store.why("key").cause is Cause.EXPIRED)


def _leased_in_time(store: Store, ttl: float) -> Lease:
    """On a loaded machine its time may be over before the lease has come."""
    while True:
        store.put("key", PAGE, ttl=ttl)
        lease = store.lease(["key"], 30)
        if lease.held.all():
            return lease
        lease.release()


def test_what_was_read_may_be_removed_at_once(store: Store) -> None:
    store.put("key", PAGE)
    for _ in range(3):
        assert store.get("key") == PAGE
        assert store.remove("key")
        assert store.put("key", PAGE) is Answer.STORED


def test_what_is_pinned_hard_stays(store: Store) -> None:
    store.put_batch(["hard", "soft", "none"], [PAGE] * 3)
    assert list(store.pin(["hard", "no"])) == [Answer.FOUND, Answer.ABSENT]
    assert store.pin(["soft"], Pin.SOFT).ok
    fill(store, "other", 100)
    assert store.exists_batch(["hard", "soft", "none"]).tolist() == [True, True, False]
    assert store.get_batch(["hard", "soft"]) == [PAGE, PAGE]
    assert store.pin(["hard"], Pin.NONE).ok
    fill(store, "more", 100)
    assert store.exists_batch(["hard", "soft"]).tolist() == [False, True]
    assert store.remove("soft")
    assert not store.exists("soft")


def test_a_soft_pin_falls_when_nothing_else_could_leave(store: Store) -> None:
    keys = [f"key {at}" for at in range(80)]
    for at in range(0, 80, 10):
        store.put_batch(keys[at : at + 10], [PAGE] * 10)
        store.pin(keys[at : at + 10], Pin.SOFT)
    assert 0 < store.exists_batch(keys).sum() < 80
    assert store.exists(keys[-1])


def test_what_is_pinned_can_be_removed(store: Store) -> None:
    store.put("key", PAGE)
    store.pin(["key"])
    assert store.remove("key")
    store.put("key", b"anew")
    fill(store, "other", 80)
    assert not store.exists("key")  # a pin falls with its object


def test_a_group_leaves_together(store: Store) -> None:
    store.put_batch(["a", "b", "c"], [PAGE] * 3)
    assert list(store.group(["a", "b", "no"])) == [Answer.FOUND, Answer.FOUND, Answer.ABSENT]
    for at in range(20):
        store.put_batch([f"other {at} {one}" for one in range(5)], [PAGE] * 5)
        there = store.exists_batch(["a", "b"]).tolist()
        assert there[0] == there[1]
    assert there == [False, False]


def test_an_object_outlives_none_of_its_parents(make: Callable[..., Setting]) -> None:
    """A chain of blocks leaves from its end, whatever is older."""
    store = make(policy="prefix").user
    chain = [f"block {at}" for at in range(20)]
    store.put(chain[0], PAGE)
    for above, key in pairwise(chain[:11]):
        store.put(key, PAGE, parent=above)
    assert store.put_batch(chain[11:], [PAGE] * 9, parents=chain[10:19]).ok
    for at in range(20):
        store.put_batch([f"other {at} {one}" for one in range(5)], [PAGE] * 5)
        there = store.exists_batch(chain)
        assert not (np.diff(there.astype(int)) > 0).any(), "a block is there without one before it"
    assert not there[-1]


def test_what_is_removed_is_gone_for_everybody(make: Callable[..., Setting]) -> None:
    setting = make()
    with setting.another() as other:
        setting.user.put("key", PAGE)
        assert other.get("key") == PAGE
        other.close()
        assert setting.user.remove("key")
        assert setting.user.get("key") is None
        assert not setting.user.remove("key")
        assert setting.user.why("key").cause is Cause.REMOVED
    assert sound(setting.node) == []


@pytest.mark.parametrize("policy", ["lru", "s3fifo", "prefix"])
def test_what_is_read_stays_longer(make: Callable[..., Setting], policy: str) -> None:
    store = make(policy=policy).user
    store.put_batch(["read", "not"], [PAGE, PAGE])
    for at in range(12):
        store.put_batch([f"other {at} {one}" for one in range(10)], [PAGE] * 10)
        assert store.get("read") == PAGE
    assert not store.exists("not")
    assert store.why("not").cause is Cause.EVICTED


def test_the_least_recently_used_leave_first(store: Store) -> None:
    keys = [f"key {at}" for at in range(48)]
    assert store.put_batch(keys, [PAGE] * 48).ok
    out = bytearray(len(PAGE))
    for key in keys[:12]:  # oldest, and used again
        assert store.get_into(key, out) == len(PAGE)
    fill(store, "other", 40)
    there = store.exists_batch(keys)
    assert there[:12].all()
    rest = there[12:].astype(int)
    assert not (np.diff(rest) < 0).any(), "an older one stayed, and a younger one left"
    assert not rest[0]

"""Copies that a directory orders, and those of a node that is drained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from kvferry import Engine, _core
from kvferry.errors import Full
from kvferry.store import Answer, Cause, Store
from kvferry.store.directory import Service
from kvferry.store.directory.copier import Copier
from kvferry.store.directory.journal import Journal
from kvferry.store.directory.messages import REMOVED, Order, Where
from kvferry.store.messages import column_of
from tests.store.directory.town import SPANS, town, until, value_of
from tests.store.settings import node_of, over_tcp, sound

A, C = ([f"{name} {at}" for at in range(20)] for name in "ac")


@pytest.mark.slow
def test_what_the_dead_had_is_copied_again() -> None:
    with town() as place:
        directory = place.directory()
        a, b, c = place.node(), place.node(), place.node()
        directory.wait(alive=3, telling=0)
        assert a.put(*A, replicas=2)[1] == [2] * 20
        assert a.put(*C)[0] == ["STORED"] * 20
        directory.wait(places=60)
        a.kill()
        directory.wait(alive=2, suspect=0, places=40, lacking=0)
        assert b.count() == c.count() == 20
        c.kill()
        assert b.get(*A) == [True] * 20


class Village:
    """A directory and nodes in this process."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        engine = stack.enter_context(Engine("127.0.0.1:0"))
        self.service = Service(engine, spans=SPANS)
        stack.callback(self.service.close)
        self._address = engine.addresses[0]

    def nodes(self, count: int) -> list[Store]:
        made = [
            self._stack.enter_context(
                Store(size=1 << 20, listen=["127.0.0.1:0"], directory=[self._address])
            )
            for _ in range(count)
        ]
        self.wait(alive=count, telling=0)
        return made

    def wait(self, **wanted: int) -> None:
        def there() -> bool:
            seen = self.service.figures()
            return all(seen[name] == figure for name, figure in wanted.items())

        until(there, f"{wanted} did not come")


@pytest.fixture
def village() -> Iterator[Village]:
    with ExitStack() as stack:
        yield Village(stack)


def put(store: Store, keys: list[str], replicas: int) -> tuple[set[Answer], list[int]]:
    results = store.put_batch(keys, [value_of(key) for key in keys], replicas=replicas)
    assert results.replicas is not None
    return set(results), results.replicas.tolist()


def counts(*stores: Store) -> list[int]:
    return [store.stats()["usage"]["count"] for store in stores]


def test_copies(village: Village) -> None:
    a, b, c = village.nodes(3)
    assert put(a, A, 2) == ({Answer.STORED}, [2] * 20)
    village.wait(keys=20, places=40, lacking=0)
    assert sum(counts(b, c)) == 20
    assert b.why(A[0]).cause is c.why(A[0]).cause is Cause.PRESENT
    assert b.why("never").cause is Cause.NEVER
    assert put(a, A, 3) == ({Answer.PRESENT}, [2] * 20)
    assert put(a, C, 4) == ({Answer.STORED}, [3] * 20)  # there are no more nodes
    assert a.put("one", b"value", replicas=2) is Answer.STORED
    assert a.put("one", b"other", replicas=2) is Answer.PRESENT
    village.wait(places=40 + 60 + 2)
    a.close()
    for store in (b, c):
        assert store.get_batch([*A, *C]) == [value_of(key) for key in (*A, *C)]
        assert store.get("one") == b"value"


def test_what_is_removed_is_nowhere(village: Village) -> None:
    a, b, c = village.nodes(3)
    assert put(a, A, 3) == ({Answer.STORED}, [3] * 20)
    b.put_batch(C, [value_of(key) for key in C])
    village.wait(places=80)
    with a.lease(A[:1], 60):
        assert c.remove_batch(A[:1])[0] is Answer.LEASED
        with pytest.raises(Full, match="lease"):
            c.remove(A[0])
    assert set(c.remove_batch([*A, *C])) == {Answer.REMOVED}
    assert counts(a, b, c) == [0, 0, 0]
    for store in (a, b, c):
        assert not store.exists_batch([*A, *C]).any()
    assert set(b.remove_batch([*A, *C, "never"])) == {Answer.ABSENT}
    village.wait(keys=0)


def test_a_drained_node_leaves_copies(village: Village) -> None:
    a, b = village.nodes(2)
    for store, keys in (a, A), (b, A[:5]):
        store.put_batch(keys, [value_of(key) for key in keys])
    village.wait(places=25)
    assert drained(a, 5.0) == (20, 0)
    village.wait(alive=1, leaving=0, places=20)
    assert b.get_batch(A) == [value_of(key) for key in A]
    assert drained(b, 1.0) == (0, 20)  # nobody is there to take it


def drained(store: Store, grace: float) -> tuple[int, int]:
    """Of how many objects others have copies, and how many only this node has."""
    home: Any = store._own.home
    home._service.close(grace)
    moved = home._service.moved
    return moved.elsewhere, len(moved.left)


@pytest.fixture
def pair() -> Iterator[tuple[Store, Store]]:
    with ExitStack() as stack:
        stack.enter_context(over_tcp())
        made = [stack.enter_context(Store(size=1 << 20, listen=["127.0.0.1:0"])) for _ in "ab"]
        yield made[0], made[1]
        for each in made:
            assert sound(node_of(each)) == []


def where(store: Store) -> Where:
    return Where(store.engine.epoch, store.engine.addresses[0])


def names(store: Store, *keys: str) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    return _core.digest(keys, node_of(store).secret)


def test_a_copy_is_the_same(pair: tuple[Store, Store]) -> None:
    a, b = pair
    for key in A:
        a.put(key, value_of(key), ttl=60 if key == "a 3" else None)
    a.put("a 99", b"")
    b.put("a 4", b"its own")
    copier = Copier(node_of(a), 1 << 30)
    digests = names(a, *A, "never", "a 99")
    said = copier.copy(b.engine.addresses[0], digests).tolist()
    assert said[4] == Answer.PRESENT
    assert said[:4] + said[5:] == [Answer.STORED] * 19 + [Answer.ABSENT, Answer.STORED]
    for key in A:
        assert b.get(key) == (b"its own" if key == "a 4" else value_of(key))
    assert b.get("a 99") == b""
    node = node_of(b)
    with node.clerk:
        slots = node.index.find(names(b, "a 2", "a 3"))
        forever, moment = node.catalog.moments()[slots].tolist()
    assert forever == 0
    assert 0 < moment - time.clock_gettime_ns(time.CLOCK_BOOTTIME) <= 60e9
    assert a.remove("a 1")  # no lease is left
    copier.close()


def test_no_more_bytes_a_second_than_permitted(pair: tuple[Store, Store]) -> None:
    a, b = pair
    value = bytes(40_000)
    for key in A[:10]:
        a.put(key, value)
    copier = Copier(node_of(a), 1 << 20)
    began = time.monotonic()
    digests = names(a, *A[:10])
    copier.order((Order(where(b), column_of(digests[:5])), Order(where(b), column_of(digests[5:]))))
    assert copier.room < 1 << 14
    until(lambda: b.exists_batch(A[:10]).all())
    until(lambda: copier.room == 1 << 14)
    assert time.monotonic() - began > 0.9 * len(value) * 10 / (1 << 20)
    assert copier.copied == 10 * len(value)
    copier.close()


def test_nothing_is_committed_after_its_lease(
    pair: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    a.put("a 1", value_of("a 1"))
    copier = Copier(node_of(a), 1 << 30)
    monkeypatch.setattr("kvferry.store.directory.copier.LEASE", 1)
    with pytest.raises(TimeoutError):
        copier.copy(b.engine.addresses[0], names(a, "a 1"))
    assert b.get("a 1") is None
    monkeypatch.undo()
    assert copier.copy(b.engine.addresses[0], names(a, "a 1")).tolist() == [Answer.STORED]
    assert b.get("a 1") == value_of("a 1")
    copier.close()


def test_a_journal_tells_in_order_or_that_it_cannot(pair: tuple[Store, Store]) -> None:
    a, _ = pair
    journal = Journal(lambda: None, most=4)
    node = node_of(a)
    with node.clerk:
        node.witnesses.append(journal)
    a.put("x", b"1")
    a.remove("x")
    a.put("y", b"1")
    with node.clerk:
        node.catalog.usage()
    changes = journal.take()
    assert changes is not None
    assert changes.wanted.tolist() == [1, REMOVED, 1]
    assert changes.digests.tolist() == names(a, "x", "x", "y").tolist()
    empty = journal.take()
    assert empty is not None
    assert len(empty.digests) == 0
    for key in A[:5]:
        assert a.put(key, b"") is Answer.STORED
        a.stats()
    assert journal.take() is None
    assert journal.take() is not None

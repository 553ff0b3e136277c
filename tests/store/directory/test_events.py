"""Events: the ring against a list of all there ever were, and followers against what nodes have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import Engine, follow
from kvferry.errors import ClosedError, PeerError
from kvferry.store import Store
from kvferry.store.directory import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    Directory,
    Event,
    Follower,
    Service,
)
from kvferry.store.directory import messages as m
from kvferry.store.directory.events import CLEARED, Events, Row
from kvferry.store.directory.service import _VERBS
from kvferry.store.messages import column_of
from tests.store.directory.test_directory import SPANS, digests, hello
from tests.store.directory.town import Town, town, until

MOST = 16

node = st.integers(0, 2).map(lambda at: Row(f"n{at}:1", "dram"))
batch = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), max_size=MOST + 4)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(node, batch, st.booleans()), max_size=12),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
)
def test_the_ring_tells_what_a_list_does(
    told: list[tuple[Row, list[tuple[int, int]], bool]], mosts: list[int]
) -> None:
    """A reader is told all that is behind its number, or that it is not kept."""
    events, every = Events(MOST), list[tuple[Row, int, int]]()
    for where, some, clears in told:
        kinds = np.array([kind for _, kind in some], np.uint8)
        events.note(where, digests([name for name, _ in some]), kinds)
        every += [(where, digests([name])[0, 0], kind) for name, kind in some]
        if clears:
            events.clear(where)
            every.append((where, 0, CLEARED))
        assert events.last == len(every)
    for after in range(len(every) + 2):
        for most in mosts:
            rows = events.read(after, most)
            kept = len(every) - MOST <= after <= len(every)
            assert (rows is not None) == kept
            if rows is not None:
                assert rows.last == min(after + most, len(every))
                seen = [
                    (events.named[where], low, kind)
                    for where, low, kind in zip(
                        rows.nodes.tolist(),
                        rows.digests[:, 0].tolist(),
                        rows.kinds.tolist(),
                        strict=True,
                    )
                ]
                assert seen == every[after : rows.last]


class Seen:
    """Which nodes have what, as somebody knows who follows."""

    def __init__(self) -> None:
        self.at: dict[str, set[bytes]] = {}
        self.numbers: list[int] = []
        self.keys: dict[bytes, Any] = {}

    def take(self, events: list[Event]) -> None:
        for event in events:
            if event.number is not None:
                self.numbers.append(event.number)
            if isinstance(event, BlockStored):
                self.at.setdefault(event.node, set()).add(event.digest)
                self.keys[event.digest] = event.key or self.keys.get(event.digest)
            elif isinstance(event, BlockRemoved):
                self.at.get(event.node, set()).discard(event.digest)
            elif event.node is None:
                self.at, self.numbers = {}, []
            else:
                self.at.pop(event.node, None)

    def there(self) -> dict[str, set[bytes]]:
        return {node: names for node, names in self.at.items() if names}


def asking(it: Directory) -> Follower:
    return Follower(lambda request, _: _VERBS[type(request)](it, 0, request, 0))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.sampled_from(["report", "report", "enroll", "leave"]),
            st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1)), max_size=8),
            st.integers(0, 70),
        ),
        max_size=25,
    )
)
def test_who_follows_knows_what_nodes_have(steps: list[Any]) -> None:
    """Whenever it asks, in between, and however far it fell behind."""
    it = Directory(7, 0, spans=SPANS, rows=1000)
    follower, seen = asking(it), Seen()
    model: dict[str, set[bytes]] = {}
    seq: dict[int, int] = {}
    for number, verb, told, asks in steps:
        name = f"n{number}:1"
        if verb == "enroll" or (number not in seq and verb == "report"):
            it.enroll(number, hello(f"n{number}"), 0)
            seq[number], model[name] = 0, set()
        elif verb == "report":
            wanted = bytes(copies for _, copies in told)
            rows = digests([key for key, _ in told])
            it.report(number, m.Report(7, seq[number], True, column_of(rows), wanted), 0)
            seq[number] += 1
            for row, copies in zip(rows, wanted, strict=True):
                (model[name].add if copies else model[name].discard)(row.tobytes())
        elif number in seq:
            it.leave(number, 7, True, 0)
            del seq[number], model[name]
        for _ in range(asks):
            seen.take(follower.step())
    for _ in range(130):
        seen.take(follower.step())
    assert seen.there() == {name: keys for name, keys in model.items() if keys}
    assert seen.numbers == sorted(set(seen.numbers))


def test_who_fell_behind_begins_anew() -> None:
    it = Directory(7, 0, spans=SPANS, rows=1000)
    it.enroll(1, hello("a"), 0)
    follower, seen = asking(it), Seen()
    follower.step()
    it._events = Events(MOST)  # a small one
    while follower.scanning:
        seen.take(follower.step())
    for seq in range(MOST + 1):
        rows = column_of(digests([seq]))
        it.report(1, m.Report(7, seq, True, rows, b"\1"), 0)
    assert follower.step() == [AllBlocksCleared(None, None)]
    while follower.scanning:
        seen.take(follower.step())
    assert len(seen.at["a:1"]) == MOST + 1
    assert follower.step() == []
    it.sweep(61 * 10**9)  # nobody followed for so long
    asking(it).step()  # somebody else does again
    for seq in range(MOST + 1, 4 * MOST):
        it.report(1, m.Report(7, seq, True, column_of(digests([seq])), b"\1"), 0)
    assert follower.step() == [AllBlocksCleared(None, None)]


@pytest.fixture
def place() -> Iterator[Town]:
    with town() as made:
        yield made


def test_nodes_and_the_directory_come_and_go(place: Town) -> None:
    """A router in another process knows which node has what, whoever is killed."""
    directory = place.directory(names=True)
    a, b = place.node(), place.node()
    directory.wait(alive=2, telling=0)
    a.put("a 1", "a 2")
    directory.wait(keys=2, names=2)
    with follow(f"kv://{directory.address}") as router, Store(f"kv://{a.address}") as user:
        seen = Seen()

        def known(**wanted: set[str]) -> bool:
            seen.take(router.take(0.05))
            nodes = {"a": a.address, "b": b.address}
            at = {nodes[name]: set(user.digests(sorted(keys))) for name, keys in wanted.items()}
            return seen.there() == at

        until(lambda: known(a={"a 1", "a 2"}))
        assert set(filter(None, seen.keys.values())) == {"a 1", "a 2"}
        b.put("b 1", "a 1")
        user.remove("a 2")
        until(lambda: known(a={"a 1"}, b={"a 1", "b 1"}))
        b.kill()
        until(lambda: known(a={"a 1"}))
        directory.kill()
        assert router.take(0.1) == []
        a.put("a 3")
        directory.start()
        until(lambda: known(a={"a 1", "a 3"}))
        router.close()
        with pytest.raises(ClosedError):
            router.take(0)
    a.end()
    directory.end()


def test_a_follower_in_the_process() -> None:
    with ExitStack() as stack:
        engine = stack.enter_context(Engine("127.0.0.1:0"))
        service = Service(engine)
        stack.callback(service.close)
        where: dict[str, Any] = {"listen": ["127.0.0.1:0"], "directory": [engine.addresses[0]]}
        store = stack.enter_context(Store(size=1 << 20, **where))
        follower, seen = service.follower(), Seen()
        store.put("k", b"value")

        def there() -> bool:
            seen.take(follower.step())
            return seen.there() == {store.engine.addresses[0]: set(store.digests(["k"]))}

        until(there)
        assert set(seen.keys.values()) == {None}  # this one keeps no names
        service.close()
        with pytest.raises(PeerError):
            follower.step()

"""Names of keys: against a dict, and as users see them while nodes and directories come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from kvferry import Caller, Engine
from kvferry.errors import RightsError, UsageError
from kvferry.runtime import Access
from kvferry.store import Store
from kvferry.store.directory import Service
from kvferry.store.directory import messages as m
from kvferry.store.directory import names as named
from kvferry.store.directory.names import GRACE, ROW, Names
from kvferry.store.user.naming import Naming
from tests.store.directory.test_directory import digests
from tests.store.directory.town import Town, town, until

KEYS, ROWS = 12, 8
SPACES = (b"", b"other")


class Model(RuleBasedStateMachine):
    """Names that stay are told once, page by page; those of keys that are nowhere go in time."""

    @initialize()
    def begin(self) -> None:
        self.now = 0
        self.there: set[int] = set()
        self.it = Names(self._known, ROWS, ROWS * ROW + 40)
        self.told: dict[int, bytes] = {}
        self.until: dict[int, int] = {}

    def _known(self, wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
        known = {digests([key]).tobytes() for key in self.there}
        return np.array([row.tobytes() in known for row in wanted], np.bool_)

    @rule(keys=st.lists(st.integers(0, KEYS - 1), max_size=5, unique=True), space=st.integers(0, 1))
    def tell(self, keys: list[int], space: int) -> None:
        before = self.it.dropped
        names = [b"n" * key for key in keys]
        self.it.tell(SPACES[space], digests(keys), names, True, self.now)
        for key in keys:
            if digests([key]).tobytes() in self.it._slots:
                self.told.setdefault(key, SPACES[space])
                self.until[key] = self.now + GRACE
            else:
                before += 1
        assert before == self.it.dropped

    @rule(key=st.integers(0, KEYS - 1))
    def come_or_go(self, key: int) -> None:
        self.there ^= {key}

    @rule(span=st.sampled_from([GRACE // 3, GRACE]))
    def pass_time(self, span: int) -> None:
        self.now += span
        self.it.sweep(self.now)
        for key in set(self.told) & self.there:
            self.until[key] = self.now + GRACE
        for key in [key for key in self.told if self.until[key] <= self.now]:
            del self.told[key], self.until[key]

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "it"):
            return
        assert len(self.it) == len(self.told) <= ROWS
        assert self.it.bytes == sum(ROW + key for key in self.told) <= ROWS * ROW + 40
        known = [None if key not in self.told else b"n" * key for key in range(KEYS)]
        assert self.it.of(digests(list(range(KEYS)))) == known
        for space in SPACES:
            seen = list(self._listed(space))
            assert len(seen) == len(set(seen))
            own = {key for key, where in self.told.items() if where == space}
            assert {b"n" * key for key in own & self.there} <= set(seen)
            assert set(seen) <= {b"n" * key for key in own}
            for key in own & self.there:  # was looked at
                self.until[key] = max(self.until[key], self.now + GRACE)

    def _listed(self, space: bytes) -> Iterator[bytes]:
        after: int | None = 0
        while after is not None:
            page = self.it.page(space, after, self.now)
            yield from page.names
            after = page.after


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(named, "PAGE", 3)
        patch.setattr(named, "FIRST", 2)
        yield


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


def listed(store: Store) -> list[Any]:
    return sorted((key for page in store.names() for key in page), key=repr)


@pytest.fixture
def place() -> Iterator[Town]:
    with town() as made:
        yield made


def test_names_of_what_nodes_have(place: Town) -> None:
    """Own writes at once, in the own namespace alone; what is removed goes; a directory that begins
    again is told the last of them by who put them."""
    directory = place.directory(names=True)
    a, b = place.node(), place.node()
    directory.wait(alive=2, telling=0)
    with Store(f"kv://{a.address}") as user, Store(f"kv://{a.address}", namespace="x") as other:
        keys = [f"key {at}" for at in range(9)]
        user.put_batch([*keys, b"\xff", "", "l" * 1025], [b"value"] * 12)
        other.put("key 1", b"other's")
        assert listed(user) == sorted([*keys, b"\xff", ""], key=repr)
        assert listed(other) == ["key 1"]
        assert b.put("at b")[0] == ["STORED"]
        until(lambda: "at b" in listed(user))
        user.remove_batch([*keys[1:], b"\xff", ""])
        until(lambda: listed(user) == ["at b", "key 0"])
        b.kill()
        directory.kill()
        directory.start()
        until(lambda: directory.figures()["names"] == 12)
        directory.wait(alive=1, telling=0)
        assert listed(user) == ["key 0"]
        directory.wait(names=2)  # what is nowhere is forgotten
    a.end()
    directory.end()


def test_where_none_are_kept() -> None:
    with Engine("127.0.0.1:0") as engine:
        service = Service(engine)
        where: dict[str, Any] = {"listen": ["127.0.0.1:0"], "directory": [engine.addresses[0]]}
        try:
            with Store(size=1 << 20, **where) as store, Store(size=1 << 20) as alone:
                for each in (store, alone):
                    each.put("k", b"value")
                    until(lambda: not each._naming.wanted)  # noqa: B023
                    with pytest.raises(UsageError) as refused:
                        next(each.names())
                    assert refused.value.cause == "names"
                assert alone._naming._thread is None
                thread = store._naming._thread
                assert thread is not None
                until(lambda: not thread.is_alive())
            with pytest.raises(UsageError):
                next(service.names())
        finally:
            service.close()


def test_names_are_told_while_more_are_put() -> None:
    """Who tells them is done with those that were there; long ones are not even kept to be told."""
    told: list[int] = []

    class Busy:
        def ask(self, request: m.Name, _: Any) -> m.Named:
            told.append(len(m.texts_in(request.names, len(request.names.lengths) // 2)))
            assert len(told) < 20
            naming.note(["one more"])
            return m.Named(1 if len(told) < 3 else 2, True)  # another directory from then on

    line: Any = lambda: (Busy(), bytes(16))  # noqa: E731
    naming = Naming(line, b"")
    naming._thread = threading.current_thread()  # it tells by itself
    naming.note(["x" * (1 << 20), *map(str, range(2500))])
    assert len(naming._waiting) == 2500
    naming.tell()
    assert told == [1024, 1024, 454, 1024, 1024]


def test_a_bound_is_told() -> None:
    it = Names(lambda wanted: np.ones(len(wanted), np.bool_), rows=3)
    it.tell(b"", digests(list(range(5))), [b"a"] * 5, True, 0)
    assert it.figures() == {"names": 3, "name_bytes": 3 * (ROW + 1), "names_dropped": 2}


def test_who_may_read_alone_lists_and_follows() -> None:
    with Engine("127.0.0.1:0") as engine:
        service = Service(engine, names=True)
        reader = Caller("reader", 7, None, rights=Access.READ)
        try:
            name = m.Name(b"", digests([1]).tobytes(), m.texts_of([b"k"]), True)
            with pytest.raises(RightsError):
                service._serve(reader, m.encode(name))
            service._serve(reader._replace(rights=Access.WRITE), m.encode(name))
            listed = m.decode_reply(service._serve(reader, m.encode(m.List(b"", 0))))
            assert isinstance(listed, m.Listed)
            assert m.texts_in(listed.names, 1) == [b"k"]
            for request in (m.Follow(0, 0), m.Scan(0, 0, 0)):
                assert m.decode_reply(service._serve(reader, m.encode(request)))
            assert list(service.names()) == [["k"]]
        finally:
            service.close()

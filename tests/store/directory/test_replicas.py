"""Replicas whose way to one of the nodes fails: those that are verified count, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry import Engine, _core
from kvferry.config import from_environment
from kvferry.engine.messages import CONTROL, DATA
from kvferry.errors import NotQuiet
from kvferry.store import Answer, Cause, Pin, Store
from kvferry.store.directory import Service, herald
from kvferry.testing.faults.proxy import Proxy
from kvferry.testing.faults.units import Case, Way
from tests.store.directory.town import SPANS, free_port, until, value_of
from tests.store.settings import node_of, over_tcp, sound

MIB = 1 << 20
KEYS = 6  # of one put
MUTATIONS = ("drop_connection", "half_close", "drop_unit", "duplicate", "delay")
PURPOSES = (CONTROL, DATA)


class Row:
    """A directory, the writer's node, a node behind a proxy, and one that is reached directly."""

    def __init__(self, stack: ExitStack, patch: pytest.MonkeyPatch) -> None:
        self._stack = stack
        engine = stack.enter_context(Engine("127.0.0.1:0"))
        self.service = Service(engine, spans=SPANS)
        stack.callback(self.service.close)
        self._directory = engine.addresses[0]
        self._address = f"127.0.0.1:{free_port()}"
        self.proxy = stack.enter_context(Proxy.to(self._address))
        tells = herald.reachable

        def told(addresses: tuple[str, ...], towards: tuple[str, ...]) -> str:
            return self.proxy.address if self._address in addresses else tells(addresses, towards)

        patch.setattr(herald, "reachable", told)
        self.writer, self.far = self._node("127.0.0.1:0"), self._node(self._address)
        self.near = self._node("127.0.0.1:0")
        self.wait(alive=3, telling=0)
        self._puts = 0

    def _node(self, address: str) -> Store:
        options = replace(from_environment(), call_timeout=1.0, quiet_grace=1.0)
        more: dict[str, Any] = {"directory": [self._directory], "objects": 32768}
        return self._stack.enter_context(
            Store(size=64 * MIB, listen=[address], options=options, **more)
        )

    def wait(self, **wanted: int) -> None:
        def there() -> bool:
            seen = self.service.figures()
            return all(seen[name] == figure for name, figure in wanted.items())

        until(there, f"{wanted} did not come")

    def put(self, copies: int) -> tuple[list[str], NDArray[np.int64]]:
        """New keys, and how many nodes are said to have each."""
        self._puts += 1
        keys = [f"{self._puts} {at}" for at in range(KEYS)]
        results = self.writer.put_batch(keys, [value_of(key) for key in keys], replicas=copies)
        assert set(results) == {Answer.STORED}
        assert results.replicas is not None
        return keys, results.replicas.astype(np.int64)

    def there(self, keys: list[str]) -> NDArray[np.int64]:
        """How many nodes have each; whose bytes must be right."""
        count = np.zeros(len(keys), np.int64)
        for store in (self.writer, self.far, self.near):
            node = node_of(store)
            with node.clerk:
                here = node.why(_core.digest(keys, node.secret)) == Cause.PRESENT
            for key in np.array(keys)[here].tolist():
                assert store.get(key) == value_of(key)
            count += here
        return count

    def cut(self, case: Case) -> bool:
        """A put that meets this case on a new connection: was there something to meet?"""
        until(lambda: (self.put(3)[1] == 3).all(), "all is well")
        for channel in self.writer.engine._channels.live():
            with suppress(NotQuiet):  # of the case before: nothing answers for what was dropped
                channel.close()
        self.proxy.case = case
        keys, achieved = self.put(3)
        there = self.there(keys)
        assert (achieved <= there).all(), case
        assert (achieved >= 2).all(), case
        met, self.proxy.case = self.proxy.case is None, None
        return met


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Iterator[Row]:
    with over_tcp(), ExitStack() as stack:
        yield Row(stack, monkeypatch)


def cut_everywhere(row: Row, mutation: str, every: int) -> int:
    """At so many steps of a put, from joining to the last answer."""
    met = 0
    for purpose in PURPOSES:
        for way in Way:
            unit = 0
            while row.cut(Case(mutation, unit, way, unit, purpose)):
                met += 1
                unit += every
    row.wait(lacking=0)  # what was lacking has been made up for
    for store in (row.writer, row.far, row.near):
        assert sound(node_of(store)) == []
    return met


def test_a_put_is_cut_off_at_some_steps(row: Row) -> None:
    assert cut_everywhere(row, "drop_connection", 7) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_put_is_cut_off_at_every_step(row: Row, mutation: str) -> None:
    assert cut_everywhere(row, mutation, 1) >= 8


@pytest.mark.slow
def test_a_node_that_is_full_has_no_copy(row: Row) -> None:
    row.near.close()
    row.wait(alive=2)
    block = bytes(8 * MIB - 64)
    for at in range(8):
        row.far.put(f"block {at}", block)
        row.far.pin([f"block {at}"], Pin.HARD)
    keys, achieved = row.put(2)
    assert achieved.tolist() == [1] * KEYS
    row.wait(lacking=KEYS)
    assert row.far.remove("block 0")
    row.wait(lacking=0)
    row.writer.close()
    for key in keys:
        assert row.far.get(key) == value_of(key)

"""Puts that take other nodes than the own one, copies to a node that is named, removal by force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from kvferry import Engine, _core
from kvferry.errors import Full, UsageError
from kvferry.store import Answer, Cause, Limits, Store, codecs
from kvferry.store.directory import Service
from tests.store.directory.town import SPANS, Town, free_port, town, until, value_of
from tests.store.settings import node_of, over_tcp, sound

MIB = 1 << 20
KEYS = [f"key {at}" for at in range(12)]
STORED, PRESENT, ABSENT = Answer.STORED, Answer.PRESENT, Answer.ABSENT


class Three:
    """Nodes in this process: a small one, and two larger ones."""

    def __init__(self, stack: ExitStack) -> None:
        engine = stack.enter_context(Engine("127.0.0.1:0"))
        self.service = Service(engine, spans=SPANS, names=True)
        stack.callback(self.service.close)
        self.directory = engine.addresses[0]
        self.a, self.b, self.c = (self._node(stack, size) for size in (1, 8, 8))
        self.wait(alive=3, telling=0)

    def _node(self, stack: ExitStack, size: int) -> Store:
        where: dict[str, Any] = {"listen": ["127.0.0.1:0"], "directory": [self.directory]}
        limits = Limits(high=1.0, low=1.0)
        return stack.enter_context(Store(size=size * MIB, limits=limits, **where))

    def wait(self, **wanted: int) -> None:
        until(lambda: wanted.items() <= self.service.figures().items(), f"{wanted} did not come")

    def nodes(self, key: str) -> str:
        """Letters of the nodes that have it, with the right bytes."""
        found = ""
        for letter in "abc":
            node = node_of(getattr(self, letter))
            with node.clerk:
                here = node.why(_core.digest([key], node.secret)) == Cause.PRESENT
            found += letter * int(here[0])
        return found

    def at(self, store: Store) -> str:
        return store.engine.addresses[0]


@pytest.fixture
def three() -> Iterator[Three]:
    with ExitStack() as stack:
        made = Three(stack)
        yield made
        for store in (made.a, made.b, made.c):
            assert sound(node_of(store)) == []


def test_what_is_too_large_here_goes_elsewhere(three: Three) -> None:
    a, value = three.a, bytes(range(256)) * (MIB >> 7)
    assert a.put("large", value) is STORED
    assert a.get("large") == value  # before any node has told of it
    assert three.nodes("large") in ("b", "c")
    assert a.put("large", value) is PRESENT
    put = a.put_batch(["large 2", "small"], [value, b"small"], replicas=2)
    assert list(put) == [STORED, STORED]
    assert put.replicas is not None
    assert put.replicas.tolist() == [2, 2]
    assert put.lengths.tolist() == [len(value), 5]
    assert three.nodes("large 2") == "bc"
    with pytest.raises(UsageError) as refused:
        a.put("largest", bytes(9 * MIB))
    assert refused.value.cause == "too_large"
    assert list(a.remove_batch(["large", "large 2", "small"])) == [Answer.REMOVED] * 3
    with Store(f"kv://{three.at(a)}") as user, over_tcp(), Store(f"kv://{three.at(a)}") as far:
        assert user.put("large 3", value) is far.put("large 4", value) is STORED
        until(lambda: far.get("large 3") == user.get("large 4") == value)
        assert user.remove("large 3", force=True)
        assert far.remove("large 4", force=True)
    with Store(f"kv://{three.at(a)}", codec=codecs.Zstd()) as coded:
        noise = np.random.default_rng(1).bytes(3 * MIB // 2)
        assert coded.put("noise", noise) is STORED
        assert coded.get("noise") == noise


def test_a_full_node_keeps_what_it_has(three: Three) -> None:
    a, value = three.a, bytes(MIB // 4)
    here, more = [f"f {at}" for at in range(4)], [f"g {at}" for at in range(3)]
    a.put_batch(here, [value] * 4)
    with a.lease(here, 30):
        assert set(a.put_batch(more, [value] * 3)) == {STORED}
        assert [three.nodes(key) for key in here] == ["a"] * 4
        assert {three.nodes(key) for key in more} <= {"b", "c"}
        assert a.get_batch(more) == [value] * 3
        until(lambda: three.b.get_batch(more) == [value] * 3)
    assert a.put("h", value) is STORED
    assert three.nodes("h") == "a"


def test_preferred_nodes(three: Three) -> None:
    a, values = three.a, [value_of(key) for key in KEYS]
    assert list(a.put_batch(KEYS, values, prefer=[three.at(three.b)])) == [STORED] * 12
    assert {three.nodes(key) for key in KEYS} == {"b"}
    assert a.get_batch(KEYS) == values
    three.wait(keys=12)
    again = a.put_batch(KEYS, values, prefer=[three.at(three.b)])
    assert list(again) == [PRESENT] * 12
    three.b.remove_batch(KEYS)
    nobody = f"127.0.0.1:{free_port()}"
    for prefer, replicas, nodes in (
        ([nobody], 1, "a"),
        ([f"kv://{three.at(a)}"], 1, "a"),
        ([nobody, three.at(three.c)], 1, "c"),
        ([three.at(three.c)], 2, "ac"),
        ([three.at(three.c), three.at(three.b)], 2, "bc"),
        ([three.at(three.c)], 3, "abc"),
        ([three.at(three.c)], 4, "abc"),
        ([three.at(a), three.at(a)], 1, "a"),
    ):
        put = a.put_batch(KEYS[:3], values[:3], prefer=prefer, replicas=replicas)
        assert list(put) == [STORED] * 3
        assert put.replicas is not None
        assert put.replicas.tolist() == [len(nodes)] * 3
        assert [three.nodes(key) for key in KEYS[:3]] == [nodes] * 3
        until(lambda: three.service.figures()["places"] == 3 * len(nodes))  # noqa: B023
        assert list(a.remove_batch(KEYS[:3])) == [Answer.REMOVED] * 3
        until(lambda: three.service.figures()["places"] == 0)


def test_copies_to_a_node(three: Three) -> None:
    a, b, c = three.a, three.b, three.c
    a.put_batch(["c 1", "c 2"], [value_of("c 1"), value_of("c 2")], ttl=60)
    b.put("c 3", value_of("c 3"))
    three.wait(keys=3)
    wanted = ["c 1", "c 2", "c 3", "never"]
    assert list(a.copy(wanted, three.at(c))) == [STORED] * 3 + [ABSENT]
    assert list(a.copy(wanted, f"kv://{three.at(c)}")) == [PRESENT] * 3 + [ABSENT]
    assert [three.nodes(key) for key in wanted] == ["ac", "ac", "bc", ""]
    assert c.get_batch(wanted[:3]) == [value_of(key) for key in wanted[:3]]
    node = node_of(c)
    with node.clerk:
        moments = node.catalog.moments()[node.index.find(_core.digest(wanted[:3], node.secret))]
    assert (moments != 0).tolist() == [True, True, False]
    assert a.copy(["c 1"], three.at(a))[0] is PRESENT
    nobody = f"127.0.0.1:{free_port()}"
    assert list(a.copy(["c 1", "never"], nobody)) == [Answer.NODE_GONE] * 2
    with pytest.raises(UsageError):
        a.copy(["c 1"], "nowhere")
    for keys in ([5], "c 1"):
        with pytest.raises(UsageError):
            a.copy(keys, nobody)  # type: ignore[arg-type]
    a.remove_batch(wanted)


def test_removal_by_force(three: Three) -> None:
    """The bytes stay until the lease is over: who has it, far away, may be reading them."""
    a, value = three.a, value_of("x")
    a.put_batch(["x", "y"], [value, value])
    node = node_of(a)
    with a.lease(["x"], 1.0) as lease, a.view("y") as seen:
        assert list(a.remove_batch(["x"])) == [Answer.LEASED]
        with pytest.raises(Full):
            a.remove("x")
        assert a.remove("x", force=True)
        assert a.remove("y", force=True)
        assert a.get_batch(["x", "y"]) == [None, None]
        assert a.stats()["usage"]["deferred"] >= 2 * len(value)
        assert a.put("x", b"another") is STORED
        assert seen is not None
        assert bytes(seen) == value
        assert sound(node) == []
        assert lease.valid
    until(lambda: a.stats()["usage"]["deferred"] == 0)
    assert not lease.valid
    assert a.get("x") == b"another"
    a.remove("x")


@pytest.fixture
def place() -> Iterator[Town]:
    with town() as made:
        yield made


def test_nodes_that_die(place: Town) -> None:
    """Nodes in processes: what the one has no room for goes where somebody lives."""
    directory = place.directory()
    a, b, c = place.node(), place.node(size=8 * MIB), place.node(size=8 * MIB)
    directory.wait(alive=3, telling=0)
    value = np.random.default_rng(2).bytes(2 * MIB)
    with Store(f"kv://{a.address}") as user:
        assert user.put("v 1", value) is STORED
        b.kill()  # it is taken for alive still
        keys = [f"w {at}" for at in range(3)]
        assert list(user.put_batch(keys, [value] * 3)) == [STORED] * 3
        assert user.get_batch(keys) == [value] * 3
        put = user.put_batch(["z"], [b"z"], prefer=[b.address, c.address])
        assert list(put) == [STORED]
        directory.wait(alive=2, suspect=0)
        assert user.remove_batch(["z", *keys], force=True).ok
        assert user.get("z") is None
        assert c.count() <= 1
        c.kill()
        with pytest.raises(UsageError) as refused:
            user.put("v 2", value)
        assert refused.value.cause == "too_large"
    a.end()
    directory.end()

"""Two nodes that know of each other: what one has not is read from the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from kvferry import config
from kvferry.errors import PeerError, UsageError
from kvferry.store import Answer, Cause, Store
from tests.store.settings import node_of, over_tcp, sound

SIZE = 1 << 20
SMALL, LARGE = b"small" * 100, bytes(range(256)) * 1500
PATIENCE = 10.0


@pytest.fixture(params=["mapped", "far"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """How nodes reach each other: on one host, or as if it were two."""
    with over_tcp() if request.param == "far" else nullcontext():
        yield request.param


@contextmanager
def node(listen: str, *peers: str) -> Iterator[Store]:
    with Store(size=SIZE, listen=[listen], peers=peers) as store:
        yield store
        assert store._own.now is None or sound(node_of(store)) == []


@pytest.fixture
def addresses(folder: Path, way: str) -> tuple[str, str]:
    if way == "mapped":
        return f"unix://{folder}/a", f"unix://{folder}/b"
    return tuple(f"127.0.0.1:{port}" for port in free_ports())  # type: ignore[return-value]


def free_ports() -> list[int]:
    import socket

    with ExitStack() as taken:
        sockets = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        return [each.getsockname()[1] for each in sockets]


@pytest.fixture
def pair(addresses: tuple[str, str]) -> Iterator[tuple[Store, Store]]:
    here, there = addresses
    with node(here, there) as a, node(there, here) as b:
        yield a, b


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def test_what_one_has_not_the_other_has(pair: tuple[Store, Store]) -> None:
    a, b = pair
    for own, other, name in ((a, b, "a"), (b, a, "b")):
        small, large, empty, both = (f"{name} {kind}" for kind in ("small", "large", "no", "both"))
        assert own.put_batch([small, large, empty, both], [SMALL, LARGE, b"", b"own"]).ok
        assert other.put(both, b"other") is Answer.STORED  # local first: no word of the other's
        assert other.get(small) == SMALL
        assert other.get(large) == LARGE
        assert other.get(empty) == b""
        assert (own.get(both), other.get(both)) == (b"own", b"other")
        out = bytearray(len(LARGE) + 1)
        assert other.get_into(large, out) == len(LARGE)
        assert out[:-1] == LARGE
        with other.view(large) as block:
            assert bytes(block or b"") == LARGE
        assert other.exists_batch([small, both, "never"]).tolist() == [True, True, False]
        assert other.get_batch([small, "never", both]) == [SMALL, None, b"other"]
        why = other.why(small)
        assert why.cause is Cause.PRESENT
        assert why.node == own.why("never").node
        assert other.why("never").cause is Cause.NEVER
        usage = other.stats()["usage"]
        assert usage["count"] <= 5  # what was read is not kept here


def test_a_batch_from_both(pair: tuple[Store, Store]) -> None:
    a, b = pair
    keys = [f"key {at}" for at in range(60)]
    values = [bytes([at]) * (at * 50) for at in range(60)]
    assert a.put_batch(keys[::3], values[::3]).ok
    assert b.put_batch(keys[1::3], values[1::3]).ok
    for store in (a, b):
        outs = [bytearray(len(value)) for value in values]
        results = store.get_batch_into(keys, outs)
        for at, answer in enumerate(results):
            assert answer is (Answer.ABSENT if at % 3 == 2 else Answer.FOUND)
            assert outs[at] == (bytes(len(values[at])) if at % 3 == 2 else values[at])
            assert results.lengths[at] == (0 if at % 3 == 2 else len(values[at]))
        small = bytearray(b"\xee" * 10)
        results = store.get_batch_into([keys[57], keys[58], "never"], [small] * 3)
        assert list(results) == [Answer.TOO_SMALL, Answer.TOO_SMALL, Answer.ABSENT]
        assert small == b"\xee" * 10


def test_removing_is_local(pair: tuple[Store, Store]) -> None:
    a, b = pair
    a.put("key", SMALL)
    assert b.get("key") == SMALL
    assert not b.remove("key")
    assert a.get("key") == SMALL


def test_a_peer_that_is_not_there_is_a_miss(addresses: tuple[str, str]) -> None:
    here, there = addresses
    with node(here, there) as a:
        a.put("key", SMALL)
        began = time.monotonic()
        assert a.get("key") == SMALL
        assert a.get("never") is None
        assert a.get_batch(["key", "never"]) == [SMALL, None]
        assert list(a.get_batch_into(["never"], [bytearray(1)])) == [Answer.ABSENT]
        assert a.exists_batch(["key", "never"]).tolist() == [True, False]
        assert a.why("never") == (Cause.NODE_GONE, there)
        assert a.why("key").cause is Cause.PRESENT
        assert time.monotonic() - began < 4
        with node(there, here) as b:
            b.put("never", LARGE)
            until(lambda: a.get("never") == LARGE)


def test_a_peer_that_ends_is_a_miss_and_comes_back(addresses: tuple[str, str]) -> None:
    here, there = addresses
    with node(here, there) as a:
        with node(there) as b:
            b.put("key", SMALL)
            assert a.get("key") == SMALL
        assert a.get("key") is None
        assert not a.exists("key")
        assert a.why("key").cause is Cause.NODE_GONE
        with node(there) as b:
            until(lambda: a.why("key").cause is Cause.NEVER)
            b.put("key", LARGE)
            assert a.get("key") == LARGE


def test_no_store_at_an_address_is_a_miss(addresses: tuple[str, str]) -> None:
    import kvferry

    here, there = addresses
    with kvferry.Engine(there), node(here, there) as a:
        assert a.get("key") is None
        assert a.why("key").cause is Cause.NODE_GONE


@pytest.mark.parametrize("way", ["far"], indirect=True)
def test_through_the_node_of_this_host(addresses: tuple[str, str], folder: Path) -> None:
    """Its own node is there for what it puts, the one it names for what that has not."""
    socket = folder / "node"
    options = replace(config.from_environment(), node_socket=socket)
    with node(f"unix://{socket}") as own, node(addresses[0]) as other:
        other.put("key", LARGE)
        with Store(f"kv://{addresses[0]}", options=options) as user:
            assert user.get("key") == LARGE
            assert user.put("mine", SMALL) is Answer.STORED
            assert own.get("mine") == SMALL
            assert other.get("mine") is None
            assert user.exists_batch(["key", "mine", "never"]).tolist() == [True, True, False]
            assert own.get("key") is None
            other.close()
            assert user.get("key") is None
            assert user.get("mine") == SMALL
            assert user.why("key").cause is Cause.NODE_GONE


def test_the_own_node_ends_and_comes_back(addresses: tuple[str, str]) -> None:
    here, _ = addresses
    with ExitStack() as later:
        with node(here) as owner:
            user = later.enter_context(Store(here if "unix" in here else f"kv://{here}"))
            user.put("key", SMALL)
            assert owner.get("key") == SMALL
        with pytest.raises(PeerError) as gone:
            user.put("key", SMALL)
        assert gone.value.safe_to_retry
        with pytest.raises(PeerError) as gone:
            user.get("key")
        assert gone.value.cause == "node_gone"
        with pytest.raises(PeerError):
            user.exists("key")
        assert list(user.get_batch_into(["key"], [bytearray(1)])) == [Answer.NODE_GONE]
        assert user.why("key").cause is Cause.NODE_GONE
        with node(here) as owner:
            until(lambda: user.why("key").cause is Cause.NEVER)
            assert user.get("key") is None
            assert user.put("key", LARGE) is Answer.STORED
            assert owner.get("key") == LARGE
            user.close()


def test_who_asks_for_a_store_is_told_what_is_wrong(folder: Path) -> None:
    with pytest.raises(PeerError) as gone:
        Store(f"unix://{folder}/nobody")
    assert gone.value.cause == "node_gone"
    for wrong in ({"policy": "none"}, {"size": "much"}, {"size": 7}, {"size": -1}):
        with pytest.raises(UsageError):
            Store(**wrong)
    with pytest.raises(UsageError):
        Store(f"unix://{folder}/nobody", peers=["kv://127.0.0.1:1"])
    with pytest.raises(UsageError):
        Store("nonsense://here")

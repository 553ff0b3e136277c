"""A directory's service: whom it believes, and how everybody finds the one that leads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from kvferry import Engine
from kvferry.errors import PeerError, UsageError
from kvferry.store import Store
from kvferry.store.directory import Alone, Directed, Service, hosted
from kvferry.store.directory import messages as m
from kvferry.store.directory.herald import reachable
from kvferry.store.directory.line import Line
from kvferry.store.node import Node
from kvferry.store.node import Service as NodeService
from kvferry.store.user.node_at import join
from kvferry.store.user.through import home_in_life
from tests.store.directory.town import SPANS, until


class Led(Alone):
    """Leads when it is told to."""

    def __init__(self, term: int = 0) -> None:
        super().__init__()
        self.leads, self.term = bool(term), term


@pytest.fixture
def engine() -> Iterator[Callable[..., Engine]]:
    with ExitStack() as stack:

        def make(*addresses: str) -> Engine:
            return stack.enter_context(Engine(*addresses))

        yield make


@pytest.fixture
def serve(engine: Callable[..., Engine]) -> Iterator[Callable[..., tuple[str, Service]]]:
    with ExitStack() as stack:

        def make(**how: Any) -> tuple[str, Service]:
            made = engine("127.0.0.1:0")
            service = Service(made, spans=SPANS, **how)
            stack.callback(service.close)
            return made.addresses[0], service

        yield make


def hello(address: str, **more: Any) -> m.Enroll:
    wanted = {"began": 1, "domain": "d", "capacity": 1000, "free": 500, "keys": 100, **more}
    return m.Enroll(version=m.VERSION, address=address, **wanted)


def digests(*numbers: int) -> bytes:
    return np.array([[n, n] for n in numbers], np.uint64).tobytes()


def test_nobody_speaks_for_another_node(
    serve: Callable[..., tuple[str, Service]], engine: Callable[..., Engine]
) -> None:
    address, service = serve()
    one, two = (Line(engine(), [address], 5.0) for _ in "ab")
    first = one.ask(hello("127.0.0.1:1"), m.Enrolled)
    assert isinstance(first, m.Enrolled)
    told = m.Report(first.term, 0, True, digests(1, 2, 3), b"\1\1\1")
    assert isinstance(two.ask(told, m.Heard), m.Again)  # it has not enrolled
    assert isinstance(one.ask(told, m.Heard), m.Heard)
    second = two.ask(hello("127.0.0.1:2"), m.Enrolled)
    assert isinstance(second, m.Enrolled)
    gone = m.Report(first.term, 0, True, digests(1, 2, 3), b"\0\0\0")
    assert isinstance(two.ask(gone, m.Heard), m.Heard)  # of its own: it had none
    assert isinstance(two.ask(m.Leave(first.term, ended=True), m.Heard), m.Heard)
    placed = one.ask(m.Lookup(digests(1, 2, 3, 4)), m.Placed)
    assert isinstance(placed, m.Placed)
    assert m.places_in(placed, 4)[:, 0].tolist() == [first.number] * 3 + [0]
    assert service.figures()["alive"] == 1


def test_what_is_no_request_is_refused(
    serve: Callable[..., tuple[str, Service]], engine: Callable[..., Engine]
) -> None:
    address, service = serve()
    channel = engine().connect(address)
    many = m.CHOICES + 1
    for wrong in (
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"type": "beat", "term": 1, "free": -1, "room": 1}),
        msgspec.msgpack.encode({"type": "beat", "term": 1, "free": 1 << 63, "room": 1}),
        m.encode(m.Lookup(bytes(17))),
        m.encode(m.Lookup(bytes(16 * (m.MOST + 1)))),
        m.encode(m.Choose(0, 1, bytes(16), bytes(16))),
        m.encode(m.Choose(0, 5, bytes(16), bytes(8))),
        m.encode(m.Choose(0, 1, bytes(16 * many), bytes(8 * many))),
        m.encode(hello("nowhere")),
        m.encode(hello("127.0.0.1:1", domain="")),
        m.encode(hello("127.0.0.1:1", domain="d" * 300)),
        m.encode(hello("127.0.0.1:1", free=1 << 61)),
        m.encode(m.Heard()),
    ):
        with pytest.raises(PeerError):
            channel.call(m.SERVICE, wrong)
    assert service.figures()["alive"] == service.figures()["rows"] == 0
    empty = m.decode_reply(channel.call(m.SERVICE, m.encode(m.Lookup(b""))))
    assert isinstance(empty, m.Placed)
    with pytest.raises(PeerError):
        m.places_in(empty, 1)
    with pytest.raises(PeerError):
        m.places_in(m.Placed(b"\1\0" + bytes(6), {}, 1), 1)  # of a node that is not told
    with pytest.raises(PeerError):
        m.decode_reply(b"\xc1")


def test_all_follow_the_one_that_leads(serve: Callable[..., tuple[str, Service]]) -> None:
    one, two = Led(5), Led()
    (first, a), (second, b) = serve(lead=one), serve(lead=two)
    two.leader = (first,)
    with (
        Store(size=1 << 20, listen=["127.0.0.1:0"], directory=[second]) as here,
        Store(size=1 << 20, listen=["127.0.0.1:0"], directory=[second, first]) as there,
    ):
        here.put("key", b"value")
        until(lambda: a.figures().get("keys") == 1 and a.figures()["alive"] == 2)
        assert there.get("key") == b"value"
        one.leads, one.leader = False, (second,)
        assert there.get("key") is None
        two.leads, two.term = True, 6
        until(lambda: b.figures().get("keys") == 1 and b.figures()["alive"] == 2)
        assert a.figures() == {}
        until(lambda: there.get("key") == b"value")
        assert b.figures()["term"] == 6
    assert b.figures()["alive"] == 0  # they took leave


def test_a_directory_without_nodes_or_a_node_without_a_directory(
    serve: Callable[..., tuple[str, Service]],
) -> None:
    address, _ = serve()
    with pytest.raises(UsageError, match="no store"):
        Store(f"kv://{address}")
    with Store(size=1 << 20) as alone, pytest.raises(UsageError, match="directory"):
        alone.put("key", b"", replicas=2)
    with Store(size=1 << 20, directory=["127.0.0.1:1"]) as lost:  # nobody is there
        for wrong in (0, 5, -1):
            with pytest.raises(UsageError, match="replicas"):
                lost.put("key", b"", replicas=wrong)
        achieved = lost.put_batch(["key"], [b""], replicas=2).replicas
        assert achieved is not None
        assert achieved.tolist() == [1]
        assert lost.get("other") is None
        with Store(size=1 << 20, listen=["127.0.0.1:0"], directory=[address]) as node:
            until(lambda: _reached(address))
            with Store(f"kv://{address}") as placed:
                placed.put("key", b"placed")
            assert node.get("key") == b"placed"
    for directed in Directed(("no address",)), Directed(copy_rate=0), Directed(domain="d" * 300):
        with pytest.raises(UsageError):
            directed.checked()


def test_another_life_of_a_node_is_not_asked(engine: Callable[..., Engine]) -> None:
    with Store(size=1 << 20, listen=["127.0.0.1:0"]) as node:
        asker, epoch = engine(), node.engine.epoch
        joining = partial(join, asker, node.engine.addresses[0])
        home_in_life(joining, epoch).leave()
        with pytest.raises(PeerError, match="begun again"):
            home_in_life(joining, epoch + 1)
        assert node.stats()["users"]["users"] == 1  # its own process alone


def _reached(address: str) -> bool:
    with Engine() as asker:
        asked = m.Choose(0, 1, digests(1), bytes(8))
        placed = Line(asker, [address], 5.0).ask(asked, m.Placed)
        return isinstance(placed, m.Placed) and bool(placed.nodes)


def test_a_node_may_be_the_directory_itself() -> None:
    with Engine("127.0.0.1:0") as engine, hosted(engine, Directed(), ()) as directed:
        assert directed.addresses == engine.addresses
        service = NodeService(Node(engine, 1 << 20, directory=directed))
        with Store(size=1 << 20, listen=["127.0.0.1:0"], directory=directed) as other:
            other.put("key", b"value")
            with Store(f"kv://{engine.addresses[0]}") as user:
                until(lambda: user.get("key") == b"value")
        service.close()
    with Engine("127.0.0.1:0") as engine:
        for wanted, peers in (Directed(("127.0.0.1:9",)), ()), (Directed(), ("127.0.0.1:9",)):
            with hosted(engine, wanted, peers) as told:
                assert told is wanted


def test_under_which_address_others_reach_a_node() -> None:
    unix, tcp = "unix:///run/node", "10.0.0.1:26100"
    assert reachable((unix, tcp), ()) == tcp
    assert reachable((unix,), ("kv://127.0.0.1:1",)) == unix
    assert reachable((unix, "0.0.0.0:7"), ("kv://127.0.0.1:1",)) == "127.0.0.1:7"
    assert reachable(("[::]:7",), ("kv://[::1]:1",)) == "[::1]:7"

"""Tenants of one node: what one has of another, by every road there is: nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvferry as kf
from kvferry import _core
from kvferry.engine import messages
from kvferry.errors import Error, Full, RightsError
from kvferry.runtime import Access
from kvferry.store import Answer, Cause, Store
from kvferry.store import messages as m
from kvferry.store.user.near import Mapped
from kvferry.testing.faults.stranger import Stranger
from tests.store.node.tenancy import OWN, READER, A, B, Host, ask, host
from tests.store.settings import sound

KIB = 1 << 10
PAGE = bytes(range(256)) * 16
WAYS = ["mapped", "far"]


@pytest.fixture
def node(folder: Path) -> Iterator[Host]:
    with host(folder) as made:
        yield made


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def memories(home: Any) -> dict[str, memoryview]:
    """All of the node's memory that a user has in its address space."""
    return {
        name: memoryview(region.mapping.view)[: region.length]
        for name, region in home._channel.regions.items()
    }


# ---- the same key ----


@pytest.mark.parametrize("way", WAYS)
def test_one_key_holds_a_value_for_each(node: Host, way: str) -> None:
    users = {name: node.store(token, way) for name, token in (("", OWN), ("a", A), ("b", B))}
    for name, user in users.items():
        assert not user.exists("key")
        assert user.put("key", f"of {name}".encode()) is Answer.STORED
    for name, user in users.items():
        assert user.get("key") == f"of {name}".encode()
        assert user._own.home.joined.secret == node.nodes[name].secret
    assert len({each.secret for each in node.nodes.values()}) == 3
    users["a"].remove("key")
    assert users["a"].why("key").cause is Cause.REMOVED
    assert users["b"].get("key") == b"of b"
    assert users[""].get("key") == b"of "


def test_why_tells_nothing_of_others(node: Host) -> None:
    """Whether there is such a key, or such a tenant."""
    node.store(A).put("a's", PAGE)
    other = node.store(B)
    assert other.why("a's").cause is Cause.NEVER
    for name in ("a", "c", ""):
        for key in ("a's", "nobody's"):
            assert other.why(key, tenant=name).cause is Cause.OTHER_TENANT
    assert other.why("a's", tenant="b").cause is Cause.NEVER


def test_figures_are_each_one_s_own(node: Host) -> None:
    a, own = node.store(A), node.store(OWN)
    a.put("key", PAGE)
    a.get("key")
    seen = own.stats()
    assert seen["usage"]["count"] == 0
    assert seen["tenant a"]["usage.count"] == 1
    assert seen["tenant a"]["users.users"] == 1
    assert seen["tenant b"]["usage.count"] == 0
    assert a.stats()["usage"]["count"] == 1
    assert not [name for name in a.stats() if name.startswith("tenant")]


# ---- what one may use ----


def test_a_full_tenant_harms_nobody(node: Host) -> None:
    a, b = node.store(A), node.store(B)
    keys = [f"key {at}" for at in range(100)]
    assert a.put_batch(keys, [PAGE] * 100).ok
    before = a.stats()["usage"]
    for start in range(0, 600, 100):
        b.put_batch([f"{start} {key}" for key in keys], [PAGE] * 100)
    assert b.stats()["usage"]["capacity"] == 256 * KIB
    assert b.stats()["usage"]["count"] <= 64
    reply = ask(node.channel(B), m.Join(m.VERSION, mapped=False), m.Joined)
    assert reply.pool == 256 * KIB
    sizes = np.full(1000, 4096, np.uint64).tobytes()
    for _ in range(4):  # of which none may have all
        greedy = node.channel(B)
        ask(greedy, m.Join(m.VERSION, mapped=False), m.Joined)
        ask(greedy, m.Reserve(sizes), m.Extents)
    with pytest.raises(Full):
        b.put("one more", bytes(64 * KIB))
    assert a.stats()["usage"] == before
    assert a.exists_batch(keys).all()
    assert a.put("one more", PAGE) is Answer.STORED


# ---- readers ----


@pytest.mark.parametrize("way", WAYS)
def test_a_reader_reads_and_writes_nothing(node: Host, way: str) -> None:
    writer, reader = node.store(A), node.store(READER, way)
    writer.put("key", PAGE)
    assert reader.get("key") == PAGE
    assert reader.get_into("key", bytearray(4096)) == 4096
    assert reader.exists("key")
    assert not reader.exists("other")
    assert reader.why("key").cause is Cause.PRESENT
    assert reader.stats()["usage"]["count"] == 1
    with reader.lease(["key"], 5) as lease:
        assert lease.held.all()
        with pytest.raises(Full):
            writer.remove("key")
        assert lease.renew(5)
    writing: list[Callable[[Store], Any]] = [
        lambda user: user.put("new", PAGE),
        lambda user: user.put("key", PAGE),
        lambda user: user.put_batch(["new"], [PAGE]),
        lambda user: user.remove("key"),
        lambda user: user.pin(["key"]),
        lambda user: user.group(["key"]),
    ]
    for verb in writing:
        with pytest.raises(RightsError) as refused:
            verb(reader)
        assert refused.value.cause == "read_only"
    usage = writer.stats()["usage"]
    assert (usage["count"], usage.get("pinned", 0)) == (1, 0)
    assert writer.get("key") == PAGE


def test_what_a_reader_views_stays(node: Host) -> None:
    """Its hazard lines are heard, though it writes nothing else."""
    writer, reader = node.store(A), node.store(READER)
    writer.put("key", PAGE)
    with reader.view("key") as block:
        assert block is not None
        assert block.readonly
        assert writer.remove("key")
        for at in range(300):
            writer.put(f"key {at}", bytes([at % 251]) * 4096)
        assert block.tobytes() == PAGE


def test_a_reader_by_hand(node: Host) -> None:
    """Whatever it says, and whatever it writes where it may."""
    writer, reader = node.store(A), node.store(READER)
    writer.put("key", PAGE)
    home: Any = reader._own.home
    assert isinstance(home, Mapped)
    mapped = memories(home)
    mine = mapped.pop(f"store.user.{home.joined.user}")
    assert len(mine) == node.nodes["a"].lines_bytes, "a reader needs no desk"
    assert not mine.readonly
    assert set(mapped) == {"store.pool", "store.index", "store.bell", "store.leases"}
    assert all(each.readonly for each in mapped.values())
    channel = home._channel
    digests = _core.digest(["key"], home.joined.secret).tobytes()
    words = np.arange(1, 3, dtype=np.uint64).tobytes()
    for request in (
        m.Reserve(words),
        m.Commit(words[:8], digests, words[:8]),
        m.Abort(words),
        m.Remove(digests),
        m.Keep(digests, 2),
        m.Group(digests),
        m.Drain(),
    ):
        with pytest.raises(RightsError):
            channel.call(m.SERVICE, m.encode(request))
    lines = np.frombuffer(mine, np.uint8)
    draw = np.random.default_rng(1)
    for _ in range(20):
        lines[:] = draw.integers(0, 256, len(lines), np.uint8)
        writer.put_batch([f"key {at}" for at in range(50)], [PAGE] * 50)
    assert sound(node.nodes["a"]) == []
    assert writer.get("key") == PAGE


def test_a_reader_is_not_the_writer_whose_epoch_it_names(node: Host) -> None:
    writer = node.store(A)
    writer.put("key", PAGE)
    epoch, number = writer.engine.epoch, writer._own.home.joined.user
    for token in (READER, B, OWN):
        with Stranger.at(node.engine._front._door) as thief:
            thief.epoch = epoch
            thief.prove(token)
            said = thief.ask(messages.Call(m.SERVICE, m.encode(m.Join(m.VERSION, mapped=True))))
            assert isinstance(said, messages.Result)
            joined = m.decode_reply(said.response, m.Joined)
            if token == READER:
                assert joined.user != number
            listed = thief.ask(messages.ListRegions("tcp", "tcp", 0))
            assert isinstance(listed, messages.Regions)
            places = {each.base for each in listed.records}
            mine = node.engine.regions[f"a/store.user.{number}"]
            assert mine.address not in places
    assert writer.put("more", PAGE) is Answer.STORED


# ---- what a tenant says by hand ----


def test_what_is_another_s_is_named_in_vain(node: Host) -> None:
    writer = node.store(A)
    writer.put("key", PAGE)
    mine = node.channel(A)
    user = ask(mine, m.Join(m.VERSION, mapped=False), m.Joined)
    given = ask(mine, m.Reserve(np.full(4, 64, np.uint64).tobytes()), m.Extents)
    digests = _core.digest(["key"], user.secret).tobytes()
    leased = ask(mine, m.Lease(digests, 1 << 34), m.Leased)
    assert leased.ticket
    before = node.nodes["a"].figures()
    for token in (B, OWN):
        thief = node.channel(token)
        ask(thief, m.Join(m.VERSION, mapped=False), m.Joined)

        def said(request: m.Request, thief: Any = thief) -> set[int]:
            return set(ask(thief, request, m.Told).answers)

        lengths = np.full(4, 8, np.uint64).tobytes()
        assert said(m.Why(digests)) == {Cause.NEVER}
        assert said(m.Leave(user.user + 7)) == {Answer.UNKNOWN}
        assert said(m.Abort(given.attempts)) == {Answer.UNKNOWN}
        assert said(m.Commit(given.attempts, digests * 4, lengths)) == {Answer.UNKNOWN}
        ticket = np.array([leased.ticket], np.uint64).tobytes()
        assert said(m.Release(ticket)) == {Answer.LATE}
        assert said(m.Renew(leased.ticket, 1 << 33)) == {Answer.LATE}
        assert said(m.Remove(digests)) == {Answer.ABSENT}
        assert said(m.Keep(digests, 2)) == {Answer.ABSENT}
        located = ask(thief, m.Locate(digests, 1 << 33), m.Located)
        assert set(located.answers) == {Answer.ABSENT}
        assert located.cargo == b""
        assert said(m.Drain()) == {Answer.REMOVED}
    after = node.nodes["a"].figures()
    assert after == before
    assert writer.get("key") == PAGE
    told = ask(mine, m.Commit(given.attempts[:8], b"d" * 16, b"\x08" + bytes(7)), m.Told)
    assert set(told.answers) == {Answer.STORED}


@pytest.mark.parametrize("batches", [1, pytest.param(300, marks=pytest.mark.slow)])
def test_digests_are_guessed_in_vain(node: Host, batches: int) -> None:
    """One's own secret makes other digests of the same keys; a's secret is of no use to b."""
    node.store(A).put("key", PAGE)
    thief = node.channel(B)
    secret = ask(thief, m.Join(m.VERSION, mapped=False), m.Joined).secret
    draw = np.random.default_rng(2)
    for batch in range(batches + 1):
        digests = draw.integers(0, 1 << 63, (20000, 2), np.uint64).tobytes()
        if not batch:
            digests = _core.digest(["key"], secret).tobytes()
        located = ask(thief, m.Locate(digests, 1 << 33), m.Located)
        assert set(located.answers) == {Answer.ABSENT}


def test_an_epoch_that_somebody_else_names_keeps_nobody(node: Host) -> None:
    """A user elsewhere is gone when its channel is, though others say that they are it."""
    mine = node.channel(A)
    user = ask(mine, m.Join(m.VERSION, mapped=False), m.Joined)
    ask(mine, m.Reserve(np.full(4, 4096, np.uint64).tobytes()), m.Extents)
    catalog = node.nodes["a"]
    number = next(each for each in catalog.members if each.number == user.user)
    number.close()  # as of one elsewhere
    number.pid = None
    with Stranger.at(node.engine.addresses[1]) as thief:
        thief.epoch = number.epoch
        thief.prove(B)
        mine.close()
        until(lambda: catalog.members.numbered(user.user) is None)
        assert catalog.figures()["usage"]["reserved"] == 0


@pytest.mark.parametrize("rounds", [30, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_tenant_garbles_what_it_may_write(node: Host, rounds: int) -> None:
    """Its desk, lines, pool, bell and leases: another tenant's user sees nothing of it."""
    a, b = node.store(A), node.store(B)
    a.put("key", PAGE)
    a.pin(["key"])
    home: Any = b._own.home
    draw = np.random.default_rng(3)
    mapped = memories(home).values()
    targets = [np.frombuffer(each, np.uint8) for each in mapped if not each.readonly]
    assert len(targets) == 4
    for round in range(rounds):
        for target in targets:
            part = target[: len(target) // 8 * 8].view(np.uint64)
            most = int(draw.choice([2, 8, 1 << 12, 1 << 32, 1 << 63]))
            part[:] = draw.integers(0, most, len(part), np.uint64)
        assert a.put(f"key {round}", PAGE) is Answer.STORED
        assert a.get(f"key {round}") == PAGE
    assert a.get("key") == PAGE
    assert sound(node.nodes["a"]) == []
    assert node.nodes["a"].members.of(a.engine.epoch, Access.WRITE) is not None


def test_as_many_users_as_there_may_be(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvferry.store.node.node.MOST_USERS", 2)
    joins = [node.channel(B) for _ in range(3)]
    for channel in joins[:2]:
        ask(channel, m.Join(m.VERSION, mapped=False), m.Joined)
    with pytest.raises(Error) as refused:
        ask(joins[2], m.Join(m.VERSION, mapped=False), m.Joined)
    assert refused.value.cause == "users"
    assert isinstance(refused.value, kf.Full)
    ask(node.channel(A), m.Join(m.VERSION, mapped=False), m.Joined)

"""A node and what it is asked by users that are no friends: refused, and nobody else is harmed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest

from kvferry import Engine
from kvferry.engine import Channel
from kvferry.errors import Error, PeerError, UsageError
from kvferry.store import Answer, Cause, Store
from kvferry.store import messages as m
from kvferry.store.node import Node
from kvferry.testing import Child
from kvferry.testing.process import Parent
from tests.store.settings import Setting, over_tcp, settings, sound

PAGE = bytes(range(256)) * 16


@pytest.fixture
def setting(folder: Path) -> Iterator[Setting]:
    with settings("mapped", folder) as made:
        yield made


@pytest.fixture
def stranger(setting: Setting) -> Iterator[Channel]:
    with Engine() as engine, over_tcp():
        yield engine.connect(f"kv://{setting.owner.engine.addresses[1]}")


def words(*numbers: int) -> bytes:
    return np.array(numbers, np.uint64).tobytes()


def ask(channel: Channel, request: Any) -> Any:
    body = request if isinstance(request, bytes) else m.encode(request)
    return msgspec.msgpack.decode(channel.call(m.SERVICE, body))


def join(channel: Channel) -> Any:
    return ask(channel, m.Join(m.VERSION, mapped=False))


def refused(channel: Channel, request: Any) -> str:
    with pytest.raises(Error) as error:
        ask(channel, request)
    return error.value.cause


def test_who_has_not_joined_is_refused(setting: Setting, stranger: Channel) -> None:
    for request in (
        m.Reserve(words(64)),
        m.Commit(words(1), words(1, 2), words(1)),
        m.Locate(words(1, 2), 1),
        m.Drain(),
        m.Leave(1),
        m.Remove(words(1, 2)),
    ):
        assert refused(stranger, request)
    assert setting.user.put("key", PAGE) is Answer.STORED
    assert setting.owner.stats()["users"]["users"] == 2


def test_another_version_is_refused(setting: Setting, stranger: Channel) -> None:
    assert refused(stranger, m.Join(m.VERSION + 1, mapped=False))
    assert setting.owner.stats()["users"]["users"] == 2


def test_columns_that_do_not_fit_are_refused(setting: Setting, stranger: Channel) -> None:
    join(stranger)
    for request in (
        m.Reserve(b"1234567"),
        m.Reserve(words((1 << 64) - 1)),
        m.Commit(words(1, 2), words(1, 2), words(1)),
        m.Commit(words(1), words(1), words(1)),
        m.Commit(words(1), words(1, 2), words(1), parents=b"x"),
        m.Commit(words(1), words(1, 2), words(1), parents=b""),
        m.Commit(words(1), words(1, 2), words(1), ttls=words(1, 2)),
        m.Commit(words(1), words(1, 2), words(1), ttls=words((1 << 64) - 1)),
        m.Abort(b"123"),
        m.Remove(b"123"),
        m.Locate(b"123", 5),
        m.Locate(b"", 5, done=b"1"),
        m.Release(b"1"),
        m.Keep(words(1, 2), 7),
        m.Keep(words(1, 2), -1),
        m.Group(b"1"),
        m.Why(b"1"),
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"type": "nothing"}),
        m.encode(m.Told(b"")),
    ):
        assert refused(stranger, request), request
    assert setting.user.put("key", PAGE) is Answer.STORED
    assert sound(setting.node) == []


def test_numbers_without_measure(setting: Setting, stranger: Channel) -> None:
    join(stranger)
    setting.user.put("key", PAGE)
    huge = (1 << 63) - 1
    assert set(ask(stranger, m.Reserve(words(*[huge] * 5)))["answers"]) == {Answer.TOO_LARGE}
    given = ask(stranger, m.Reserve(words(*[0] * 20000)))["answers"]
    assert set(given) <= {Answer.RESERVED, Answer.FULL}
    assert set(ask(stranger, m.Reserve(words(*[1 << 20] * 5)))["answers"]) <= {
        Answer.RESERVED,
        Answer.FULL,
    }
    many = words(*range(40000))
    assert set(ask(stranger, m.Abort(many))["answers"]) == {Answer.UNKNOWN}
    assert set(ask(stranger, m.Why(many))["answers"]) == {Cause.NEVER}
    assert set(ask(stranger, m.Release(many))["answers"]) == {Answer.LATE}
    assert ask(stranger, m.Renew(huge, 1 << 62))["answers"] == bytes([Answer.LATE])
    told = ask(stranger, m.Commit(words(1, huge), words(1, 2, 3, 4), words(huge, huge)))
    assert set(told["answers"]) == {Answer.UNKNOWN}
    assert ask(stranger, m.Leave(huge))["answers"] == bytes([Answer.UNKNOWN])
    assert setting.user.get("key") == PAGE
    assert sound(setting.node) == []


def test_longer_than_its_extent(setting: Setting, stranger: Channel) -> None:
    join(stranger)
    reply = ask(stranger, m.Reserve(words(64)))
    for length in (65, 1 << 20, 1 << 62, (1 << 64) - 1):
        told = ask(stranger, m.Commit(reply["attempts"], words(1, 2), words(length)))
        assert told["answers"] == bytes([Answer.TOO_LARGE])
    told = ask(stranger, m.Commit(reply["attempts"], words(1, 2), words(64)))
    assert told["answers"] == bytes([Answer.STORED])
    told = ask(stranger, m.Commit(reply["attempts"], words(3, 4), words(64)))
    assert told["answers"][0] in (Answer.LATE, Answer.UNKNOWN)


def stay(parent: Parent, address: str) -> None:
    """A user in a process of its own."""
    with Store(address) as store:
        store.put("theirs", PAGE)
        parent.tell(store._own.home.joined.user)
        parent.hear()
        parent.tell(store.get("theirs") == PAGE and store.put("more", PAGE).name)


def test_nobody_else_is_taken_leave_of(
    setting: Setting, stranger: Channel, spawn: Callable[..., Child]
) -> None:
    join(stranger)
    child = spawn(stay, setting.owner.engine.addresses[0])
    assert ask(stranger, m.Leave(child.hear()))["answers"] == bytes([Answer.UNKNOWN])
    assert child.ask("go on") == "STORED"
    assert child.result() is None


def test_what_is_anothers_is_not_ones_own(setting: Setting, stranger: Channel) -> None:
    """Attempts, tickets and joinings of other users."""
    me = join(stranger)["user"]
    user: Store = setting.user
    user.put("key", PAGE)
    lease = user.lease(["key"], 30)
    home = user._own.home
    theirs = home.ask(m.Reserve(words(4096)), m.Extents)
    digest = words(7, 9)
    for request, answers in (
        (m.Commit(theirs.attempts, digest, words(64)), {Answer.UNKNOWN}),
        (m.Abort(theirs.attempts), {Answer.UNKNOWN}),
        (m.Release(words(lease._ticket)), {Answer.LATE}),
        (m.Renew(lease._ticket, 1 << 40), {Answer.LATE}),
    ):
        assert set(ask(stranger, request)["answers"]) == answers, request
    assert lease.renew(20)
    told = home.ask(m.Commit(theirs.attempts, digest, words(64)), m.Told)
    assert told.answers == bytes([Answer.STORED])
    assert user.get("key") == PAGE
    assert ask(stranger, m.Leave(me))["answers"] == bytes([Answer.REMOVED])
    assert refused(stranger, m.Drain())


# Leave: the other user is of this process, which may take leave for it.
REQUESTS = [each for each in get_args(m.Request) if each not in (m.Drain, m.Leave)]
NUMBERS = [0, 1, 2, 64, 4096, 1 << 20, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def anything(chance: random.Random, attempts: list[int]) -> Any:
    """A request: of columns that fit, mostly, and of numbers that mean something, at times."""
    rows = chance.choice([0, 1, 1, 2, 5, 130])

    def number() -> int:
        return chance.choice([*NUMBERS, *attempts[-20:]])

    def column(name: str) -> bytes:
        wide = 2 if name in ("digests", "parents") else 1
        whole = words(*(number() for _ in range(rows * wide)))
        return whole if chance.random() < 0.95 else whole[:-3]

    fields: dict[str, Callable[[str], Any]] = {
        "Column": column,
        "Column | None": lambda name: chance.choice([None, column(name)]),
        "Name | None": lambda name: chance.choice([None, "", "a"]),
        "Address": lambda name: chance.choice(["nowhere", "127.0.0.1:1", "unix:///nowhere"]),
        "Span": lambda name: min(number(), 1 << 62),
        "int": lambda name: number() % (1 << 63),
        "bool": lambda name: chance.choice([True, False]),
    }
    kind = chance.choice(REQUESTS)
    made = {name: fields[said](name) for name, said in kind.__annotations__.items()}
    if kind is m.Join:
        made["version"] = m.VERSION
    if kind is m.Reserve:
        made["sizes"] = words(*(chance.choice([0, 64, 4096, 70000]) for _ in range(rows)))
    return kind(**made)


@pytest.mark.parametrize("rounds", [400, pytest.param(20000, marks=pytest.mark.slow)])
def test_requests_of_any_kind(setting: Setting, stranger: Channel, rounds: int) -> None:
    """Nothing but typed refusals comes of them, and another user goes on undisturbed."""
    chance = random.Random(7)
    attempts: list[int] = []
    told: set[str] = set()  # with which refusals
    join(stranger)
    user = setting.user
    user.put("steady", PAGE)
    user.pin(["steady"])
    for turn in range(rounds):
        try:
            answer = ask(stranger, anything(chance, attempts))
        except (UsageError, PeerError) as error:
            told.add(error.cause)
        else:
            attempts += np.frombuffer(answer.get("attempts", b""), np.uint64).tolist()
        if turn % 20 == 0:
            assert user.get("steady") == PAGE
            assert user.put(f"key {turn}", PAGE) in (Answer.STORED, Answer.PRESENT)
            assert sound(setting.node) == []
    assert user.get("steady") == PAGE
    assert told == {"protocol"}


@pytest.mark.parametrize(
    "wrong", [{"objects": 0}, {"objects": -4}, {"objects": 10**11}, {"peers": ["10.0.0.3"]}]
)
def test_what_no_node_is_made_of(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Store(size="1MiB", **wrong)


def test_what_many_idle_users_have_reserved_is_a_small_part_of_the_pool() -> None:
    with Engine() as engine:
        node = Node(engine, 64 << 20)
        stocks = []
        for epoch in range(1, 101):
            node.join(epoch, f"user {epoch}", None, mapped=False)
            stocks.append(node.stock)
        node.close()
    assert stocks[0] == 1 << 20
    assert sum(stocks) <= (64 << 20) // 12

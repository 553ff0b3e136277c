"""Reading from a node elsewhere: what comes along with the answer, what is read after it, and
answers that cannot be true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from kvferry import _core
from kvferry.errors import Full, PeerError, UsageError
from kvferry.store import Answer, Store
from kvferry.store import messages as m
from tests.store.settings import Setting, settings, sound

BRIEF, CARGO = _core.BRIEF, _core.CARGO
SIZES = [0, 1, 100, BRIEF - 1, BRIEF, BRIEF + 1, 3 * BRIEF, CARGO + 1]
SPOILED = 0xEE


@pytest.fixture
def setting(folder: Path) -> Iterator[Setting]:
    with settings("far", folder, size=4 << 20) as made:
        yield made


@pytest.fixture
def user(setting: Setting) -> Store:
    return setting.user


def value_of(name: int, size: int) -> bytes:
    return np.random.default_rng(name).bytes(size)


def spoiled(size: int) -> bytearray:
    return bytearray([SPOILED]) * size


class Said:
    """What the user hears of its node. `between` is called when a node has said where things lie;
    `altered` stands in the place of what it said."""

    def __init__(self, user: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home: Any = user._own.home
        self.located: list[m.Located] = []
        self.between: Callable[[], object] = lambda: None
        self.altered: Callable[[m.Located], m.Located] = lambda located: located
        ask = self.home.ask

        def asking(request: m.Request, kind: type[m.R], timeout: float | None = None) -> Any:
            reply = ask(request, kind, timeout)
            if isinstance(reply, m.Located):
                self.located.append(reply)
                self.between()
                return self.altered(reply)
            return reply

        monkeypatch.setattr(self.home, "ask", asking)


@pytest.fixture
def said(user: Store, monkeypatch: pytest.MonkeyPatch) -> Said:
    return Said(user, monkeypatch)


def test_sizes_at_the_edge(user: Store, said: Said) -> None:
    for name, size in enumerate(SIZES):
        value, key = value_of(name, size), f"key {size}"
        assert user.put(key, value) is Answer.STORED
        assert user.get(key) == value
        out = spoiled(size + 3)
        assert user.get_into(key, out) == size
        assert out == value + bytes([SPOILED]) * 3
        last = said.located[-1]
        assert last.cargo == (value if size <= BRIEF else b"")
        assert bool(last.ticket) == (size > BRIEF)
        if size:
            small = spoiled(size - 1)
            with pytest.raises(UsageError) as refused:
                user.get_into(key, small)
            assert refused.value.cause == "too_small"
            assert small == spoiled(size - 1)
    assert user.get("never") is None
    assert user.get_into("never", small) is None


def test_more_than_may_come_along(user: Store, said: Said) -> None:
    """The cargo is bounded; the rest is read after it, and in one batch all of it is right."""
    many = 2 * CARGO // BRIEF + 3
    sizes = [BRIEF - at % 2 for at in range(many)] + SIZES
    values = [value_of(at, size) for at, size in enumerate(sizes)]
    keys = [f"key {at}" for at in range(len(sizes))]
    assert user.put_batch(keys, values).ok
    asked = [name for pair in zip(keys, ["never"] * len(keys), strict=True) for name in pair]
    outs = [spoiled(size) for size in sizes for _ in range(2)]
    results = user.get_batch_into(asked, outs)
    assert list(results) == [Answer.FOUND, Answer.ABSENT] * len(keys)
    assert results.lengths.tolist() == [each for size in sizes for each in (size, 0)]
    assert [bytes(out) for out in outs[::2]] == values
    assert all(out == spoiled(len(out)) for out in outs[1::2])
    assert CARGO - BRIEF < len(said.located[-1].cargo) <= CARGO
    assert user.get_batch(asked) == [each for value in values for each in (value, None)]
    outs = [spoiled(size - at % 2) if size else spoiled(0) for at, size in enumerate(sizes)]
    results = user.get_batch_into(keys, outs)
    for at, (out, value) in enumerate(zip(outs, values, strict=True)):
        fits = len(out) == len(value)
        assert results[at] is (Answer.FOUND if fits else Answer.TOO_SMALL)
        assert out == (value if fits else spoiled(len(out)))


def test_one_object_many_times(user: Store, setting: Setting) -> None:
    small, large = value_of(1, 500), value_of(2, 2 * BRIEF)
    assert user.put_batch(["small", "large"], [small, large]).ok
    keys = ["small", "large", "small", "large", "large"]
    outs = [spoiled(2 * BRIEF) for _ in keys]
    assert user.get_batch_into(keys, outs).ok
    for key, out in zip(keys, outs, strict=True):
        value = small if key == "small" else large
        assert out[: len(value)] == value
    assert user.remove_batch(["small", "large"]).ok  # no lease is left
    assert sound(setting.node) == []


def test_what_leaves_while_it_is_read(user: Store, setting: Setting, said: Said) -> None:
    """What came along has come, whatever is stored there next; what is read has a lease."""
    small, large = value_of(1, BRIEF), value_of(2, BRIEF + 1)
    other = value_of(3, BRIEF)
    assert user.put_batch(["small", "large"], [small, large]).ok
    owner = setting.owner

    def leave() -> None:
        assert owner.remove("small")
        assert owner.put("small", other) is Answer.STORED
        with pytest.raises(Full):
            owner.remove("large")
        said.between = lambda: None

    said.between = leave
    assert user.get_batch(["small", "large"]) == [small, large]
    assert user.get("small") == other
    assert user.remove("large")


def test_reads_are_counted_and_touched(folder: Path) -> None:
    with settings("far", folder, size=1 << 20) as made:
        user, node = made.user, made.node
        assert user.put_batch(["small", "large"], [bytes(100), bytes(BRIEF + 1)]).ok
        before = user.stats()
        user.get_batch(["small", "large", "never"])
        after = user.stats()
        changes = {name: after["reads"][name] - before["reads"][name] for name in after["reads"]}
        assert {name: by for name, by in changes.items() if by} == {
            "hits": 2,
            "bytes": BRIEF + 101,
            "absent": 1,
        }
        assert after["misses"]["never"] == before["misses"]["never"] + 1
        for at in range(80):  # more than the pool holds
            user.put(f"other {at}", bytes(BRIEF))
            assert user.get("small") == bytes(100)
        assert user.get("large") is None
        assert sound(node) == []


def column(*numbers: int) -> bytes:
    return np.array(numbers, np.uint64).tobytes()


FOUND = bytes([Answer.FOUND])
LIES: dict[str, dict[str, Any]] = {
    "a longer cargo": {"cargo": bytes(101)},
    "a shorter cargo": {"cargo": bytes(99)},
    "no cargo": {"cargo": b""},
    "another length": {"lengths": column(101)},
    "a length of no measure": {"lengths": column((1 << 64) - 1), "cargo": b""},
    "longer than the pool": {"lengths": column((4 << 20) + 1), "cargo": b""},
    "outside the pool": {"offsets": column((4 << 20) - 99)},
    "far outside": {"offsets": column((1 << 64) - 1)},
    "another answer": {"answers": bytes([Answer.STORED])},
    "an answer that is none": {"answers": b"\xff"},
    "absent, of some length": {"answers": bytes([Answer.ABSENT]), "cargo": b""},
    "more answers": {"answers": FOUND * 2},
    "no answers": {"answers": b"", "offsets": b"", "lengths": b"", "cargo": b""},
    "more keys": {"answers": FOUND * 2, "offsets": column(0, 0), "lengths": column(50, 50)},
    "a part of a number": {"lengths": column(100) + b"1"},
    "fewer lengths": {"lengths": b""},
}


def test_answers_that_cannot_be_true(user: Store, said: Said) -> None:
    assert user.put("key", value_of(1, 100)) is Answer.STORED
    out = spoiled(200)
    for name, lie in LIES.items():

        def altered(located: m.Located, lie: dict[str, Any] = lie) -> m.Located:
            return msgspec.structs.replace(located, **lie)

        said.altered = altered
        assert list(user.get_batch_into(["key"], [out])) == [Answer.NODE_GONE], name
        with pytest.raises(PeerError) as gone:
            user.get("key")
        assert gone.value.cause == "node_gone"
        assert out == spoiled(200)
        with pytest.raises(PeerError) as refused:
            m.spots_in(altered(said.located[-1]), 1, 4 << 20)
        assert refused.value.cause == "protocol"
    said.altered = lambda located: located
    assert user.get("key") == value_of(1, 100)


def test_columns_for_another_cargo() -> None:
    """The native part takes no columns that are not sound."""
    answers, numbers = np.frombuffer(bytearray(FOUND), np.uint8), np.array([5], np.uint64)
    out = bytearray(8)
    for cargo in (b"1234", b"123456"):
        with pytest.raises(ValueError, match="cargo"):
            _core.unload_into(answers, numbers, numbers, cargo, [out])
    with pytest.raises(ValueError, match="length"):
        _core.unload_into(answers, numbers, numbers, b"12345", [])
    with pytest.raises(BufferError):
        _core.unload_into(answers, numbers, numbers, b"12345", [bytes(8)])
    with pytest.raises(TypeError):
        _core.unload_into(answers, numbers, numbers, b"12345", cast(Any, [7]))
    assert len(_core.unload_into(answers, numbers, numbers, b"12345", [out])) == 0
    assert out == b"12345\0\0\0"

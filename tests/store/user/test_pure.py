"""What decides without asking anybody: stock, places to join, sizes, results."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import config
from kvferry.errors import Full, PeerError, UsageError
from kvferry.store import Answer, Results
from kvferry.store.user.addresses import bytes_in, places_of
from kvferry.store.user.node_at import PATIENCE, NodeAt
from kvferry.store.user.results import error_of
from kvferry.store.user.stock import MOST_AHEAD, Stock

ROOMS = [64, 128, 4096, 1 << 20]


steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(ROOMS), st.integers(0, 9)),
    st.tuples(st.just("take"), st.sampled_from(ROOMS), st.integers(0, 9)),
    st.tuples(st.just("ahead"), st.sampled_from(ROOMS), st.just(0)),
    st.tuples(st.just("lacks"), st.sampled_from(ROOMS), st.integers(0, 9)),
    st.tuples(st.just("empty"), st.just(0), st.just(0)),
)


@settings(max_examples=80, deadline=None)
@given(limit=st.integers(0, 1 << 22), doings=st.lists(steps, max_size=40))
def test_stock_gives_out_what_it_was_given(limit: int, doings: list[tuple[str, int, int]]) -> None:
    stock, model, attempts = Stock(limit), Counter[tuple[int, int, int]](), iter(range(1, 1000))
    ahead: dict[int, int] = {}
    for what, room, count in doings:
        there = sum(times for (kept, _, _), times in model.items() if kept == room)
        if what == "put":
            extents = [
                (attempt, attempt * 7) for attempt, _ in zip(attempts, range(count), strict=False)
            ]
            pairs = np.array(extents, np.uint64).reshape(-1, 2)
            stock.put(room, pairs[:, 0], pairs[:, 1])
            model.update((room, *extent) for extent in extents)
        elif what == "take":
            taken = [column.tolist() for column in stock.take(room, count)]
            assert len(taken[0]) == min(count, there)
            model.subtract((room, *extent) for extent in zip(*taken, strict=True))
        elif what == "ahead":
            more = stock.ahead(room)
            assert 0 <= more <= MOST_AHEAD
            assert more * room <= max(limit - stock.bytes, 0)
            assert more <= 2 * ahead.get(room, 0) + 1
            ahead[room] = more
        elif what == "lacks":
            stock.coming = min(count * room, max(limit - stock.bytes, 0))
            more = stock.lacks(room, count)
            assert not more or more + there >= count > there
            assert more * room <= max(limit - stock.bytes - stock.coming, 0)
            ahead[room], stock.coming = MOST_AHEAD, 0
        else:
            assert sorted(stock.empty().tolist()) == sorted(each[1] for each in model.elements())
            model.clear()
            ahead.clear()
        assert min(model.values(), default=0) >= 0
        assert stock.bytes == sum(each[0] for each in model.elements())


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("1K", 1 << 10),
        ("1KiB", 1 << 10),
        ("2MB", 2 << 20),
        ("3GiB", 3 << 30),
        ("4 TiB", 4 << 40),
        ("5B", 5),
    ],
)
def test_sizes(said: int | str, meant: int) -> None:
    assert bytes_in(said) == meant


@pytest.mark.parametrize("said", ["", "1.5G", "-1", "G", "1X", "1e9", True, None, "٣", "1 G B"])
def test_what_is_no_size(said: Any) -> None:
    with pytest.raises(UsageError) as refused:
        bytes_in(said)
    assert refused.value.cause == "bad_size"


def test_whom_a_user_asks(folder: Path) -> None:
    import socket

    options = config.from_environment({})
    assert places_of(None, options) == (None, ())
    assert places_of("unix:///some/where", options) == ("unix:///some/where", ())
    assert places_of("kv://host:1", options) == ("kv://host:1", ())
    node = folder / "node"
    options = replace(options, node_socket=node)
    assert places_of("kv://host:1", options) == ("kv://host:1", ())
    node.write_text("no socket")
    assert places_of("kv://host:1", options) == ("kv://host:1", ())
    node.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(node))
        assert places_of("kv://host:1", options) == (f"unix://{node}", ("kv://host:1",))
        assert places_of("unix:///some/where", options) == ("unix:///some/where", ())
        assert places_of(None, options) == (None, ())
    with pytest.raises(UsageError):
        places_of("nonsense://x", options)


def test_results_of_every_answer() -> None:
    codes = np.array(list(Answer), np.uint8)
    results = Results(codes, np.zeros(len(codes), np.uint64))
    assert list(results) == list(Answer)
    assert results[2:5] == list(Answer)[2:5]
    assert [answer for answer, there in zip(results, results.present, strict=True) if there] == [
        Answer.STORED,
        Answer.PRESENT,
        Answer.RESERVED,
        Answer.FOUND,
    ]
    assert not results.ok
    assert len(Results(codes[:0], codes[:0].astype(np.uint64))) == 0


def test_every_refusal_can_be_raised() -> None:
    kinds = {Answer.TOO_LARGE: UsageError, Answer.NODE_GONE: PeerError, Answer.PINNED: Full}
    for answer in Answer:
        if answer < Answer.TOO_LARGE or answer is Answer.CANCELLED:
            continue
        error = error_of(answer, "somewhere")
        assert error.cause == answer.name.lower()
        assert error.peer == "somewhere"
        assert error.safe_to_retry == answer.safe_to_retry
        assert isinstance(error, kinds.get(answer, Exception))


class House:
    gone = False


def test_a_place_that_is_gone_is_tried_now_and_then() -> None:
    moment, tries, there = [0.0], [0], [False]

    def joining() -> Any:
        tries[0] += 1
        if not there[0]:
            raise PeerError("nobody", cause="refused")
        raise UsageError("seen", cause="seen")

    place = NodeAt("kv://somewhere:1", joining, 1.0, clock=lambda: moment[0])
    assert place.now is None
    for at, pause in enumerate([*PATIENCE, PATIENCE[-1]], 1):
        for _ in range(3):  # the first asks, the others are told what it heard
            with pytest.raises(PeerError) as gone:
                place.home  # noqa: B018
            assert gone.value.cause == "node_gone"
            assert "nobody" in str(gone.value)
        assert tries[0] == at
        moment[0] += pause * 1.01

"""What is decided without processes: shares of a step, load or compute, who does what."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.demo.serving.costs import Costs
from kvferry.demo.serving.messages import (
    Account,
    Alone,
    Failed,
    Finished,
    Given,
    Hop,
    Plain,
    Prefill,
    Pushed,
    Ready,
    Serve,
    Troubled,
    Unpushed,
    Wanted,
)
from kvferry.demo.serving.router import DECODE, PREFILL, Ask, Router
from kvferry.demo.serving.schedule import fits, shares
from kvferry.errors import PeerError, UsageError


@given(st.lists(st.integers(0, 700), max_size=12), st.integers(1, 512))
def test_shares(left: list[int], budget: int) -> None:
    given_ = shares(left, budget)
    assert all(0 <= share <= count for share, count in zip(given_, left, strict=True))
    generating = left.count(1)
    assert all(share == 1 for share, count in zip(given_, left, strict=True) if count == 1)
    assert sum(given_) == max(generating, min(budget, sum(left)))
    prompts = [(count, share) for count, share in zip(left, given_, strict=True) if count > 1]
    for (count, share), (_, later) in pairwise(prompts):
        assert share == count or later == 0, "one that came later was served first"


def test_fits() -> None:
    assert fits(3, 5, 2)
    assert not fits(4, 5, 2)


def test_what_is_not_known_is_loaded() -> None:
    costs = Costs()
    assert costs.loading_pays()
    costs.computed(100, 1.0)
    assert costs.loading_pays()
    costs.loaded(100, 0.1)
    assert costs.loading_pays()


def test_a_slow_store_is_left_alone_and_tried_again() -> None:
    costs = Costs()
    costs.computed(100, 1.0)
    costs.loaded(100, 4.0)
    tried = [costs.loading_pays() for _ in range(10)]
    assert tried[:6] == [False] * 6
    assert tried[-1]
    costs.loaded(100, 0.1)
    costs.loaded(100, 0.1)
    assert costs.loading_pays()


def test_few_tokens_say_nothing_about_a_step() -> None:
    costs = Costs()
    costs.computed(1, 1.0)
    costs.loaded(0, 1.0)
    assert (costs.compute, costs.load) == (None, None)


class House:
    """A router, and what it posted."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, object]] = []
        self.router = Router(lambda worker, order: self.posted.append((worker, order)))
        self.router.heard(PREFILL, Ready("p:1"), 0.0)
        self.router.heard(DECODE, Ready("d:1"), 0.0)
        self.turn = self.router.ask(Ask("a", [1, 2, 3], 4, frozenset({0})), 10.0)

    def take(self) -> list[tuple[str, object]]:
        posted, self.posted = self.posted, []
        return posted


def test_a_prompt_is_handed_over() -> None:
    house = House()
    router = house.router
    assert house.take() == [(DECODE, Serve("a", [1, 2, 3], 4, [0], True))]
    router.heard(DECODE, Wanted("a", 2, [5, 6]), 10.1)
    assert house.take() == [(PREFILL, Prefill("a", [1, 2, 3], 2, [5, 6], "d:1"))]
    hops = [Hop(0, 10.2, 0.01, 64, "fabric")]
    router.heard(PREFILL, Pushed("a", 10.15, hops, Account(computed=3)), 10.4)
    router.heard(DECODE, Given("a", 7), 10.5)
    router.heard(DECODE, Given("a", 8), 10.75)
    router.heard(DECODE, Finished("a", Account(computed=2)), 10.8)
    turn = house.turn
    assert (turn.given, turn.first, turn.done) == ([7, 8], 0.5, True)
    assert (turn.hops, turn.troubles) == (hops, [])
    assert turn.prefilled == Account(computed=3)
    assert turn.account == Account(computed=2)


@pytest.mark.parametrize("end", ["pushed", "unpushed", "ended"])
def test_an_answer_may_be_there_before_it_is_known_how_it_was_handed_over(end: str) -> None:
    house = House()
    router, turn = house.router, house.turn
    router.heard(DECODE, Wanted("a", 0, [5]), 10.1)
    router.heard(DECODE, Given("a", 7), 10.2)
    router.heard(DECODE, Finished("a", Account()), 10.3)
    assert not turn.done
    if end == "pushed":
        router.heard(PREFILL, Pushed("a", 10.1, [], Account(computed=3)), 10.4)
        assert turn.prefilled == Account(computed=3)
    elif end == "unpushed":
        router.heard(PREFILL, Unpushed("a", "nobody said that it heard"), 10.4)
    else:
        router.ended(PREFILL)
    assert (turn.done, turn.given) == (True, [7])
    router.ask(turn.ask, 11.0)


def test_what_cannot_be_handed_over_is_computed_where_it_is_wanted() -> None:
    house = House()
    house.take()
    house.router.heard(DECODE, Wanted("a", 2, [5, 6]), 10.1)
    house.take()
    house.router.heard(PREFILL, Unpushed("a", "no way"), 10.2)
    assert house.take() == [(DECODE, Alone("a", gone=False))]
    assert house.turn.troubles == ["no way"]


def test_what_a_worker_does_without_is_kept() -> None:
    house = House()
    house.router.heard(DECODE, Troubled("no store"), 1.0)
    assert house.router.troubles == ["the decode worker: no store"]


def test_without_the_worker_that_prefills() -> None:
    house = House()
    house.take()
    house.router.heard(DECODE, Wanted("a", 2, [5, 6]), 10.1)
    house.take()
    house.router.ended(PREFILL)
    assert house.take() == [(DECODE, Alone("a", gone=True))]
    house.router.ask(Ask("b", [1], 1), 11.0)
    assert house.take() == [(DECODE, Serve("b", [1], 1, [], False))]
    house.router.heard(DECODE, Wanted("b", 0, [1]), 11.1)  # it was on its way
    assert house.take() == [(DECODE, Alone("b", gone=True))]


def test_what_nobody_can_make_good() -> None:
    house = House()
    with pytest.raises(PeerError, match="decode worker"):
        house.router.ended(DECODE)
    with pytest.raises(PeerError, match="too long"):
        house.router.heard(DECODE, Failed("a", "too long"), 1.0)


def test_plainly_by_a_worker_that_is_gone() -> None:
    house = House()
    turn = house.router.plain(PREFILL, Ask("p", [1], 1), 1.0)
    house.router.heard(PREFILL, Given("p", 3), 1.5)
    house.router.heard(PREFILL, Finished("p", None), 1.6)
    assert (turn.given, turn.done) == ([3], True)
    again = house.router.plain(PREFILL, Ask("q", [1], 2), 2.0)
    house.router.heard(PREFILL, Given("q", 3), 2.5)
    house.take()
    house.router.ended(PREFILL)
    assert house.take() == [(DECODE, Plain("q", [1], 2, []))]
    assert (again.given, again.times, again.troubles) == ([], [], ["the prefill worker ended"])
    house.router.plain(PREFILL, Ask("r", [1], 1), 3.0)
    assert house.take() == [(DECODE, Plain("r", [1], 1, []))]
    with pytest.raises(PeerError, match="decode worker"):
        house.router.ended(DECODE)


def test_names_are_of_one_request_at_a_time() -> None:
    house = House()
    for again in (house.router.ask, lambda ask, now: house.router.plain(PREFILL, ask, now)):
        with pytest.raises(UsageError, match="'a' is not done"):
            again(Ask("a", [1], 1), 11.0)
    house.router.heard(DECODE, Finished("a", Account()), 12.0)
    house.router.ask(Ask("a", [4], 1), 13.0)
    with pytest.raises(PeerError, match="too long"):
        house.router.heard(DECODE, Failed("a", "too long"), 14.0)
    house.router.ask(Ask("a", [5], 1), 15.0)


def test_a_prefill_worker_that_gives_up_is_one_that_ends() -> None:
    house = House()
    house.router.heard(DECODE, Wanted("a", 2, [5, 6]), 10.1)
    house.take()
    house.router.heard(PREFILL, Failed(None, "not quiet"), 10.2)
    house.router.ended(PREFILL)
    assert house.take() == [(DECODE, Alone("a", gone=True))]


def test_nothing_is_asked_of_a_worker_that_is_gone() -> None:
    house = House()
    house.router.ended(PREFILL)
    with pytest.raises(PeerError, match="decode worker"):
        house.router.ended(DECODE)
    for ask in (house.router.ask, lambda ask, now: house.router.plain(PREFILL, ask, now)):
        with pytest.raises(PeerError, match="decode worker"):
            ask(Ask("b", [1], 1), 11.0)

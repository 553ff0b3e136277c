"""Who is thought to be alive: an earlier life is refused, silence is told from one's own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry.errors import UsageError
from kvferry.store.directory.membership import Membership, Spans, State
from kvferry.store.directory.messages import VERSION, Enroll

SPANS = Spans(beat=1, suspect=3, dead=10, late=2, ramp=20)


def hello(name: str, began: int = 1) -> Enroll:
    return Enroll(VERSION, began, name, "here", 1000, 500, 100)


def states(members: Membership) -> dict[int, State]:
    return {each.epoch: each.state for each in members}


def test_suspect_before_dead_and_back() -> None:
    members = Membership(SPANS, 0)
    one, _ = members.enroll(11, hello("a"), 0)
    two, _ = members.enroll(22, hello("b"), 0)
    for now in range(1, 3):
        assert members.sweep(now) == []
    members.hear(two, 2)
    assert members.sweep(3) == []
    assert states(members) == {11: State.SUSPECT, 22: State.ALIVE}
    members.hear(one, 4)
    assert states(members) == {11: State.ALIVE, 22: State.ALIVE}
    for now in range(4, 13):
        dead = members.sweep(now)
        assert dead == ([two] if now == 12 else [])
    assert states(members) == {11: State.SUSPECT}
    assert two.state is State.DEAD
    assert members.of(22) is None
    assert members.numbered(two.number) is None


def test_who_leaves_stays_so_until_it_ends() -> None:
    members = Membership(SPANS, 0)
    one, _ = members.enroll(11, hello("a"), 0)
    members.leave(one, ended=False)
    members.hear(one, 1)
    assert one.state is State.LEAVING
    again, past = members.enroll(11, hello("a"), 2)
    assert past == [one]
    assert again.state is State.LEAVING
    members.leave(again, ended=True)
    assert len(members) == 0


def test_an_earlier_life_is_refused() -> None:
    members = Membership(SPANS, 0)
    old, _ = members.enroll(11, hello("a", 5), 0)
    new, past = members.enroll(22, hello("a", 6), 1)
    assert past == [old]
    assert members.of(11) is None
    with pytest.raises(UsageError) as refused:
        members.enroll(11, hello("a", 5), 2)
    assert refused.value.cause == "superseded"
    assert members.of(22) is new
    same, past = members.enroll(22, hello("a", 6), 3)
    assert past == [new]
    assert same.number != new.number
    assert same.since == 1  # the same life, no newcomer


def test_numbers_are_used_again_when_they_are_forgotten() -> None:
    members = Membership(SPANS, 0)
    for turn in range(66_000):
        member, past = members.enroll(11, hello("a"), turn)
        assert 0 < member.number < 1 << 16
        for each in past:
            assert each.number != member.number
            members.release(each.number)


def test_nobody_dies_of_our_own_silence() -> None:
    members = Membership(SPANS, 0)
    members.enroll(11, hello("a"), 0)
    members.enroll(22, hello("b"), 0)
    members.sweep(2)
    assert members.sweep(500) == []
    assert states(members) == {11: State.ALIVE, 22: State.ALIVE}
    members.sweep(501)
    members.sweep(502)
    assert states(members) == {11: State.SUSPECT, 22: State.SUSPECT}
    assert [member.epoch for now in range(503, 520) for member in members.sweep(now)] == [11, 22]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60))
def test_dead_are_those_who_were_silent_while_we_listened(steps: list[tuple[int, int]]) -> None:
    """heard: for how long each has been silent, as far as we could hear."""
    members, now, swept = Membership(SPANS, 0), 0, 0
    silent: dict[int, int] = {}
    for who, gap in steps:
        now += gap
        if who == 3:
            late = now - swept > SPANS.late
            dead = {member.epoch for member in members.sweep(now)}
            if not late:
                silent = {each: span + now - swept for each, span in silent.items()}
            swept = now
            assert dead <= {each for each, span in silent.items() if span >= SPANS.dead}
            silent = {each: span for each, span in silent.items() if each not in dead}
            assert set(silent) == set(states(members))
        elif member := members.of(who + 10):
            members.hear(member, now)
            silent[who + 10] = 0
        else:
            members.enroll(who + 10, hello(f"n{who}"), now)
            silent[who + 10] = 0


def test_spans_follow_each_other() -> None:
    none = Spans(late=0), Spans(ramp=0), Spans(repair=0)
    for wrong in (Spans(suspect=1), Spans(dead=2), Spans(beat=0), *none):
        with pytest.raises(UsageError):
            wrong.check()

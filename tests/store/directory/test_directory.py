"""A directory agrees with dicts of what nodes have, whoever lies, dies or comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from kvferry import _core
from kvferry.errors import UsageError
from kvferry.store.directory import Directory, Spans
from kvferry.store.directory import messages as m
from kvferry.store.directory.removals import Removals
from kvferry.store.messages import column_of, digests_in

SPANS = Spans(beat=2, suspect=5, dead=10, late=6, ramp=20, repair=4)
KEYS, NODES = 30, 5
TERM = 7

key = st.integers(0, KEYS - 1)
node = st.integers(1, NODES)
rows = st.lists(st.tuples(key, st.integers(0, 3)), max_size=8)


def digests(numbers: list[int]) -> NDArray[np.uint64]:
    return np.array([[n * 7919 + 1, n % 2] for n in numbers], np.uint64).reshape(-1, 2)


def hello(name: str, **more: Any) -> m.Enroll:
    wanted = {"began": 1, "domain": name, "capacity": 1000, "free": 500, "keys": 100, **more}
    return m.Enroll(version=m.VERSION, address=f"{name}:1", **wanted)


def report(seq: int, told: list[tuple[int, int]], term: int = TERM, whole: bool = True) -> m.Report:
    wanted = bytes(copies for _, copies in told)
    return m.Report(term, seq, whole, column_of(digests([name for name, _ in told])), wanted)


def found(it: Directory, numbers: list[int]) -> list[set[int]]:
    """Epochs of the nodes that have each."""
    placed = it.lookup(digests(numbers))
    places = m.places_in(placed, len(numbers))
    return [{placed.nodes[each].epoch for each in row if each} for row in places.tolist()]


class Model(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.now = 0
        self.it = Directory(TERM, 0, spans=SPANS, rows=1000)
        self.seq: dict[int, int] = {}
        self.keys: dict[int, dict[int, int]] = {}  # node: key: wanted
        self.heard: dict[int, int] = {}

    @rule(node=node)
    def enroll(self, node: int) -> None:
        self.it.enroll(node, hello(f"n{node}"), self.now)
        self.seq[node], self.keys[node], self.heard[node] = 0, {}, self.now

    @rule(node=node, told=rows, again=st.booleans())
    def report(self, node: int, told: list[tuple[int, int]], again: bool) -> None:
        known = node in self.seq
        for _ in range(1 + again):
            one = report(self.seq.get(node, 0), told)
            assert (self.it.report(node, one, self.now) is not None) == known
        if known:
            self.seq[node] += 1
            self.heard[node] = self.now
            for name, wanted in told:
                self._tell(node, name, wanted)

    def _tell(self, node: int, name: int, wanted: int) -> None:
        others = sum(name in keys for each, keys in self.keys.items() if each != node)
        if not wanted:
            self.keys[node].pop(name, None)
        elif others < _core.PLACES:
            self.keys[node][name] = wanted

    @rule(node=node, told=rows, off=st.sampled_from([-3, 2, 100]))
    def report_out_of_order(self, node: int, told: list[tuple[int, int]], off: int) -> None:
        seq = self.seq.get(node, 0) + off
        if seq >= 0:
            assert self.it.report(node, report(seq, told), self.now) is None
            self.heard.update({node: self.now} if node in self.seq else {})

    @rule(node=node, told=rows)
    def report_of_another_term(self, node: int, told: list[tuple[int, int]]) -> None:
        stale = report(self.seq.get(node, 0), told, TERM + 1)
        assert self.it.report(node, stale, self.now) is None
        assert self.it.beat(node, TERM - 1, 1, 1, self.now) is None

    @rule(node=node)
    def beat(self, node: int) -> None:
        heard = self.it.beat(node, TERM, 400, 10, self.now)
        assert (heard is not None) == (node in self.seq)
        if node in self.seq:
            self.heard[node] = self.now

    @rule(node=node, ended=st.booleans())
    def leave(self, node: int, ended: bool) -> None:
        assert self.it.leave(node, TERM, ended, self.now) == (node in self.seq)
        if node in self.seq:
            self.heard[node] = self.now
            if ended:
                self._forget(node)

    def _forget(self, node: int) -> None:
        for table in (self.seq, self.keys, self.heard):
            del table[node]

    @rule(gap=st.integers(1, 5))
    def pass_time(self, gap: int) -> None:
        self.now += gap
        dead = {member.epoch for member in self.it.sweep(self.now)}
        for each in [each for each, when in self.heard.items() if self.now - when >= SPANS.dead]:
            self._forget(each)
            dead.remove(each)
        assert dead == set()

    @rule(gap=st.integers(20, 100))
    def stand_still(self, gap: int) -> None:
        """The directory did: nobody dies of that."""
        self.now += gap
        assert self.it.sweep(self.now) == []
        self.heard = {each: when + gap for each, when in self.heard.items()}

    @rule(near=node, copies=st.integers(0, 4), wanted=st.lists(key, max_size=4))
    def choose(self, near: int, copies: int, wanted: list[int]) -> None:
        sizes = np.full(len(wanted), 10, np.uint64)
        placed = self.it.choose(near, digests(wanted), sizes, copies, self.now)
        held = m.held_in(placed, len(wanted))
        leaving = {each.epoch for each in self.it.members if each.state.value == "leaving"}
        for at, row in enumerate(m.places_in(placed, len(wanted)).tolist()):
            targets = {placed.nodes[each].epoch for each in row if each}
            having = {each for each, keys in self.keys.items() if wanted[at] in keys}
            assert not targets & (having | {near} | leaving)
            assert held[at] == len(having - {near} - leaving)
            assert len(targets) <= max(copies - int(held[at]), 0)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "it"):
            return
        where = found(self.it, list(range(KEYS)))
        for name in range(KEYS):
            assert where[name] == {node for node, keys in self.keys.items() if name in keys}
        assert {each.epoch for each in self.it.members} == set(self.seq)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)


@pytest.mark.slow
def test_model_at_length() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Model, settings=settings(max_examples=400, stateful_step_count=50, deadline=None)
    )


def directory(*nodes: int, **more: Any) -> Directory:
    it = Directory(TERM, 0, spans=SPANS, **more)
    for each in nodes:
        it.enroll(each, hello(f"n{each}"), 0)
    return it


def test_suspects_come_last() -> None:
    it = directory(1, 2, 3)
    for each in (1, 2, 3):
        assert it.report(each, report(0, [(5, 1)]), 0) is not None
    for each in (2, 3):
        it.beat(each, TERM, 1, 1, 4)
    it.sweep(5)
    placed = it.lookup(digests([5]))
    order = [placed.nodes[number].epoch for number in m.places_in(placed, 1)[0].tolist() if number]
    assert order == [2, 3, 1]


def test_a_node_names_no_more_keys_than_it_said() -> None:
    it = directory()
    assert it.enroll(1, hello("n1", keys=10), 0).keys == 10
    assert it.report(1, report(0, [(each, 1) for each in range(20)]), 0) is not None
    assert it.table.held(1) == 10
    assert it.figures()["beyond"] == 10
    assert (
        it.report(
            1,
            report(1, [*((each, 0) for each in range(5)), *((each, 1) for each in range(20, 30))]),
            0,
        )
        is not None
    )
    assert it.table.held(1) <= 10


def test_rows_are_limited() -> None:
    it = directory(1, rows=20)
    assert it.report(1, report(0, [(each, 1) for each in range(30)]), 0) is not None
    figures = it.figures()
    assert (figures["rows"], figures["keys"]) == (20, 20)
    assert figures["beyond"] + figures["full"] == 10


def test_what_is_no_report_changes_nothing() -> None:
    it = directory(1)
    good = report(0, [(1, 1)])
    for wrong in (
        m.Report(TERM, 0, True, good.digests, b""),
        m.Report(TERM, 0, True, good.digests[:9], b"\x01"),
        m.Report(TERM, 0, True, bytes(16 * (m.MOST + 1)), bytes(m.MOST + 1)),
    ):
        with pytest.raises(UsageError):
            it.report(1, wrong, 0)
    assert it.report(1, good, 0) is not None
    for wrong_hello in (hello("n2", free=2000), m.Enroll(m.VERSION + 1, 1, "n2:1", "d", 1, 1, 1)):
        with pytest.raises(UsageError):
            it.enroll(2, wrong_hello, 0)
    with pytest.raises(UsageError):
        it.enroll(2, hello("no address"), 0)
    assert found(it, [1]) == [{1}]


def run(it: Directory, alive: list[int], start: int, end: int) -> dict[int, list[m.Order]]:
    """Orders that each was given."""
    orders: dict[int, list[m.Order]] = {each: [] for each in alive}
    for now in range(start, end):
        it.sweep(now)
        for each in alive:
            heard = it.beat(each, TERM, 500, 3, now)
            orders[each] += heard or ()
    return orders


def test_what_the_dead_had_is_copied_again() -> None:
    it = directory(1, 2, 3)
    assert it.report(1, report(0, [(each, 2) for each in range(10)]), 0) is not None
    assert it.report(2, report(0, [(each, 2) for each in range(5)]), 0) is not None
    assert it.report(3, report(0, [*((each, 2) for each in range(5, 10)), (20, 1)]), 0) is not None
    assert run(it, [1, 2, 3], 1, 30) == {1: [], 2: [], 3: []}
    orders = run(it, [2, 3], 30, 200)
    for survivor, other, kept in (2, 3, range(5)), (3, 2, range(5, 10)):
        given = orders[survivor]
        assert {order.to.epoch for order in given} == {other}
        names = [tuple(row) for order in given for row in digests_in(order.digests).tolist()]
        assert set(names) == {tuple(row) for row in digests(list(kept)).tolist()}
        assert all(len(order.digests) <= 3 * 16 for order in given)
    assert it.report(3, report(1, [(each, 2) for each in range(5)]), 200) is not None
    assert it.report(2, report(1, [(each, 2) for each in range(5, 10)]), 200) is not None
    assert it.figures()["lacking"] == 0
    it.sweep(201)
    run(it, [2, 3], 202, 240)
    assert run(it, [2, 3], 240, 500) == {2: [], 3: []}


@pytest.mark.parametrize("ticks", [1, 4, 9])
def test_what_takes_long_is_copied_once(ticks: int) -> None:
    """Each survivor copies a key in so many ticks, while more and more rounds could begin."""
    it = directory(1, 2, 3)
    assert it.report(1, report(0, [(each, 2) for each in range(40)]), 0) is not None
    assert it.report(2, report(0, [(each, 2) for each in range(20)]), 0) is not None
    assert it.report(3, report(0, [(each, 2) for each in range(20, 40)]), 0) is not None
    given: list[tuple[int, ...]] = []
    waiting: dict[int, list[list[int]]] = {2: [], 3: []}
    seqs = {2: 1, 3: 1}
    for now in range(1, 60 + 60 * ticks):
        it.sweep(now)
        for each, other in (2, 3), (3, 2):
            if waiting[each] and now % ticks == 0:
                column = np.array([waiting[each].pop(0)], np.uint64)
                told = m.Report(TERM, seqs[other], True, column_of(column), b"\2")
                assert it.report(other, told, now) is not None
                seqs[other] += 1
            for order in it.beat(each, TERM, 500, 16 - len(waiting[each]), now) or ():
                waiting[each] += digests_in(order.digests).tolist()
                given += map(tuple, digests_in(order.digests).tolist())
    assert it.figures()["lacking"] == 0
    assert len(given) == len(set(given)) == 40


def test_copies_that_only_take_each_others_place_are_made_less_and_less_often() -> None:
    it = directory(1, 2)
    assert it.report(1, report(0, [(each, 2) for each in range(10)]), 0) is not None
    assert it.report(2, report(0, []), 0) is not None
    given, seq = [], 1
    for now in range(1, 1000):
        it.sweep(now)
        for each in (1, 2):
            for order in it.beat(each, TERM, 500, 100, now) or ():
                names = [(int(low) - 1) // 7919 for low, _ in digests_in(order.digests).tolist()]
                given += [now] * (0 in names)
                for code in (2, 0):  # it comes, and has to leave at once
                    told = report(seq, [(name, code) for name in names])
                    assert it.report(2, told, now) is not None
                    seq += 1
    pauses = np.diff(given)
    assert 3 <= len(pauses) < 20
    assert pauses[-1] > pauses[0] + 5 * SPANS.repair


def test_nothing_is_ordered_before_nodes_had_time_to_tell() -> None:
    it = directory(1, 2)
    assert it.report(1, report(0, [(each, 2) for each in range(3)]), 0) is not None
    assert run(it, [1, 2], 1, SPANS.dead) == {1: [], 2: []}


def void(told: NDArray[np.uint64] | None) -> list[int]:
    assert told is not None
    return [(int(low) - 1) // 7919 for low, _ in told.tolist()]


def test_what_was_removed_meanwhile_is_void_at_a_node_that_comes_back() -> None:
    it = directory(1, 2)
    everything = [(each, 2) for each in range(6)]
    for each in (1, 2):
        assert void(it.report(each, report(0, everything), 0)) == []
    for now in range(12):
        it.beat(1, TERM, 1, 0, now)
        it.sweep(now)
    gone = [(2, m.REMOVED), (3, m.REMOVED), (4, 0)]  # one that was evicted is as good elsewhere
    assert void(it.report(1, report(1, gone), 12)) == []
    assert void(it.report(1, report(2, [(3, 2)]), 12)) == []  # rewritten
    it.enroll(2, hello("n2"), 13)
    first = report(0, everything[:3], whole=False)
    assert void(it.report(2, first, 13)) == [2]
    assert void(it.report(2, first, 13)) == [2]  # its answer was lost
    assert void(it.report(2, report(1, everything[3:]), 13)) == [3]
    assert found(it, list(range(6))) == [{1, 2}, {1, 2}, set(), {1}, {2}, {1, 2}]
    assert void(it.report(2, report(2, [(2, 1)]), 14)) == []  # put anew
    assert found(it, [2]) == [{2}]
    it.enroll(2, hello("n2"), 15)  # it was never away
    assert void(it.report(2, report(0, [(2, 1)]), 15)) == []
    assert found(it, [2]) == [{2}]


def test_removals_are_remembered_up_to_some_number() -> None:
    removals = Removals(most=3)
    for each in range(5):
        removals.add(digests([each]))
    removals.add(digests([2, 3]))
    assert removals.of(digests(list(range(6)))).tolist() == [False, False, True, True, True, False]
    assert len(removals) == 3

"""The native ledger and its twin: each by itself, and one against the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvferry._core import ARRIVALS, NODE
from kvferry.store import Answer
from tests.store.indices import LEDGERS, NativeLedger, dict_ledger

ROOM = 64
STORED, PRESENT, TOO_LARGE = Answer.STORED, Answer.PRESENT, Answer.TOO_LARGE
INDEX_FULL, LATE, UNKNOWN = Answer.INDEX_FULL, Answer.LATE, Answer.UNKNOWN
ABORTED = Answer.ABORTED


def digests(*numbers: int) -> NDArray[np.uint64]:
    spread = [(n + 1) * 0x9E3779B97F4A7C15 % (1 << 64) for n in numbers]
    return np.array([[word, word ^ (word >> 7)] for word in spread], np.uint64).reshape(-1, 2)


def words(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


def opened(ledger: Any, user: int, count: int, room: int = ROOM) -> NDArray[np.uint64]:
    attempts: NDArray[np.uint64] = ledger.open(
        user, np.arange(count) * room, np.full(count, room, np.int64)
    )
    return attempts


def commit(ledger: Any, user: int, attempts: Any, keys: Any, length: int = 1) -> list[Answer]:
    lengths = np.full(len(attempts), length, np.uint64)
    said = ledger.commit(user, np.array(attempts, np.uint64), digests(*keys), lengths)
    return [Answer(each) for each in said.tolist()]


@pytest.fixture(params=LEDGERS)
def make(request: pytest.FixtureRequest) -> Callable[[int, int], Any]:
    kind: Callable[[int, int], Any] = request.param
    return kind


def test_what_was_written_is_an_object_and_is_told_once(make: Callable[[int, int], Any]) -> None:
    ledger = make(64, 48)
    attempts = opened(ledger, 5, 3)
    assert ledger.held(5) == (3, 3 * ROOM)
    assert (ledger.reserved, ledger.quarantined, ledger.pending) == (3 * ROOM, 0, 0)
    said = ledger.commit(
        5,
        attempts,
        digests(1, 2, 1),
        words(9, 8, 7),
        words(4, 5, 6),
        digests(1, 1, 1),
        words(0, 7, 0),
    )
    assert said.tolist() == [STORED, STORED, PRESENT]
    entries = ledger.index.read(ledger.index.find(digests(1, 2)))
    for name, column in {"generation": [1, 2], "offset": [0, 64], "length": [9, 8]}.items():
        assert entries[name].tolist() == column
    assert entries["attrs"].tolist() == [4, 5]
    arrived, offsets, rooms, refused = ledger.arrivals()
    one, other = entries["slot"].tolist()
    assert arrived.tolist() == [
        (1, int(digests(1)[0, 1]), ROOM, 0, one, one),
        (2, int(digests(2)[0, 1]), ROOM, 7, other, one),
    ]
    assert (offsets.tolist(), rooms.tolist(), len(refused)) == ([2 * ROOM], [ROOM], 0)
    assert [len(column) for column in ledger.arrivals()] == [0] * 4
    assert ledger.held(5) == (0, 0)
    assert ledger.reserved == 0


def test_of_an_attempt_that_occurs_twice_the_later_is_late(make: Callable[[int, int], Any]) -> None:
    ledger = make(64, 48)
    one, other = opened(ledger, 1, 2).tolist()
    keys = [1, 2, 3, 4]
    assert commit(ledger, 1, [one, one, other, one], keys) == [STORED, LATE, STORED, LATE]
    assert (ledger.index.find(digests(*keys)) >= 0).tolist() == [True, False, True, False]
    assert ledger.arrivals()[3].tolist() == digests(2, 4).tolist()


def test_an_attempt_that_was_refused_stands(make: Callable[[int, int], Any]) -> None:
    ledger = make(64, 1)
    one, other, third = opened(ledger, 1, 3).tolist()
    assert commit(ledger, 1, [one], [1], ROOM + 1) == [TOO_LARGE]
    assert commit(ledger, 1, [one, one], [1, 1], ROOM) == [STORED, LATE]
    assert commit(ledger, 1, [other, third], [2, 1]) == [INDEX_FULL, PRESENT]
    assert ledger.held(1) == (1, ROOM)
    slots, generations = ledger.index.find(digests(1)), words(1)
    ledger.index.mark(slots, generations)
    assert commit(ledger, 1, [other], [2]) == [INDEX_FULL]
    ledger.index.remove(slots, generations)
    assert commit(ledger, 1, [other], [2]) == [STORED]


def test_an_attempt_is_its_users_alone_and_never_comes_again(
    make: Callable[[int, int], Any],
) -> None:
    ledger = make(64, 48)
    one, other = opened(ledger, 1, 2).tolist()
    nonsense = [0, 5, (1 << 64) - 1, one + (1 << 30), one + (1 << 24)]
    assert commit(ledger, 1, nonsense, range(5)) == [UNKNOWN] * 5
    assert commit(ledger, 2, [one], [1]) == [UNKNOWN]
    assert commit(ledger, 1, [one], [1]) == [STORED]
    (again,) = opened(ledger, 2, 1).tolist()
    assert commit(ledger, 1, [one, again], [2, 2]) == [LATE, UNKNOWN]
    answers, offsets, _ = ledger.abort(1, words(one, other, again, other))
    assert answers.tolist() == [LATE, ABORTED, UNKNOWN, LATE]
    assert offsets.tolist() == [ROOM]
    assert commit(ledger, 2, [again], [2]) == [STORED]


def test_quarantine_ends_with_its_user(make: Callable[[int, int], Any]) -> None:
    ledger = make(64, 48)
    attempts, _ = opened(ledger, 1, 3), opened(ledger, 2, 2)
    assert ledger.quarantine(1) == ledger.quarantine(1) == 3 * ROOM
    assert (ledger.reserved, ledger.quarantined) == (2 * ROOM, 3 * ROOM)
    assert commit(ledger, 1, attempts, [1, 2, 3]) == [LATE] * 3
    later = opened(ledger, 1, 1)
    assert commit(ledger, 1, later, [4]) == [STORED]
    assert ledger.abort(1, attempts[:1])[0].tolist() == [ABORTED]
    offsets, rooms = ledger.gone(1)
    assert (sorted(offsets.tolist()), rooms.tolist()) == ([ROOM, 2 * ROOM], [ROOM] * 2)
    assert ledger.held(1) == (0, 0)
    assert (ledger.reserved, ledger.quarantined) == (2 * ROOM, 0)
    assert [column.tolist() for column in ledger.extents()] == [[0, ROOM], [ROOM] * 2]
    assert ledger.quarantine(1) == ledger.quarantine(9) == 0


def test_a_full_buffer_asks_for_the_catalog(make: Callable[[int, int], Any]) -> None:
    ledger = make(4 * ARRIVALS, 3 * ARRIVALS)
    attempts = opened(ledger, 1, ARRIVALS + 2)
    said = commit(ledger, 1, attempts, range(ARRIVALS + 2))
    assert said == [STORED] * ARRIVALS + [INDEX_FULL] * 2
    assert len(ledger.arrivals()[0]) == ARRIVALS
    assert commit(ledger, 1, attempts[-2:], [ARRIVALS, 0]) == [STORED, PRESENT]
    again = opened(ledger, 1, ARRIVALS)
    assert commit(ledger, 1, again, [0] * ARRIVALS) == [PRESENT] * (ARRIVALS - 1) + [INDEX_FULL]
    assert commit(ledger, 1, attempts[:-2], [0] * ARRIVALS) == [LATE] * ARRIVALS
    assert commit(ledger, 1, attempts[:-2], [1] * ARRIVALS) == [LATE] * ARRIVALS
    arrived, offsets, _, refused = ledger.arrivals()
    assert (len(arrived), len(offsets)) == (1, ARRIVALS)
    assert refused.tolist() == digests(0).tolist() * ARRIVALS


def test_thousands_of_attempts_have_rows_of_their_own(make: Callable[[int, int], Any]) -> None:
    ledger, seen = make(64, 48), set()
    for turn in range(1, 21):
        attempts = opened(ledger, turn, 200)
        seen |= set(attempts.tolist())
        ledger.abort(turn, attempts[: 100 + turn])
    assert len(seen) == 20 * 200
    assert ledger.left == (1 << 24) - len(ledger.extents()[0])
    for turn in range(1, 21):
        assert ledger.held(turn)[0] == 100 - turn
    with pytest.raises(OverflowError):
        opened(ledger, 1, 1 << 24)


def test_batches_that_do_not_fit_together_are_refused() -> None:
    ledger = NativeLedger(64, 48)
    attempts = opened(ledger, 1, 2)
    two, three = digests(1, 2), words(1, 2, 3)
    wrong: list[tuple[Any, ...]] = [
        (two[:1], three[:2]),
        (two, three),
        (two, three[:2], three),
        (two, three[:2], None, two[:1]),
        (two, three[:2], None, None, three),
    ]
    for columns in wrong:
        with pytest.raises(ValueError, match="one length"):
            ledger.commit(1, attempts, *columns)
    with pytest.raises(ValueError, match="one length"):
        ledger.open(1, np.arange(3), np.arange(2))
    assert ledger.pending == 0
    assert ledger.held(1) == (2, 2 * ROOM)


step: st.SearchStrategy[tuple[str, int, list[Any]]] = st.one_of(
    st.tuples(st.just("open"), st.integers(1, 2), st.lists(st.integers(1, 3), max_size=4)),
    st.tuples(
        st.just("commit"),
        st.integers(1, 2),
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 3)), max_size=9),
    ),
    st.tuples(st.just("abort"), st.integers(1, 2), st.lists(st.integers(0, 30), max_size=4)),
    st.tuples(st.sampled_from(["quarantine", "gone"]), st.integers(1, 2), st.just([])),
    st.tuples(st.just("arrivals"), st.just(0), st.just([])),
)


@settings(max_examples=80, deadline=None)
@given(steps=st.lists(step, max_size=25))
def test_the_twins_say_the_same(steps: list[tuple[str, int, list[Any]]]) -> None:
    twins = dict_ledger(16, 13), NativeLedger(16, 13)
    known = [1 << 24]
    for verb, user, what in steps:
        one, other = (_do(ledger, verb, user, what, known) for ledger in twins)
        assert one == other
        known += one if verb == "open" else []
        one, other = (_looks(ledger) for ledger in twins)
        assert one == other


def _do(ledger: Any, verb: str, user: int, what: list[Any], known: list[int]) -> Any:
    if verb == "open":
        rooms = np.array(what, np.int64) * ROOM
        return ledger.open(user, rooms * 100, rooms).tolist()
    if verb == "commit":
        attempts = words(*(known[-1 - at % len(known)] for at, _, _ in what))
        keys = digests(*(key for _, key, _ in what))
        lengths, parents = words(*(n * ROOM for *_, n in what)), keys[::-1].copy()
        return ledger.commit(user, attempts, keys, lengths, lengths, parents, lengths).tolist()
    if verb == "abort":
        attempts = words(*(known[-1 - at % len(known)] for at in what))
        return [column.tolist() for column in ledger.abort(user, attempts)]
    if verb == "quarantine":
        return ledger.quarantine(user)
    return [
        column.tolist() for column in (ledger.gone(user) if verb == "gone" else ledger.arrivals())
    ]


def _looks(ledger: Any) -> Any:
    entries = ledger.index.scan(0, 16)
    return (
        [ledger.held(user) for user in range(3)],
        [column.tolist() for column in ledger.extents()],
        [entries[name].tolist() for name in entries.dtype.names],
        (ledger.reserved, ledger.quarantined, ledger.left, ledger.pending, ledger.index.count),
    )


def test_what_lies_beside_is_present(make: Callable[[int, int], Any]) -> None:
    """And only the node itself, which has it from there, stores it."""
    ledger, other = make(64, 48), make(64, 48)
    commit(other, 5, opened(other, 5, 1), [1])
    ledger.beside(other.index)
    attempts = opened(ledger, 5, 2)
    assert commit(ledger, 5, attempts, [1, 2]) == [PRESENT, STORED]
    assert ledger.reserved == 0
    assert commit(ledger, NODE, opened(ledger, NODE, 2), [1, 2]) == [STORED, PRESENT]
    assert ledger.index.count == 2

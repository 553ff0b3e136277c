"""The clerk by itself: what it owes and pays, its lock, and how it is woken."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry import _core
from tests._core.offices import INDEX_FULL, STORED, UNKNOWN, Columns, Office, after

PRESENT = 1


@pytest.fixture
def office() -> Iterator[Office]:
    office = Office(users=2)
    yield office
    office.close()


class Errand(threading.Thread):
    """A thread of user 1 that commits."""

    def __init__(self, office: Office, columns: Columns) -> None:
        super().__init__()
        self.desk, self.columns = office.desks[0].desk, columns
        self.start()

    def run(self) -> None:
        self.outcome, self.answers = self.desk.commit(*self.columns, deadline_ns=after(10))

    def told(self) -> list[int]:
        self.join()
        assert self.outcome == _core.DESK_DONE
        said: list[int] = self.answers.tolist()
        return said


def owing(office: Office) -> Errand:
    """User 1 commits 10 keys, for 6 of which there are entries."""
    office.ledger = _core.Ledger(office.index, 6)
    office.clerk = _core.Clerk(office.ledger, office.bell.ctypes.data)
    memory = office.desks[0].memory
    office.clerk.seat(1, memory.ctypes.data, len(memory))
    errand = Errand(office, office.open(1, 0, 10))
    assert office.clerk.serve(after(10)) == [(1, 0)]
    assert office.clerk.serve(after(10)) == [(1, 0)]
    return errand


def answers(*each: int) -> NDArray[np.uint8]:
    return np.array(each, np.uint8)


def test_what_is_owed_is_paid(office: Office) -> None:
    errand = owing(office)
    attempts, digests, lengths, attrs, parents, expires = office.clerk.records(1, 0)
    for owed, whole in zip((attempts, digests, lengths), errand.columns, strict=True):
        assert owed.tolist() == whole[6:].tolist()
        assert owed.flags.c_contiguous
    assert parents.tolist() == digests.tolist()
    assert attrs.tolist() == expires.tolist() == [0] * 4
    with pytest.raises(ValueError, match="each record"):
        office.clerk.answer(1, 0, answers(1, 2, 3))
    assert office.clerk.answered == 0
    assert office.clerk.answer(1, 0, answers(20, 21, 22, 23))
    assert errand.told() == [STORED] * 6 + [20, 21, 22, 23]
    assert not office.clerk.answer(1, 0, answers(20, 21, 22, 23))
    assert office.clerk.serve(after(0)) == []
    assert office.clerk.answered == 1


def test_nothing_is_owed(office: Office) -> None:
    for user, tray in ((1, 0), (1, 99), (7, 0)):
        columns = office.clerk.records(user, tray)
        assert [len(each) for each in columns] == [0] * 6
        assert office.ledger.commit(user, *columns).tolist() == []
        assert not office.clerk.answer(user, tray, answers())


def test_others_are_answered_meanwhile(office: Office) -> None:
    errand = owing(office)
    again = Errand(office, errand.columns)
    while len(office.clerk.serve(after(1))) < 2:
        pass
    office.clerk.answer(1, 0, answers(*[INDEX_FULL] * 4))
    assert errand.told() == [STORED] * 6 + [INDEX_FULL] * 4
    assert office.clerk.answer(1, 1, answers(*[PRESENT] * 4))
    assert again.told()[6:] == [PRESENT] * 4


def test_who_is_unseated_gets_what_is_owed(office: Office) -> None:
    errand = owing(office)
    assert office.clerk.unseat(1)
    assert errand.told() == [STORED] * 6 + [INDEX_FULL] * 4
    assert not office.clerk.unseat(1)
    assert not office.clerk.answer(1, 0, answers(*[STORED] * 4))


def test_one_seat_each(office: Office) -> None:
    memory = office.desks[0].memory
    with pytest.raises(ValueError, match="has a seat"):
        office.clerk.seat(1, memory.ctypes.data, len(memory))


def test_a_node_within_the_process(office: Office) -> None:
    columns = office.open(1, 0, 500)
    assert office.clerk.commit(1, *columns).tolist() == [STORED] * 500
    assert office.clerk.commit(2, *columns).tolist() != [STORED] * 500
    assert office.clerk.commit(1, np.zeros(1, np.uint64), *(each[:1] for each in columns[1:])) == [
        UNKNOWN
    ]
    office.check_stored(0, 500)


# ---- waking and waiting


def test_serving_ends(office: Office) -> None:
    begun = time.monotonic()
    assert office.clerk.serve(after(0.03)) == []
    assert 0.03 <= time.monotonic() - begun < 2
    office.clerk.wake()
    assert office.clerk.serve() == []
    serving = threading.Thread(target=office.clerk.serve)
    serving.start()
    office.clerk.wake()
    serving.join(10)
    assert not serving.is_alive()


def test_serving_is_interrupted(office: Office) -> None:
    errand = Errand(office, office.open(1, 0, 1))

    def interrupt() -> None:
        errand.join()  # it was answered: the clerk serves
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        office.clerk.serve(after(10))
    thread.join()
    assert errand.told() == [STORED]


def test_news_is_waited_for(office: Office) -> None:
    begun = time.monotonic()
    assert not office.clerk.news(after(0.03))
    assert 0.03 <= time.monotonic() - begun < 2
    office.clerk.tell()
    assert office.clerk.news()
    assert not office.clerk.news(after(0))
    columns = office.open(1, 0, 1)
    for tell in (office.clerk.tell, lambda: office.clerk.commit(1, *columns)):
        said = []
        waiting = threading.Thread(target=lambda: said.append(office.clerk.news(after(20))))  # noqa: B023
        waiting.start()
        tell()
        waiting.join(20)
        assert said == [True]
    assert office.clerk.news(after(0))  # nobody has taken it
    with office.clerk:
        office.ledger.arrivals()
    assert not office.clerk.news(after(0))


# ---- the lock


def test_the_holder_takes_it_again(office: Office) -> None:
    with office.clerk, office.clerk:
        assert office.clerk.commit(1, *office.open(1, 0, 3)).tolist() == [STORED] * 3
        assert not office.clerk.unseat(8)


def test_nothing_is_committed_while_it_is_held(office: Office) -> None:
    with office.serving():
        with office.clerk:
            columns = office.open(1, 0, 1)
            told = office.desks[0].desk.commit(*columns, deadline_ns=after(0.05))
            assert told[0] == _core.DESK_TIMED_OUT
            assert office.index.count == 0
        assert Errand(office, columns).told() == [STORED]


def test_only_its_holder_gives_it_back(office: Office) -> None:
    with pytest.raises(RuntimeError, match="another thread"):
        office.clerk.__exit__()
    with office.clerk:
        caught = []

        def give_back() -> None:
            try:
                office.clerk.__exit__()
            except RuntimeError as error:
                caught.append(error)

        thread = threading.Thread(target=give_back)
        thread.start()
        thread.join()
        assert len(caught) == 1


def test_threads_take_turns(office: Office) -> None:
    inside, most = [0], [0]
    counts = [0] * 4

    def work(index: int) -> None:
        for _ in range(200):
            with office.clerk:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1
                counts[index] += 1

    with office.serving():
        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for first in range(50):
            assert Errand(office, office.open(1, first, 1)).told() == [STORED]
        for thread in threads:
            thread.join()
    assert most == [1]
    assert counts == [200] * 4

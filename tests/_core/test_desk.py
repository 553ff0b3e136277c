"""Commits over a desk: other processes commit, stop, die and scribble, and the index holds what
they were told."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from kvferry import _core
from kvferry.testing import Child, Parent
from tests._core.offices import (
    STORED,
    UNKNOWN,
    Columns,
    Desk,
    Office,
    after,
    columns_of,
)

Spawn = Callable[..., Child]

SECONDS = 10.0  # more than anything here takes


@pytest.fixture
def office() -> Iterator[Office]:
    office = Office(users=3)
    yield office
    office.close()


def commit(desk: _core.Desk, columns: Columns, seconds: float = SECONDS) -> tuple[int, list[int]]:
    outcome, answers = desk.commit(*columns, deadline_ns=after(seconds))
    return outcome, answers.tolist()


# ---- users in processes of their own


def be_user(parent: Parent, pid: int, numbers: list[int]) -> None:
    """Commit what is told, [first key, attempts, seconds], and tell what came of it."""
    desk = Desk.of(pid, numbers)
    for first, attempts, seconds in parent:
        columns = columns_of(first, np.array(attempts, np.uint64))
        parent.tell(commit(desk.desk, columns, seconds))
    desk.close()


def be_busy_user(parent: Parent, pid: int, numbers: list[int]) -> None:
    """Commit attempts that never were, from several threads, until killed."""
    desk = Desk.of(pid, numbers)

    def work() -> None:
        while True:
            _, answers = commit(desk.desk, columns_of(1, np.arange(1, 300, dtype=np.uint64)))
            assert set(answers) <= {UNKNOWN}

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    parent.tell("busy")
    threading.Event().wait()


def be_hostile(parent: Parent, pid: int, numbers: list[int]) -> None:
    """Garble desk and bell until killed."""
    desk = Desk.of(pid, numbers)
    random = np.random.default_rng(3)
    words, bell = desk.memory.view(np.uint32), desk.bell.view(np.uint32)
    states = np.flatnonzero(np.arange(len(words)) * 4 % 8384 == 128)  # of the trays
    for round_ in range(1 << 62):
        words[random.integers(0, len(words), 400)] = random.integers(0, 1 << 32, 400)
        words[states] = 2  # posted
        words[:2] = 0xFF
        bell[0] = random.integers(0, 1 << 32)
        if round_ == 100:
            parent.tell("at it")


def be_node(parent: Parent, stay: bool) -> None:
    """Serve one desk; without `stay`, never pay what is owed."""
    office = Office(entries=1 << 14 if stay else 0)
    columns = office.open(1, 5, 300)
    parent.tell([*office.desks[0].fds, columns[0].tolist()])
    if stay:
        with office.serving():
            for _ in parent:
                pass
    else:
        parent.tell(office.clerk.serve())
        for _ in parent:
            parent.tell([office.pay(user, tray) for user, tray in office.clerk.serve()])
    office.close()


def start(spawn: Spawn, office: Office, user: int, function: Callable[..., object]) -> Child:
    return spawn(function, os.getpid(), list(office.desks[user - 1].fds))


# ---- they commit


@pytest.mark.parametrize("rounds", [1, pytest.param(300, marks=pytest.mark.slow)])
def test_other_processes_commit(office: Office, spawn: Spawn, rounds: int) -> None:
    children = [start(spawn, office, user, be_user) for user in (1, 2)]
    first = 0
    with office.serving():
        for _ in range(rounds):
            for size in (1, 128, 129, 700):
                for user, child in enumerate(children, 1):
                    attempts = office.open(user, first + user * 1000, size)[0].tolist()
                    child.tell([first + user * 1000, attempts, SECONDS])
                for user, child in enumerate(children, 1):
                    assert child.hear() == [_core.DESK_DONE, [STORED] * size]
                    office.check_stored(first + user * 1000, size)
                first += 2000
            office.forget()


def test_threads_of_a_user_commit_at_once(office: Office) -> None:
    desk, size, each = office.desks[0].desk, 257, 6
    outcomes: list[tuple[int, list[int]]] = []

    def work(index: int) -> None:
        for round_ in range(each):
            columns = office.open(1, (index * each + round_) * size, size)
            outcomes.append(commit(desk, columns))

    with office.serving():
        threads = [threading.Thread(target=work, args=(index,)) for index in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outcomes == [(_core.DESK_DONE, [STORED] * size)] * 6 * each
    office.check_stored(0, 6 * each * size)


def test_all_columns_arrive(office: Office) -> None:
    columns = office.open(1, 10, 4)
    parents = np.roll(columns[1], 1, axis=0)
    parents[0] = columns[1][0]  # none
    attrs, expires = np.arange(4, dtype=np.uint64) + 70, np.arange(4, dtype=np.uint64) * 90
    with office.serving():
        outcome, answers = office.desks[0].desk.commit(*columns, attrs, parents, expires, after(9))
    assert (outcome, answers.tolist()) == (_core.DESK_DONE, [STORED] * 4)
    slots = office.index.find(columns[1])
    assert office.index.read(slots)["attrs"].tolist() == attrs.tolist()
    arrived = office.ledger.arrivals()[0]
    assert arrived["slot"].tolist() == slots.tolist()
    assert arrived["parent"].tolist() == [slots[0], *slots[:3]]
    assert arrived["expires"].tolist() == expires.tolist()


def test_nothing_to_commit(office: Office) -> None:
    assert commit(office.desks[0].desk, office.open(1, 0, 0)) == (_core.DESK_DONE, [])


def test_columns_of_different_lengths(office: Office) -> None:
    attempts, digests, lengths = office.open(1, 0, 3)
    with pytest.raises(ValueError, match="one length"):
        office.desks[0].desk.commit(attempts, digests[:2], lengths)
    with office.serving():
        assert commit(office.desks[0].desk, (attempts, digests, lengths))[0] == _core.DESK_DONE


@pytest.mark.parametrize("wrong", ["short", "crooked", "bell"])
def test_a_desk_that_cannot_be(office: Office, wrong: str) -> None:
    memory, bell = office.desks[0].memory, office.bell.ctypes.data
    address = memory.ctypes.data + (8 if wrong == "crooked" else 0)
    length = _core.desk_bytes() - (1 if wrong == "short" else 0)
    with pytest.raises(ValueError, match=r"begins|word"):
        _core.Desk(address, length, bell + (2 if wrong == "bell" else 0))
    if wrong != "bell":
        with pytest.raises(ValueError, match="begins"):
            office.clerk.seat(9, address, length)


# ---- somebody stops, dies, waits no longer


def test_nobody_answers(office: Office) -> None:
    desk = office.desks[0].desk
    columns = office.open(1, 0, 2000)
    assert commit(desk, columns, 0.02) == (_core.DESK_TIMED_OUT, [])
    assert office.clerk.serve(after(0)) == []
    assert office.absent(0, 2000)
    with office.serving():
        assert commit(desk, columns) == (_core.DESK_DONE, [STORED] * 2000)
    office.check_stored(0, 2000)


def test_who_waits_hears_that_nobody_will_answer(office: Office) -> None:
    asked: list[float] = []

    def gone() -> bool:
        asked.append(time.monotonic())
        return len(asked) == 3

    columns = office.open(1, 0, 300)
    outcome, answers = office.desks[0].desk.commit(*columns, gone=gone)
    assert (outcome, answers.tolist()) == (_core.DESK_TIMED_OUT, [])
    assert asked[2] - asked[0] >= 0.09
    with pytest.raises(ZeroDivisionError):
        office.desks[0].desk.commit(*columns, gone=lambda: bool(1 / 0))
    with office.serving():
        assert commit(office.desks[0].desk, columns) == (_core.DESK_DONE, [STORED] * 300)


def test_all_trays_are_taken(office: Office) -> None:
    desk = office.desks[0].desk
    columns = office.open(1, 0, _core.TRAYS * _core.TRAY_RECORDS)
    waiting = threading.Thread(target=commit, args=(desk, columns))
    waiting.start()
    posted = office.desks[0].memory
    while posted[0] != 0xFF:
        time.sleep(0.001)
    assert commit(desk, office.open(1, 5000, 1), 0.02) == (_core.DESK_BUSY, [])
    with office.serving():
        assert commit(desk, office.open(1, 6000, 1)) == (_core.DESK_DONE, [STORED])
        waiting.join()
    office.check_stored(0, 1024)
    assert office.absent(5000, 1)


def test_the_node_is_stopped(spawn: Spawn) -> None:
    node = spawn(be_node, True)
    desk_fd, bell_fd, attempts = node.hear()
    desk = Desk.of(node.pid, [desk_fd, bell_fd])
    node.stop()
    columns = columns_of(5, np.array(attempts, np.uint64))
    begun = time.monotonic()
    assert commit(desk.desk, columns, 0.05) == (_core.DESK_TIMED_OUT, [])
    assert 0.04 < time.monotonic() - begun < 1
    node.resume()
    assert commit(desk.desk, columns) == (_core.DESK_DONE, [STORED] * 300)
    node.kill()
    assert commit(desk.desk, columns, 0.05) == (_core.DESK_TIMED_OUT, [])
    desk.close()


def test_the_node_had_it(spawn: Spawn) -> None:
    node = spawn(be_node, False)
    desk_fd, bell_fd, attempts = node.hear()
    desk = Desk.of(node.pid, [desk_fd, bell_fd])
    columns = columns_of(5, np.array(attempts, np.uint64))
    assert commit(desk.desk, columns, 0.2) == (_core.DESK_UNKNOWN, [])
    assert node.hear() == [[1, tray] for tray in range(3)]
    states = desk.memory.view(np.uint32)[32::2096]
    assert states.tolist() == [5, 5, 5, 0, 0, 0, 0, 0]  # orphans
    assert node.ask("pay") == [True] * 3
    assert states.tolist() == [0] * 8
    desk.close()


@pytest.mark.parametrize("users", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_user_is_killed(office: Office, spawn: Spawn, users: int) -> None:
    with office.serving():
        for round_ in range(users):
            user = office.add()
            child = start(spawn, office, user, be_busy_user)
            assert child.hear() == "busy"
            answered = office.clerk.answered
            while office.clerk.answered < answered + 20:
                time.sleep(0.001)
            child.kill()
            assert office.clerk.unseat(user)
            columns = office.open(1, round_ * 100, 100)
            assert commit(office.desks[0].desk, columns) == (_core.DESK_DONE, [STORED] * 100)
    office.check_stored(0, users * 100)


@pytest.mark.parametrize("commits", [60, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_hostile_user_costs_others_little(office: Office, spawn: Spawn, commits: int) -> None:
    with office.serving():
        child = start(spawn, office, 2, be_hostile)
        assert child.hear() == "at it"
        took = []
        for first in range(commits):
            if first % 5000 == 4999:
                office.forget()
            columns = office.open(1, first, 1)
            begun = time.monotonic()
            assert commit(office.desks[0].desk, columns) == (_core.DESK_DONE, [STORED])
            took.append(time.monotonic() - begun)
            office.check_stored(first, 1)
        assert child.alive()
        assert np.quantile(took, 0.95) < 0.2
        child.kill()


def test_unseated_while_something_lies_there(office: Office) -> None:
    desk = office.desks[0].desk
    with office.serving():
        office.clerk.unseat(1)
        assert commit(desk, office.open(1, 0, 300), 0.05) == (_core.DESK_TIMED_OUT, [])
        memory = office.desks[0].memory
        office.clerk.seat(1, memory.ctypes.data, len(memory))
        assert commit(desk, office.open(1, 0, 300)) == (_core.DESK_DONE, [STORED] * 300)


def test_a_seat_comes_after_the_commit(office: Office) -> None:
    assert office.clerk.unseat(1)
    columns = office.open(1, 0, 7)
    memory, outcomes = office.desks[0].memory, []
    waiting = threading.Thread(
        target=lambda: outcomes.append(commit(office.desks[0].desk, columns))
    )
    with office.serving():
        waiting.start()
        while not memory[0]:
            time.sleep(0.001)
        office.clerk.seat(1, memory.ctypes.data, len(memory))
        waiting.join()
    assert outcomes == [(_core.DESK_DONE, [STORED] * 7)]


def test_a_waiting_user_is_interrupted(office: Office) -> None:
    memory, desk = office.desks[0].memory, office.desks[0].desk

    def interrupt() -> None:
        while memory[0] != 3:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        desk.commit(*office.open(1, 0, 200), deadline_ns=after(10))
    thread.join()
    assert memory.view(np.uint32)[32::2096].tolist() == [0] * 8

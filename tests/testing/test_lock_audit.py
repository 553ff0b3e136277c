"""The audit sees what modules of the package do, and only while it is on."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable

import pytest

from kvferry.engine.mailbox import Mailbox, Notification
from kvferry.rpc.calls import Waiter
from kvferry.submit.slots import SlotPool
from kvferry.testing import LockAudit
from kvferry.testing.locks import OrderedLock, Place

ORDER = {
    "SlotPool._lock": Place(1),
    "Mailbox._changed": Place(2, leaf=True),
    "Outer._lock": Place(0),
}


def audit(order: dict[str, Place] = ORDER) -> LockAudit:
    return LockAudit(order, {"Waiter._bell": "given back by who has the reply"})


def slots() -> SlotPool:
    return SlotPool(lambda: pytest.fail("no stream is wanted"))


def knock(sock: socket.socket) -> None:
    with sock:
        sock.connect_ex(("127.0.0.1", 1))


def test_locks_are_named_after_what_they_are_made_for() -> None:
    with audit().on() as seen:
        pool = slots()
        assert isinstance(pool._lock, OrderedLock)
        assert pool._lock.name == "SlotPool._lock"
        assert pool._lock.place == ORDER["SlotPool._lock"]
    assert isinstance(slots()._lock, type(threading.Lock()))
    assert seen.complaints == []


def test_a_lock_without_a_place_is_told() -> None:
    with audit({}).on() as seen:
        slots()
    assert "SlotPool._lock has no place in the order" in seen.complaints[0]


def test_an_inversion_between_two_classes_is_told_with_a_stack() -> None:
    with audit().on() as seen:
        pool, mailbox = slots(), Mailbox(1)
        with pool._lock:
            mailbox.put(Notification("", "", b""))
        assert seen.complaints == []
        with mailbox._changed:
            pool.stir()  # takes the lock when somebody waits
            pool.close()
    (complaint,) = seen.complaints
    assert (
        "SlotPool._lock (rank 1) taken under Mailbox._changed (rank 2), which is a l" in complaint
    )
    assert "in close" in complaint


def test_waiting_for_a_reply_is_waiting_and_no_lock() -> None:
    with audit().on() as seen:
        pool, waiter = slots(), Waiter(1, leads=False)
        waiter.wait(0.001)
        assert seen.complaints == []
        with pool._lock:
            waiter.wait(0.001)
    assert "wait under SlotPool._lock" in seen.complaints[0]


@pytest.mark.parametrize(
    ("module", "does", "word"),
    [
        ("rpc.poller", lambda see: see.time.sleep(0), "sleep"),
        ("rpc.poller", lambda see: see.select.epoll().poll(0), "poll"),
        ("rpc.connection", lambda see: see.select.poll().poll(0), "poll"),
        ("rpc.connection", lambda see: knock(see.socket.socket()), "connect_ex"),
        ("engine.regions", lambda see: see.open("/proc/self/maps").close(), "open"),
        ("runtime.memfile", lambda see: see.os.listdir("/proc/self/fd"), "listdir"),
        ("rpc.workers", lambda see: see.threading.Thread(target=int).start(), "start a thread"),
        ("engine.statistics", lambda see: see.threading.Event().wait(0), "wait"),
        ("engine.engine", lambda _: logging.getLogger("kvferry.engine").warning("hm"), "log"),
    ],
)
def test_what_reaches_out_under_a_lock_is_told(
    module: str, does: Callable[[object], object], word: str
) -> None:
    with audit().on() as seen:
        pool, see = slots(), sys.modules[f"kvferry.{module}"]
        does(see)
        assert seen.complaints == []
        with pool._lock:
            does(see)
    assert f"{word} under SlotPool._lock" in seen.complaints[0]


def test_nothing_is_left_of_it() -> None:
    import kvferry.rpc.poller as see

    with audit().on():
        assert see.time is not time
        assert "open" in vars(see)
    assert see.time is time
    assert see.threading is threading
    assert "open" not in vars(see)


class Finalised:
    def __del__(self) -> None:
        logging.getLogger("kvferry.test").warning("gone")


def test_a_finaliser_may_log_under_a_lock_and_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    with audit().on() as seen:
        pool = slots()
        with pool._lock:
            Finalised()
        assert "gone" in caplog.text
        assert seen.complaints == []
        with pool._lock:
            logging.getLogger("kvferry.test").warning("said")
    assert "log under SlotPool._lock" in seen.complaints[0]

"""Connecting, disconnecting, and doing so in the background."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable

import hixl
import pytest
from hixl.failures import Refused
from hixl.pool import ConnectPool, Kind, Task

from .conftest import MakeSide, Start, free_address

Status = hixl.AsyncConnectStatus
PATIENCE = 10.0


def test_connect_and_disconnect_know_what_is_connected(side: MakeSide, start: Start) -> None:
    ours, theirs = start(), side()
    assert ours.disconnect(theirs.name) == hixl.NOT_CONNECTED
    assert ours.connect(theirs.name) == hixl.SUCCESS
    assert ours.connect(theirs.name) == hixl.ALREADY_CONNECTED
    assert ours.connect(f"kv://{theirs.name}") == hixl.ALREADY_CONNECTED  # the same engine
    assert ours.disconnect(theirs.name) == hixl.SUCCESS
    assert ours.disconnect(theirs.name) == hixl.NOT_CONNECTED
    assert ours.connect(theirs.name) == hixl.SUCCESS


def test_whom_nobody_is(start: Start) -> None:
    ours = start()
    assert ours.connect(free_address()) == hixl.FAILED
    assert ours.connect("nonsense") == hixl.PARAM_INVALID
    ops = [hixl.TransferOpDesc(4096, 4096, 1)]
    assert ours.transfer_sync(free_address(), hixl.READ, ops) == hixl.NOT_CONNECTED
    assert ours.transfer_async(free_address(), hixl.READ, ops) == (hixl.NOT_CONNECTED, 0)


def test_whom_it_takes_too_long_to_reach(start: Start) -> None:
    ours = start()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        assert ours.connect(name, 150) == hixl.TIMEOUT
        assert 0.1 < time.monotonic() - began < 5
    assert ours.disconnect(name) == hixl.NOT_CONNECTED


def test_a_peer_that_ends_is_not_connected_until_it_is_disconnected(
    side: MakeSide, start: Start
) -> None:
    ours, theirs = start(), side()
    assert ours.connect(theirs.name) == hixl.SUCCESS
    channel = ours._session.connections.get(theirs.name)
    theirs.engine.finalize()
    await_true(lambda: channel.closed)
    notify = hixl.NotifyDesc("a", "b")
    assert ours.send_notify(theirs.name, notify) == hixl.NOT_CONNECTED
    assert ours.connect(theirs.name) == hixl.ALREADY_CONNECTED
    assert ours.disconnect(theirs.name) == hixl.SUCCESS


def test_in_the_background(side: MakeSide, start: Start) -> None:
    ours, theirs, nobody = start(), side(), free_address()
    assert ours.get_async_connect_status(theirs.name) == (hixl.SUCCESS, Status.NOT_CONNECT)
    assert ours.connect_async(theirs.name, 5000) == hixl.SUCCESS
    assert ours.connect_async(nobody, 5000) == hixl.SUCCESS
    status_becomes(ours, theirs.name, Status.CONNECTED)
    status_becomes(ours, nobody, Status.CONNECT_FAILED)
    both = {theirs.name: Status.CONNECTED, nobody: Status.CONNECT_FAILED}
    assert ours.get_all_async_connect_status() == (hixl.SUCCESS, both)
    assert ours.connect(theirs.name) == hixl.ALREADY_CONNECTED
    assert ours.connect_async(theirs.name) == hixl.SUCCESS  # connected is what was wanted
    status_becomes(ours, theirs.name, Status.CONNECTED)
    assert ours.disconnect_async(theirs.name) == hixl.SUCCESS
    status_becomes(ours, theirs.name, Status.NOT_CONNECT)
    assert theirs.name not in ours.get_all_async_connect_status()[1]
    assert ours.disconnect(theirs.name) == hixl.NOT_CONNECTED


def test_finalize_ends_what_connects_in_the_background(start: Start) -> None:
    config = json.dumps({"connect_pool": {"thread_num": 1, "task_queue_capacity": 2}})
    ours = start(options={hixl.OPTION_GLOBAL_RESOURCE_CONFIG: config})
    began, go_on = threading.Event(), threading.Event()

    def dial(remote: str, timeout: float) -> None:
        began.set()
        go_on.wait(PATIENCE)
        raise Refused(hixl.TIMEOUT, "not this time")

    ours._session.connections._dial = dial
    names = [free_address() for _ in range(4)]
    assert ours.connect_async(names[0]) == hixl.SUCCESS
    assert began.wait(PATIENCE)
    assert [ours.connect_async(name) for name in names[1:]] == [
        hixl.SUCCESS,
        hixl.SUCCESS,
        hixl.RESOURCE_EXHAUSTED,
    ]
    assert ours.get_async_connect_status(names[0])[1] is Status.CONNECTING
    assert ours.get_async_connect_status(names[1])[1] is Status.CONNECT_PENDING
    assert ours.get_async_connect_status(names[3])[1] is Status.NOT_CONNECT
    go_on.set()
    ours.finalize()


class Script:
    """Carries out the tasks of a pool, each when it is told how."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.over: list[str] = []
        self._changed = threading.Condition()
        self._outcomes: dict[str, bool] = {}

    def __call__(self, task: Task) -> bool:
        name = f"{task.kind.value} {task.remote} {task.timeout:g}"
        with self._changed:
            self.begun.append(name)
            assert self._changed.wait_for(lambda: name in self._outcomes, PATIENCE)
            self.over.append(name)
            return self._outcomes[name]

    def let(self, name: str, outcome: bool) -> None:
        with self._changed:
            self._outcomes[name] = outcome
            self._changed.notify_all()


def test_tasks_of_one_peer_come_one_after_the_other() -> None:
    script = Script()
    pool = ConnectPool(4, 10, script)
    tasks = [(Kind.CONNECT, "a"), (Kind.DISCONNECT, "a"), (Kind.CONNECT, "b"), (Kind.CONNECT, "a")]
    for number, (kind, remote) in enumerate(tasks, 1):
        pool.submit(Task(kind, remote, number))
    await_true(lambda: len(script.begun) == 2)
    assert sorted(script.begun) == ["connect a 1", "connect b 3"]
    assert pool.status("a") is Status.CONNECT_PENDING  # of the last task, not of the first
    script.let("connect a 1", True)
    await_true(lambda: "disconnect a 2" in script.begun)
    assert pool.status("a") is Status.CONNECT_PENDING
    script.let("disconnect a 2", True)
    await_true(lambda: pool.status("a") is Status.CONNECTING)
    script.let("connect a 4", False)
    await_true(lambda: pool.status("a") is Status.CONNECT_FAILED)
    assert script.over == ["connect a 1", "disconnect a 2", "connect a 4"]
    script.let("connect b 3", True)
    pool.close()
    assert pool.status("b") is Status.CONNECTED
    with pytest.raises(Refused):
        pool.submit(Task(Kind.CONNECT, "a", 1.0))


def test_many_threads_connect_once(side: MakeSide, start: Start) -> None:
    ours, theirs = start(), side()
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(ours.connect(theirs.name, 5000)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [hixl.SUCCESS] + [hixl.ALREADY_CONNECTED] * 7


def status_becomes(engine: hixl.Hixl, remote: str, wanted: hixl.AsyncConnectStatus) -> None:
    await_true(lambda: engine.get_async_connect_status(remote) == (hixl.SUCCESS, wanted))


def await_true(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)

"""Connecting and disconnecting in the background: threads, a bounded queue, a status a peer.

Tasks for one peer are carried out one after the other, in the order of their submission; those for
different peers at once. The status is that of the task submitted last.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum

from .codes import FAILED, RESOURCE_EXHAUSTED, AsyncConnectStatus
from .failures import Refused

__all__ = ["ConnectPool", "Kind", "Task"]

logger = logging.getLogger("hixl")


class Kind(Enum):
    CONNECT = "connect"
    DISCONNECT = "disconnect"


class Stage(Enum):
    WAITING = "waiting"
    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"


_STATUS = {
    (Kind.CONNECT, Stage.WAITING): AsyncConnectStatus.CONNECT_PENDING,
    (Kind.CONNECT, Stage.BEGUN): AsyncConnectStatus.CONNECTING,
    (Kind.CONNECT, Stage.DONE): AsyncConnectStatus.CONNECTED,
    (Kind.CONNECT, Stage.FAILED): AsyncConnectStatus.CONNECT_FAILED,
    (Kind.DISCONNECT, Stage.WAITING): AsyncConnectStatus.DISCONNECT_PENDING,
    (Kind.DISCONNECT, Stage.BEGUN): AsyncConnectStatus.DISCONNECTING,
    (Kind.DISCONNECT, Stage.DONE): AsyncConnectStatus.NOT_CONNECT,
    (Kind.DISCONNECT, Stage.FAILED): AsyncConnectStatus.NOT_CONNECT,
}


class Task:
    """One thing to do for one peer."""

    __slots__ = ("kind", "remote", "stage", "timeout")

    def __init__(self, kind: Kind, remote: str, timeout: float) -> None:
        self.kind = kind
        self.remote = remote
        self.timeout = timeout
        self.stage = Stage.WAITING

    @property
    def status(self) -> AsyncConnectStatus:
        return _STATUS[self.kind, self.stage]


class ConnectPool:
    """Thread-safe. Threads are started when there is something to do.

    threads, capacity  of threads, and of tasks that wait
    carry_out          does a task; True when it went well
    """

    def __init__(self, threads: int, capacity: int, carry_out: Callable[[Task], bool]) -> None:
        self._most = threads
        self._capacity = capacity
        self._carry_out = carry_out
        self._changed = threading.Condition()
        self._closed = False
        self._waiting: list[Task] = []
        self._busy: set[str] = set()  # peers
        self._latest: dict[str, Task] = {}
        self._threads: list[threading.Thread] = []

    def submit(self, task: Task) -> None:
        """Returns at once. Raises Refused when the queue is full."""
        with self._changed:
            if self._closed:
                raise Refused(FAILED, "finalize was called")
            if len(self._waiting) >= self._capacity:
                raise Refused(RESOURCE_EXHAUSTED, f"{self._capacity} tasks are waiting already")
            self._waiting.append(task)
            self._latest[task.remote] = task
            if len(self._threads) < self._most:
                self._start_thread()
            self._changed.notify()

    def status(self, remote: str) -> AsyncConnectStatus:
        return self.statuses().get(remote, AsyncConnectStatus.NOT_CONNECT)

    def statuses(self) -> dict[str, AsyncConnectStatus]:
        """Of all peers but those that were disconnected."""
        with self._changed:
            return {remote: task.status for remote, task in self._latest.items()}

    def close(self) -> None:
        """Forget what waits, and return when what has begun is over."""
        with self._changed:
            self._closed = True
            if self._waiting:
                logger.warning("%d connect tasks are forgotten", len(self._waiting))
            self._waiting.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        name = f"hixl-connect-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while task := self._next():
            well = False
            try:
                well = self._carry_out(task)
            finally:
                self._finish(task, well)

    def _next(self) -> Task | None:
        """The first task whose peer nobody is busy with; None when the pool is closed."""
        with self._changed:
            while not self._closed:
                for task in self._waiting:
                    if task.remote not in self._busy:
                        self._waiting.remove(task)
                        self._busy.add(task.remote)
                        task.stage = Stage.BEGUN
                        return task
                self._changed.wait()
        return None

    def _finish(self, task: Task, well: bool) -> None:
        with self._changed:
            task.stage = Stage.DONE if well else Stage.FAILED
            self._busy.discard(task.remote)
            last = self._latest.get(task.remote) is task
            if last and task.status is AsyncConnectStatus.NOT_CONNECT:
                del self._latest[task.remote]
            self._changed.notify_all()

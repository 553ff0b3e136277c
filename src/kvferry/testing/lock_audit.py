"""Watches every lock that the package makes: their order, and what is done under them.

While an audit is on, modules of the package see other `threading`, `select`, `os`, `time` and
`open` than everybody else:

    threading.Lock, RLock, Condition   an OrderedLock, named after the class and attribute that
                                       it is made for, with its place from the table
    whatever may block or reaches out  complains when the calling thread holds a lock that is not
    of the process                     made for that (Place.may)

Not seen: native locks, and what native code does while Python holds a lock.
"""

from __future__ import annotations

import builtins
import linecache
import logging
import os
import re
import select
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import FrameType, ModuleType
from typing import Any, Protocol

from .locks import Held, OrderedCondition, OrderedLock, Place

__all__ = ["LockAudit", "places"]

# Modules of the package that are not looked at: they are no part of an engine.
NOT_AUDITED = ("kvferry.testing", "kvferry.bench", "kvferry.cli", "kvferry.compat")

MADE_FOR = re.compile(r"self\.(\w+)\s*(?::[^=]+)?=\s*threading\.")

# May block, or goes to the network. `shutdown`, epoll_ctl and eventfd_write do neither.
SOCKET_CALLS = (
    *("accept", "connect", "connect_ex", "recv", "recv_into", "recvmsg", "recvmsg_into"),
    *("recvfrom", "send", "sendall", "sendmsg", "sendto"),
)
OS_CALLS = ("open", "read", "write", "listdir", "unlink", "replace", "rename")


class Row(Protocol):
    """A line of the table of locks."""

    @property
    def name(self) -> str: ...
    @property
    def leaf(self) -> bool: ...
    @property
    def may(self) -> Mapping[str, str]: ...


def places(order: Iterable[Row]) -> dict[str, Place]:
    """The place of every lock: later rows rank higher."""
    return {row.name: Place(rank, row.leaf, row.may) for rank, row in enumerate(order)}


class LockAudit:
    """What was done out of order, from `on` to its end.

    order       a lock's "Class.attribute" -> its place
    bells       of locks that one thread takes and another releases, to wake it or to pass work on:
                nobody holds them, but who waits for one waits
    complaints  a sentence and a stack each

    A signal handler must not raise meanwhile: Python cannot take such a lock in one step.
    """

    def __init__(self, order: Mapping[str, Place], bells: Mapping[str, str]) -> None:
        self._order = order
        self._bells = bells
        self._names: dict[tuple[object, int], str] = {}
        self._held = Held(self._complain)
        self.complaints: list[str] = []

    @contextmanager
    def on(self) -> Iterator[LockAudit]:
        with ExitStack() as undo:
            for name in SOCKET_CALLS:
                method = self._wrap(name, getattr(socket.socket, name))
                undo.callback(_put(socket.socket, name, method))
            undo.callback(_put(logging.Logger, "handle", self._wrap_log(logging.Logger.handle)))
            faces, opens = self._faces(), self._wrap("open", builtins.open)
            for module in _audited():
                for name, true, face in faces:
                    if getattr(module, name, None) is true:
                        setattr(module, name, face)
                        undo.callback(setattr, module, name, true)
                if "open" not in vars(module):
                    vars(module)["open"] = opens
                    undo.callback(vars(module).pop, "open")
            yield self

    # ---- what modules see instead ----

    def _faces(self) -> list[tuple[str, ModuleType, _Face]]:
        held = self._held

        class Thread(threading.Thread):
            def start(self) -> None:
                held.does("start a thread")
                super().start()

            def join(self, timeout: float | None = None) -> None:
                held.does("join")
                super().join(timeout)

        class Event(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                held.does("wait")
                return super().wait(timeout)

        locks = {
            "Lock": self._lock,
            "RLock": partial(self._lock, reentrant=True),
            "Condition": self._condition,
            "Thread": Thread,
            "Event": Event,
        }
        waits = {"poll": self._poll(select.poll), "epoll": self._poll(select.epoll)}
        files = {name: self._wrap(name, getattr(os, name)) for name in OS_CALLS}
        sleep = {"sleep": self._wrap("sleep", time.sleep)}
        look = {"getaddrinfo": self._wrap("getaddrinfo", socket.getaddrinfo)}
        return [
            (module.__name__, module, _Face(module, instead))
            for module, instead in (
                (threading, locks),
                (select, waits),
                (os, files),
                (time, sleep),
                (socket, look),
            )
        ]

    def _wrap(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        held = self._held

        @wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if held.locks:
                held.does(what)
            return call(*args, **kwargs)

        return watched

    def _wrap_log(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        """A finaliser may log under any lock: the collector calls it wherever it comes by."""
        watched = self._wrap("log", handle)

        @wraps(handle)
        def chosen(*args: Any, **kwargs: Any) -> Any:
            return (handle if _finalising() else watched)(*args, **kwargs)

        return chosen

    def _poll(self, make: Callable[..., Any]) -> Callable[..., _Waits]:
        return lambda *args: _Waits(make(*args), self._held)

    # ---- locks ----

    def _lock(self, reentrant: bool = False) -> OrderedLock | _Bell:
        name = self._made_for(sys._getframe(1))
        if name in self._bells:
            return _Bell(self._held)
        return self._ordered(name, reentrant)

    def _condition(self, lock: OrderedLock | None = None) -> OrderedCondition:
        name = self._made_for(sys._getframe(1))
        return OrderedCondition(lock or self._ordered(name, reentrant=True), self._held)

    def _ordered(self, name: str, reentrant: bool) -> OrderedLock:
        place = self._order.get(name)
        if place is None:
            self._complain(f"{name} has no place in the order")
            place = Place(len(self._order), leaf=True)
        return OrderedLock(name, place, self._held, reentrant)

    def _made_for(self, frame: FrameType) -> str:
        """Class and attribute that the line in `frame` makes a lock for."""
        where = frame.f_code, frame.f_lineno
        name = self._names.get(where)
        if name is None:
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            found = MADE_FOR.search(line)
            attribute = found[1] if found else f"line {frame.f_lineno}"
            owner = type(frame.f_locals["self"]).__name__ if "self" in frame.f_locals else "?"
            name = self._names[where] = f"{owner}.{attribute}"
        return name

    def _complain(self, what: str) -> None:
        stack = "".join(traceback.format_stack(sys._getframe(2), limit=8))
        self.complaints.append(f"{threading.current_thread().name}: {what}\n{stack}")


class _Face:
    """A module with some names of it replaced."""

    def __init__(self, module: ModuleType, instead: Mapping[str, Any]) -> None:
        self.__dict__.update(instead)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Waits:
    """A select.poll or select.epoll object."""

    def __init__(self, waits: Any, held: Held) -> None:
        self._waits = waits
        self._held = held

    def poll(self, *args: Any) -> Any:
        self._held.does("poll")
        return self._waits.poll(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._waits, name)


class _Bell:
    """A lock that is no lock."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._lock = threading.Lock()
        self.release = self._lock.release
        self.locked = self._lock.locked

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking and self._lock.locked():
            self._held.does("wait")
        return self._lock.acquire(blocking, timeout)


def _finalising() -> bool:
    """Is this thread in a __del__?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _put(owner: type, name: str, value: object) -> Callable[[], None]:
    """Set an attribute of a class; returns what puts it back as it was."""
    before = vars(owner).get(name)
    setattr(owner, name, value)
    return (
        partial(delattr, owner, name) if before is None else partial(setattr, owner, name, before)
    )


def _audited() -> list[ModuleType]:
    return [
        module
        for name, module in sys.modules.items()
        if name.startswith("kvferry.") and not name.startswith(NOT_AUDITED)
    ]

"""The process of a user in these tests: it carries out verbs, and stands still where it is told."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from kvferry import Error, config
from kvferry.engine import identity
from kvferry.store import Store
from kvferry.store.user import far
from kvferry.store.user.near import Mapped
from kvferry.store.user.stock import Extents
from kvferry.store.user.values import Values
from kvferry.testing import Child, LeakCheck, spawn
from kvferry.testing.process import Parent
from tests.store.faults.keeper import PATIENCE, Reached
from tests.store.faults.load import ALL, Load
from tests.store.faults.values import value, version_of

__all__ = ["BESIDE", "FAR", "MAPPED", "STEPS", "Actor", "act"]

# How a user reaches the node: through memory of one host; by tcp, all on one host; from another.
MAPPED, BESIDE, FAR = "mapped", "beside", "far"

MISSING = 0xA5  # bytes of a buffer that nothing was read to

# Of a put: it has an extent; half of the value is written; all of it is.
STEPS = ("reserved", "writing", "written")


class Actor:
    """A child that is a user. Its verbs are those of _Scene."""

    def __init__(self, node: Reached, way: str = MAPPED, **options: float) -> None:
        self.way = way
        self.child: Child = spawn(act)
        address = node.unix if way == MAPPED else node.tcp
        self.child.tell(["open", address, way, {**node.options, **options}])
        self._opening = True  # while others are started

    def opened(self) -> None:
        """Wait until it is a user."""
        if self._opening:
            self._opening = False
            self.hear()

    def ask(self, verb: str, *arguments: Any) -> Any:
        self.to_come(verb, *arguments)
        return self.hear()

    def hear(self) -> Any:
        """What the verb returned that is to come."""
        return self.child.hear(3 * PATIENCE)

    def __getattr__(self, verb: str) -> Any:
        return lambda *arguments: self.ask(verb, *arguments)

    def to_come(self, verb: str, *arguments: Any) -> None:
        """It will do that when it goes on."""
        self.opened()
        self.child.tell([verb, *arguments])

    def stopped(self) -> None:
        """Wait until it stands still by itself."""
        self.child._await(lambda: self.child._states() <= set("Tt"), "stop")

    def until_ends(self, *wanted: str) -> dict[str, int]:
        """Make calls until some have ended like each of these: how all have ended meanwhile."""
        ends: Counter[str] = Counter()
        deadline = time.monotonic() + PATIENCE
        while not all(any(end.startswith(each) for end in ends) for each in wanted):
            assert time.monotonic() < deadline, f"wanted {wanted} of {ends}"
            ends.update(self.ask("load_look"))
            time.sleep(0.02)
        return ends

    def stop(self) -> None:
        self.child.stop()

    def resume(self) -> None:
        self.child.resume()

    def kill(self) -> None:
        self.child.kill()

    def leave(self) -> None:
        """Close the store, and end; nothing may be left behind."""
        left = self.ask("close")
        assert left == [], f"a user left behind {left}"
        self.child.close()

    def __enter__(self) -> Actor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None and self.child.alive():
                self.leave()
        finally:
            self.child.close()


def act(parent: Parent) -> None:
    """Carries out what it is asked until the parent hangs up."""
    scene = _Scene()
    for verb, *arguments in parent:
        parent.tell(getattr(scene, verb)(*arguments))


def attempt(call: Callable[[], Any]) -> Any:
    """What it returns, or the error, and its cause."""
    try:
        return call()
    except Error as error:
        return f"{type(error).__name__}: {error.cause}"


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.002)


class _Scene:
    """The verbs. They return JSON values, and raise AssertionError for a wrong byte."""

    store: Store

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._ends: list[Any] = []
        self._reached, self._go = threading.Event(), threading.Event()
        self._braked: Callable[[], Any] | None = None
        self._views: dict[str, Any] = {}
        self._open_views = ExitStack()
        self._leases: list[Any] = []

    def open(self, address: str, way: str, options: dict[str, float]) -> None:
        value("", 0, 2 << 20)  # the tape is made before anything is counted
        self._leaks = LeakCheck()
        self._leaks.__enter__()
        if way == FAR:  # else they would meet again by a socket of this host
            identity._namespace = lambda kind: 1
        path = "auto" if way == MAPPED else "tcp/host"
        told: Any = options
        wanted = replace(config.from_environment(), **told)
        self.store = Store(address, options=wanted, path=path)
        assert isinstance(self.home, Mapped) == (way == MAPPED), self.home

    @property
    def home(self) -> Any:
        return self.store._own.home

    def close(self) -> list[str]:
        self.let_views()
        self._leases.clear()
        self.store.close()
        del self.store
        return self._leaks.left()

    # ---- calls ----

    def put(self, key: str, version: int, size: int) -> str:
        return str(attempt(lambda: self.store.put(key, value(key, version, size)).name))

    def get(self, key: str) -> Any:
        """Its version, None, or the error."""
        found = attempt(lambda: self.store.get(key))
        return version_of(key, found) if isinstance(found, bytes) else found

    def why(self, key: str) -> str:
        return str(attempt(lambda: self.store.why(key).cause.name))

    def remove(self, key: str) -> Any:
        return attempt(lambda: self.store.remove(key))

    def refill(self, name: str, times: float, size: int = 48 << 10) -> int:
        """Put, in all, so many times the bytes of the pool, and read every one of them until it is
        gone: how many there were."""
        capacity = self.store.stats()["usage"]["capacity"]
        keys = [f"{name}-{at}" for at in range(int(times * capacity / size) + 1)]
        for at in range(0, len(keys), 16):
            some = keys[at : at + 16]
            values = [value(key, 0, size) for key in some]
            answers = self.store.put_batch(some, values)
            for answer, key, each in zip(answers, some, values, strict=True):
                if answer.kind.value != "present":
                    self._insist(key, each)
            self.check(keys[max(at - 16, 0) : at + 16])
        self.check(keys)
        return len(keys)

    def _insist(self, key: str, each: bytes) -> None:
        """Put it; others have the bytes for a moment."""
        until(lambda: attempt(lambda: self.store.put(key, each)) in (0, 1), f"{key}: no room")

    def check(self, keys: list[str]) -> int:
        """What is there of these is right: how many."""
        values = dict(zip(keys, self.store.get_batch(keys), strict=True))
        found = {key: each for key, each in values.items() if each is not None}
        for key, each in found.items():
            version_of(key, each)
        return len(found)

    def load(
        self, name: str, keys: int, longest: int, threads: int = 2, kinds: list[str] = ALL
    ) -> None:
        """Begin to make calls of all kinds."""
        self._load = Load(self.store, name, keys, longest, threads, kinds)

    def load_look(self) -> dict[str, int]:
        return self._load.look()

    def load_end(self) -> dict[str, float]:
        load = self.__dict__.pop("_load")
        return dict(load.end())

    # ---- a call that stands still ----

    def brake(self, step: str) -> None:
        """The next put stands still at this step until it is let go."""
        home = self.home
        write, commit = home.write, home.commit

        def wait(here: str) -> None:
            if here == step:
                self._reached.set()
                assert self._go.wait(PATIENCE * 2), f"nobody lets it go on from {step}"

        def braked_write(extents: Extents, values: Values, timeout: Any) -> None:
            wait("reserved")
            halves = (values.lengths // 2).astype(np.uint64)
            ends = list(zip(values.sources, halves.tolist(), strict=True))
            first = [memoryview(each)[:end] for each, end in ends]
            last = [memoryview(each)[end:] for each, end in ends]
            write(extents, values._replace(sources=first, lengths=halves), timeout)
            wait("writing")
            rest = extents._replace(offsets=extents.offsets + halves, rooms=extents.rooms - halves)
            left = values._replace(sources=last, lengths=values.lengths - halves)
            write(rest, left, timeout)

        def braked_commit(*arguments: Any) -> Any:
            wait("written")
            return commit(*arguments)

        self._reached.clear()
        self._go.clear()
        home.write, home.commit = braked_write, braked_commit
        self._braked = weakref.ref(home)

    def reach(self) -> None:
        assert self._reached.wait(PATIENCE), f"it is not reached: {self._ends}"

    def go(self) -> None:
        self._go.set()

    def posted(self) -> None:
        """Wait until something lies on the desk that nobody has taken."""
        home = self.home
        desk = ctypes.c_uint64.from_address(home._kept[3].address + home.joined.lines)
        until(lambda: desk.value != 0, "nothing lies on the desk")

    def begin(self, verb: str, *arguments: Any) -> None:
        """Do it in another thread."""
        assert self._thread is None

        def run() -> None:
            try:
                self._ends.append(getattr(self, verb)(*arguments))
            except BaseException as error:
                self._ends.append(f"{error!r}")

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def end(self) -> Any:
        """What that returned."""
        assert self._thread is not None
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "a call does not return"
        self._thread = None
        home = self._braked and self._braked()
        if home is not None:
            home.__dict__.pop("write", None)
            home.__dict__.pop("commit", None)
        del home
        gc.collect()  # nothing here keeps a home that is over
        return self._ends.pop()

    # ---- a read that strikes itself ----

    def read_until(self, key: str, size: int, sign: str) -> Any:
        """Read a large value into memory again and again, and send this process the signal when
        only a part of it has come: its version, or what that read said instead."""
        out = np.zeros(size, np.uint8)
        for _ in range(100):
            out[:] = MISSING
            read, struck = self._read_struck(key, out, getattr(signal, sign))
            version = version_of(key, out) if read == size else read
            if struck:
                return version
        raise AssertionError("every read was over before it could be struck")

    def _read_struck(self, key: str, out: Any, sign: int) -> Any:
        begun, over, struck = threading.Event(), threading.Event(), []
        first, last = out[: 1 << 12], out[-(1 << 12) :]

        def strike() -> None:
            begun.set()
            while not over.is_set():
                if (first != MISSING).any() and (last == MISSING).all():
                    struck.append(True)
                    os.kill(os.getpid(), sign)
                    return

        watcher = threading.Thread(target=strike)
        watcher.start()
        begun.wait()
        try:
            return attempt(lambda: self.store.get_into(key, out)), struck
        finally:
            over.set()
            watcher.join()

    # ---- what is held ----

    def hold_view(self, key: str) -> int:
        view = self._open_views.enter_context(self.store.view(key))
        assert view is not None, key
        self._views[key] = view
        return version_of(key, view)

    def check_views(self) -> int:
        return len([version_of(key, view) for key, view in self._views.items()])

    def hold(self, held: bool, chunks: int = 0) -> None:
        """What goes by tcp stands still before its next bytes, or after so many chunks."""
        self.store.engine._tcp._wires.engines.hold(held, chunks)

    def held(self) -> None:
        engines = self.store.engine._tcp._wires.engines
        until(lambda: engines.held > 0, "nothing is under way")

    def let_views(self) -> None:
        self._views.clear()
        self._open_views.close()

    def lease(self, keys: list[str], seconds: float) -> int:
        held = self.store.lease(keys, seconds)
        self._leases.append(held)
        return int(held.held.sum())

    def keep(self, keys: list[str], seconds: float) -> int:
        """How many are there, and stay."""
        return int(self.store.exists_batch(keys, lease=seconds).sum())

    def shorten_leases(self, seconds: float) -> None:
        """Of its reads."""
        far.LEASE = int(seconds * 1e9)

    def release(self) -> None:
        for each in self._leases:
            each.release()
        self._leases.clear()

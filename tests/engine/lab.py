"""Two honest engines with a proxy between them, a bystander beside them, and what must hold."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np

import kvferry as kf
from kvferry.testing.faults.mutations import LOADED
from kvferry.testing.faults.proxy import Proxy
from kvferry.testing.faults.units import Case, Way
from tests.engine.window import window

KIB = 1 << 10
SIZE = 128 * KIB
USED = 64 * KIB  # of the region: what the client writes
GUARD = 4096
BOUND = 5.0  # seconds in which everything must be over
QUICK, PATIENT = 0.25, 20.0
SETTLING = 0.3  # seconds: a socket is closed a moment after its connection is off the books

# What costs time alone.
HARMLESS = {"delay"}


class Bystander:
    """Reads a region of the server all the time, over a channel of its own, and looks at it."""

    def __init__(self, server: kf.Engine, truth: bytes) -> None:
        self.rounds = 0
        self.trouble: BaseException | None = None
        self._engine = kf.Engine(options=server.options)
        self._peer = self._engine.connect(server.addresses[0], path="tcp/host", timeout=PATIENT)
        self._truth = truth
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def another_round(self) -> None:
        """Returns when a round that begins now is over."""
        end = self.rounds + 2
        wait_for(lambda: self.rounds >= end or self.trouble is not None)
        assert self.trouble is None, repr(self.trouble)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._engine.close()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.001):
                self._round()
        except BaseException as error:
            self.trouble = error

    def _round(self) -> None:
        into = np.zeros(len(self._truth), np.uint8)
        self._peer.read(kf.Batch.of(into, self._peer.regions["rom"]), timeout=PATIENT)
        assert into.tobytes() == self._truth
        assert self._peer.call("echo", b"by", timeout=PATIENT) == b"by"
        self.rounds += 1


class Lab:
    """`route` is what the proxy stands before: "tcp", "unix" (a socket file) or "door"."""

    def __init__(self, route: str, folder: Path) -> None:
        self._undo = ExitStack()
        self.route = route
        token = kf.config.from_environment().token_file
        options = kf.Options(token_file=token, quiet_grace=1.0, call_timeout=QUICK, beat=0.01)
        file = folder / "engine"
        self.server = self._undo.enter_context(
            kf.Engine("127.0.0.1:0", f"unix://{file}", options=options)
        )
        self.client = self._undo.enter_context(kf.Engine(options=options))
        self.truth = os.urandom(SIZE)
        self._make_memory()
        self.bystander = Bystander(self.server, self.truth)  # which must not pass the proxy
        self._undo.callback(self.bystander.close)
        self.proxy = self._undo.enter_context(self._make_proxy(file, folder / "proxy"))
        assert self.attempt(None) == "done"
        self._await_silence()
        self._descriptors = fewest_descriptors(SETTLING)

    def close(self) -> None:
        self._undo.close()

    def run(self, case: Case) -> str:
        """One case, and all that must hold after it; what became of the client's work."""
        outcome = self.attempt(case)
        struck, self.proxy.case = self.proxy.case is None, None
        assert outcome == "done" or case.mutation not in HARMLESS, outcome
        self.check_memory(case)
        self.bystander.another_round()
        self._await_silence()
        wait_for(
            lambda: descriptors() == self._descriptors,
            lambda: f"{descriptors()} descriptors, {self._descriptors} before",
        )
        assert not Path(LOADED).exists()
        return outcome if struck else "untouched"

    def attempt(self, case: Case | None) -> str:
        """The client's work: "done", or the cause of the kvferry error that it ended with."""
        self.fill()
        harmless = case is None or case.mutation in HARMLESS
        timeout = PATIENT if harmless else QUICK
        start = time.monotonic()
        self.proxy.case = case
        try:
            self._work(timeout, exact=harmless or case is None or case.purpose == "control")
            outcome = "done"
        except kf.Error as error:
            outcome = error.cause
        assert time.monotonic() - start < BOUND + (PATIENT if harmless else 0), "it took too long"
        return outcome

    def _work(self, timeout: float, *, exact: bool) -> None:
        peer = self.client.connect(self._address, path=self._path, timeout=timeout)
        try:
            self._transfer(peer, timeout, exact)
            said = peer.call("echo", b"x" * 100, timeout=timeout)
            assert type(said) is bytes
            peer.notify("news", b"n", timeout=timeout)
            self.server.notifications()
        finally:
            peer.close()

    def _transfer(self, peer: kf.Channel, timeout: float, exact: bool) -> None:
        far = peer.regions["kv"]
        ours, back = guarded(7), guarded(9)
        inside = slice(GUARD, GUARD + USED)
        ours[inside] = np.frombuffer(os.urandom(USED), np.uint8)
        sent = ours.copy()
        try:
            peer.write(kf.Batch.of(ours[inside], far, length=USED), timeout=timeout)
            peer.read(kf.Batch.of(back[inside], far, length=USED), timeout=timeout)
            if exact:
                assert (back[inside] == ours[inside]).all(), "other bytes and no error"
        finally:
            assert (ours == sent).all()
            assert (back[:GUARD] == 9).all()
            assert (back[-GUARD:] == 9).all()

    # ---- what it consists of ----

    def _make_memory(self) -> None:
        self.private = np.full(SIZE, 5, np.uint8)  # of the server's process, and no region
        rom = self.server.allocate("rom", SIZE, readonly=True)
        window(rom)[:] = np.frombuffer(self.truth, np.uint8)
        self.server.allocate("kv", SIZE)
        self.server.serve("echo", bytes)

    def fill(self) -> None:
        window(self.server.regions["kv"])[:] = 3

    def _make_proxy(self, file: Path, at: Path) -> Proxy:
        self._address = self.server.addresses[0]
        self._path = "fabric/host"
        if self.route == "door":
            proxy = Proxy.at_door(self.server._front._door)
            self.server._front._door = proxy.name
            return proxy
        if self.route == "unix":
            proxy = Proxy.to(f"unix://{file}", f"unix://{at}")
        else:
            proxy = Proxy.to(self._address)
            self._path = "tcp/host"
            # As on another host: else they would meet again at the door.
            self.client.facts = msgspec.structs.replace(self.client.facts, network=1)
        self._address = proxy.address
        return proxy

    # ---- what must hold ----

    def check_memory(self, case: Case) -> None:
        assert (self.private == 5).all()
        assert self.server.regions["rom"].load() == self.truth
        # A request that was altered on the way names what the client might have named.
        altered = case.purpose == "data" and case.way is Way.TO_SERVER and case.unit >= 2
        if not altered:
            assert (window(self.server.regions["kv"])[USED:] == 3).all()

    def _await_silence(self) -> None:
        """The bystander's are the only connections left."""
        wait_for(
            lambda: self._connections() == (1, 1, 0),
            lambda: f"connections, wires and proxied ones left: {self._connections()}",
        )

    def _connections(self) -> tuple[int, int, int]:
        server = self.server
        return len(server._front._inbounds), server._tcp._server.wires, self.proxy.connections


def guarded(value: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.full(USED + 2 * GUARD, value, np.uint8)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def fewest_descriptors(seconds: float) -> int:
    end = time.monotonic() + seconds
    fewest = descriptors()
    while time.monotonic() < end:
        fewest = min(fewest, descriptors())
        time.sleep(0.001)
    return fewest


def wait_for(there: Callable[[], bool], what: Callable[[], str] = lambda: "waiting") -> None:
    deadline = time.monotonic() + BOUND
    while not there():
        assert time.monotonic() < deadline, what()
        time.sleep(0.001)

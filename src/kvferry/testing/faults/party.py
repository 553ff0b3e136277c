"""What every process of the scenario has: an engine, memory that is counted, calls under way."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import kvferry as kf
from kvferry import config
from kvferry.testing.faults.census import BLOCK, NEW, SIZE, Bytes, blocks, census, pattern
from kvferry.testing.leaks import LeakCheck

__all__ = ["CALM", "PATIENCE", "POLL", "Party", "attempt", "until"]

# Seconds for what must happen, on however busy a machine.
PATIENCE = 15.0
POLL = 0.002

CALM = 256 << 10  # bytes of the bystander's region


def attempt(call: Callable[[], object]) -> str:
    """ "done", or the name of the error; what was not quiet is quiet when this returns."""
    try:
        call()
    except kf.NotQuiet as error:
        return "NotQuiet" if error.wait_quiet(PATIENCE) else "never quiet"
    except kf.Error as error:
        return type(error).__name__
    return "done"


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for what another thread or process is about to do."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(POLL)


class Party:
    """One process of the scenario. Verbs return JSON values and block at most PATIENCE or so."""

    engine: kf.Engine
    peer: kf.Channel
    region: kf.Region
    memory: Bytes | None = None
    _settled: Bytes | None = None  # what it was at the last census

    def open(self, quick: dict[str, Any], address: str = "127.0.0.1:0") -> str:
        """A new engine, told apart from what else the process holds; its address."""
        self._leaks = LeakCheck()
        self._leaks.__enter__()
        self.engine = kf.Engine(address, options=replace(config.from_environment(), **quick))
        self.engine.allocate("calm", CALM)
        self._threads: list[threading.Thread] = []
        self._ends: list[str] = []
        self._flying: list[kf.Transfer] = []
        return self.engine.addresses[0]

    def close(self) -> list[str]:
        """End the engine; what it left behind."""
        self.hold(False)
        self.engine.close()
        assert self.unchanged(), "a byte landed after the end"
        self.memory = self._settled = None
        self._flying.clear()
        for name in ("engine", "peer", "batch", "region"):
            self.__dict__.pop(name, None)
        return self._leaks.left()

    # ---- memory ----

    def allocate(self, seed: int) -> None:
        """The region that takes part, in its `seed`-th life."""
        self.region = self.engine.allocate("kv", SIZE)
        self.memory = np.frombuffer(self.region, np.uint8)
        self.fill(seed)

    def drop(self) -> None:
        """Give the region back, if there is one, with the channel over which it was used."""
        if "peer" in self.__dict__:
            attempt(self.peer.close)
        if self.memory is not None:
            self.memory = self._settled = None
            self.engine.unregister(self.region)

    def fill(self, seed: int) -> None:
        assert self.memory is not None
        self.memory[:] = pattern(seed)
        self._settled = None

    def landed(self) -> Sequence[bool]:
        """Have the first block of the batch and the last one come?"""
        assert self.memory is not None
        ends = blocks()[[0, -1]]
        found, new = (each.reshape(-1, BLOCK)[ends] for each in (self.memory, pattern(NEW)))
        return [bool(each) for each in (found == new).all(axis=1)]

    def census(self, old: int, new: int) -> Sequence[int]:
        """Count its bytes, at a moment after which none of them may change."""
        assert self.memory is not None
        self._settled = self.memory.copy()
        return census(self._settled, pattern(old), pattern(new))

    def unchanged(self) -> bool:
        """No byte since the last census?"""
        return self._settled is None or bool(np.all(self.memory == self._settled))

    def lonely(self, others: int) -> None:
        """Return when this engine has noticed that all but so many initiators are gone."""
        front = self.engine._front
        until(lambda: len(front._inbounds) <= others, "it does not see that its peer is gone")

    # ---- inside ----

    def hold(self, held: bool, passing: int = 0) -> None:
        for each in self._copies():
            each.hold(held, passing)

    def _copies(self) -> list[Any]:
        return [self.engine._copies, self.engine._tcp._wires.engines]

    def _start(self, call: Callable[[], object]) -> None:
        def run() -> None:
            try:
                self._ends.append(attempt(call))
            except BaseException:
                self._ends.append(traceback.format_exc())

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a call does not return"
        self._threads = []

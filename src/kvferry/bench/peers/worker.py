"""One process of a pair: owns a side, and the package that moves it. Ends with its input.

It runs in any Python that has the package, NumPy and msgspec, so it imports nothing of kvferry but
this folder and `verify`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from .. import verify
from ..verify import Verdict
from .answering import answer_of, make_side, take_output
from .messages import (
    Answer,
    Attend,
    Check,
    Fill,
    Go,
    Load,
    Meet,
    Poison,
    Ran,
    Request,
    Rest,
    Start,
    Started,
)
from .package import Package
from .packages import PACKAGES

__all__ = ["main"]

# A request that takes longer ends the process, wherever it hangs: nobody else could.
REQUEST_SECONDS = 300


class Worker:
    """pause  seconds between two calls of attend while there is nothing to do; None: no calls"""

    def __init__(self, make: type[Package]) -> None:
        self._make = make
        self.pause: float | None = None

    def start(self, request: Start) -> Started:
        self._words = make_side(request.size)
        address = self._words.ctypes.data
        self.package = self._make(address, request.size)
        return Started(self.package.card(), address)

    def meet(self, request: Meet) -> None:
        self.package.meet(request.target.card, request.target.address)

    def attend(self, request: Attend) -> None:
        self.pause = self.package.pause

    def rest(self, request: Rest) -> None:
        self.pause = None

    def load(self, request: Load) -> None:
        self._calls = [self.package.call(request.op, blocks) for blocks in request.calls]

    def go(self, request: Go) -> Ran:
        return _timed(self._calls)

    def fill(self, request: Fill) -> None:
        verify.fill(self._words, request.seed)

    def poison(self, request: Poison) -> None:
        verify.poison(self._words)

    def check(self, request: Check) -> Verdict:
        return verify.check(self._words, request.landings, request.seed)


_CARRY_OUT: dict[type, Callable[[Worker, Any], object]] = {
    Start: Worker.start,
    Meet: Worker.meet,
    Attend: Worker.attend,
    Rest: Worker.rest,
    Load: Worker.load,
    Go: Worker.go,
    Fill: Worker.fill,
    Poison: Worker.poison,
    Check: Worker.check,
}


def main(name: str) -> None:
    """Answer until nobody asks any more."""
    answers = take_output()
    worker = Worker(PACKAGES[name])
    while line := _next_line(worker):
        signal.alarm(REQUEST_SECONDS)
        answers.write(msgspec.json.encode(_answer(worker, line)) + b"\n")
        answers.flush()
        signal.alarm(0)
    # Native threads of the package may still run: no destructors.
    os._exit(0)


def _next_line(worker: Worker) -> bytes:
    # Nothing is buffered: the next request is made when the last one was answered.
    while not select.select([sys.stdin.buffer], [], [], worker.pause)[0]:
        worker.package.attend()
    return sys.stdin.buffer.readline()


def _answer(worker: Worker, line: bytes) -> Answer:
    request: Any = msgspec.json.decode(line, type=Request)
    return answer_of(lambda: _CARRY_OUT[type(request)](worker, request))


def _timed(calls: list[Callable[[], None]]) -> Ran:
    taken = []
    clock = time.monotonic_ns
    cpu = time.process_time()
    first = clock()
    for call in calls:
        begin = clock()
        call()
        taken.append(clock() - begin)
    return Ran(first, clock(), taken, time.process_time() - cpu)

"""A process that uses a store: owns a side, and makes calls when told to. Ends with its input.

For a store that is not ours it runs in any Python that has the package, NumPy and msgspec, so it
imports nothing of kvferry but what says so.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec
import numpy as np

from .. import verify
from ..peers.answering import answer_of, make_side, take_output
from ..peers.messages import Answer, Check, Fill, Go, Poison
from ..verify import Verdict
from .messages import Clear, Drop, Load, Open, Opened, Ran, Request
from .subject import Key, Subject

__all__ = ["main"]

# A request that takes longer ends the process, wherever it hangs: nobody else could.
REQUEST_SECONDS = 300
REMOVED_AT_ONCE = 4096

# Who can be used, by name: imported when asked for.
SUBJECTS = {
    "kvferry": ("kvferry.bench.store.ours", "Ours"),
    "mooncake": ("kvferry.bench.store.mooncake", "Mooncake"),
    "compat": ("kvferry.bench.store.mooncake", "Compat"),
    "redis": ("kvferry.bench.store.redis", "Redis"),
}


class Worker:
    def __init__(self, name: str) -> None:
        self._name = name
        self.subject: Subject | None = None

    def open(self, request: Open) -> Opened:
        module, kind = SUBJECTS[self._name]
        make: Callable[[Open, verify.Words], Subject] = getattr(import_module(module), kind)
        self._words = make_side(request.size)
        self.subject = make(request, self._words)
        return self.subject.opened

    def fill(self, request: Fill) -> None:
        verify.fill(self._words, request.seed)

    def poison(self, request: Poison) -> None:
        verify.poison(self._words)

    def check(self, request: Check) -> Verdict:
        return verify.check(self._words, request.landings, request.seed)

    def load(self, request: Load) -> None:
        assert self.subject is not None
        keys, batch = _keys(request.block, request.numbers), request.batch
        slots = np.frombuffer(request.slots, np.int64).tolist()
        self._op = request.op
        self._calls = [
            self.subject.call(
                request.op, keys[at : at + batch], slots[at : at + batch], request.block
            )
            for at in range(0, len(keys), batch)
        ]

    def go(self, request: Go) -> Ran:
        assert self.subject is not None
        taken, results = [], []
        clock = time.monotonic_ns
        cpu = time.process_time()
        first = clock()
        for call in self._calls:
            begin = clock()
            result = call()
            taken.append(clock() - begin)
            results.append(result)
        end, cpu = clock(), time.process_time() - cpu
        good = sum(self.subject.good(self._op, each) for each in results)
        return Ran(first, end, taken, cpu, good)

    def drop(self, request: Drop) -> None:
        self._remove(_keys(request.block, request.numbers))

    def clear(self, request: Clear) -> None:
        self._remove(_keys(request.block, np.arange(request.count, dtype=np.int64).tobytes()))

    def _remove(self, keys: list[Key]) -> None:
        assert self.subject is not None
        for at in range(0, len(keys), REMOVED_AT_ONCE):
            self.subject.remove(keys[at : at + REMOVED_AT_ONCE])


_CARRY_OUT: dict[type, Callable[[Worker, Any], object]] = {
    Open: Worker.open,
    Fill: Worker.fill,
    Poison: Worker.poison,
    Check: Worker.check,
    Load: Worker.load,
    Go: Worker.go,
    Drop: Worker.drop,
    Clear: Worker.clear,
}


def main(name: str) -> None:
    """Answer until nobody asks any more."""
    answers = take_output()
    worker = Worker(name)
    for line in sys.stdin.buffer:
        signal.alarm(REQUEST_SECONDS)
        answers.write(msgspec.json.encode(_answer(worker, line)) + b"\n")
        answers.flush()
        signal.alarm(0)
    if worker.subject is not None:
        worker.subject.close()
    # Native threads of a package may still run: no destructors.
    os._exit(0)


def _answer(worker: Worker, line: bytes) -> Answer:
    request: Any = msgspec.json.decode(line, type=Request)
    return answer_of(lambda: _CARRY_OUT[type(request)](worker, request))


def _keys(block: int, numbers: bytes) -> list[Key]:
    return [f"{block}:{number}" for number in np.frombuffer(numbers, np.int64).tolist()]

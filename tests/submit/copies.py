"""What the tests of submitters share: copies, and running them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvferry import _core
from kvferry.runtime import HostControlStream
from kvferry.submit import LOGICAL_MOST, CoprocessorSubmitter, Slot

PATIENCE = 20_000_000_000

Bytes = npt.NDArray[np.uint8]


class Copy(NamedTuple):
    """Blocks of one array, in reverse into another: no two can be joined."""

    source: Bytes
    target: Bytes
    d: _core.Descriptors

    @classmethod
    def of(cls, count: int, block: int) -> Copy:
        source = np.random.default_rng(count).integers(1, 256, (count, block), np.uint8)
        target = np.zeros_like(source)
        at = np.arange(count, dtype=np.uint64) * np.uint64(block)
        rows = np.empty((count, 3), np.uint64)
        rows[:, 0] = np.uint64(source.ctypes.data) + at
        rows[:, 1] = np.uint64(target.ctypes.data) + at[::-1]
        rows[:, 2] = block
        return cls(source, target, _core.Descriptors(rows))

    @property
    def arrived(self) -> bool:
        return np.array_equal(self.target, self.source[::-1])


def make(engines: _core.CopyEngines, most: int = LOGICAL_MOST) -> CoprocessorSubmitter:
    return CoprocessorSubmitter(lambda: HostControlStream(engines, most))


def finish(submitter: CoprocessorSubmitter, lent: Slot | None, done: _core.Done) -> int:
    assert done.wait(_core.now() + PATIENCE)
    if lent is not None:
        submitter.release(lent, done.outcome != _core.OK)
    return done.outcome


def run(
    submitter: CoprocessorSubmitter,
    engines: _core.CopyEngines,
    d: _core.Descriptors,
    op: int = _core.WRITE,
) -> _core.Done:
    done = _core.Done(engines)
    assert finish(submitter, submitter.submit(op, d, done, None, True), done) == _core.OK
    return done


def until(holds: Callable[[], bool]) -> None:
    deadline = _core.now() + PATIENCE
    while not holds():
        assert _core.now() < deadline
        time.sleep(0.0005)

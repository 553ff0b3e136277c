"""What submitting to streams of ACL costs above ACL's calls. No card is needed, none is measured.

ours   check the batch | lend streams | calls: a copy a descriptor, a flag a stream | wait
bare                                  | the same calls, which return at once        |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np

from .. import _core
from ..batch import Batch
from ..memory import RegionTable, resolve
from ..runtime.cann.stream import CannStream
from ..submit import HostSubmitter, SlotPool
from .machine import read_machine
from .result import describe

__all__ = ["AclCosts", "AclRow", "measure_acl"]

BLOCK = 4 << 10
COUNTS = (1, 4, 128, 1920)
STREAMS = (1, 4)
TURNS = 9
TRANSFERS = 20  # a turn
BARE = 4096  # descriptors that the bare loop submits meanwhile
LINE = 8  # words between two flags

HERE, THERE = 1 << 40, 1 << 41  # nothing is there: nothing looks


class AclRow(msgspec.Struct, frozen=True):
    """Medians, in nanoseconds, of so many transfers of `descriptors` blocks of 4 KiB.

    by             inline: the caller makes ACL's calls; host: copy engines do, and a caller who
                   waits takes what they have not begun; engines: copy engines alone
    transfer_ns    until it is over
    bare_ns        ACL's calls of it in a bare loop, in turns with it
    overhead_ns    the difference; descriptor_ns for each descriptor
    """

    by: str
    descriptors: int
    streams: int
    repeats: int
    transfer_ns: float
    bare_ns: float
    overhead_ns: float
    descriptor_ns: float


class AclCosts(msgspec.Struct, frozen=True):
    """A whole run."""

    machine: dict[str, Any]
    rows: list[AclRow]


class _Region(NamedTuple):
    name: str
    span: _core.Span


class _Rig(NamedTuple):
    """What a channel over streams of ACL has, as far as a transfer meets it."""

    engines: _core.CopyEngines
    slots: SlotPool
    calls: _core.AclCalls
    local: RegionTable[_Region]
    remote: RegionTable[_Region]

    def submitter(self, streams: int) -> HostSubmitter:
        return HostSubmitter(self.engines, self.slots, streams=streams, inline_below=0)

    def batch(self, count: int) -> Batch:
        """Neither side is in order: no two descriptors make one copy."""
        ids = np.arange(count)
        return Batch.blocks(self.local["here"], ids, self.remote["there"], ids[::-1], BLOCK)


@contextmanager
def _rig() -> Iterator[_Rig]:
    calls, engines = _core.acl_instant(), _core.CopyEngines(max(STREAMS))
    words = np.zeros((max(STREAMS) + 1, LINE), np.uint64)
    words[0, 0] = 1
    one, *flags = (words.ctypes.data + words.strides[0] * row for row in range(len(words)))
    aliases, free = _core.SpanTable(), iter(flags)
    length = max(COUNTS) * BLOCK
    aliases.add(_core.Span(HERE, length, HERE + length, True))

    def open_stream() -> CannStream:
        flag = next(free)  # one more address that differs is as good a context as any
        mover = _core.AclMover(calls, flag, flag, aliases, flag, one)
        return CannStream(engines, mover, words, lambda: None)

    rig = _Rig(
        engines, SlotPool(open_stream, limit=len(flags)), calls, RegionTable(), RegionTable()
    )
    rig.local.add(_Region("here", _core.Span(HERE, length, HERE, True)))
    rig.remote.add(_Region("there", _core.Span(THERE, length, THERE, True)))
    try:
        yield rig
    finally:
        engines.stop()
        rig.slots.close()


def _submit(rig: _Rig, submitter: HostSubmitter, batch: Batch, by: str) -> None:
    """One transfer, from the check to what it gives back."""
    d = resolve(_core.WRITE, batch, rig.local.spans, rig.remote.spans, "nobody")
    done = _core.Done(rig.engines)
    _WAYS[by](submitter, d, done)
    d.release()
    assert done.outcome == _core.OK, "calls that do nothing do not fail"


def _inline(submitter: HostSubmitter, d: _core.Descriptors, done: _core.Done) -> None:
    slot = submitter.await_slot(1, done, None) or []
    for stream in slot:
        assert isinstance(stream, CannStream)
        stream.copy_inline(_core.WRITE, d, done, None)
    submitter.release(slot, False)


def _host(submitter: HostSubmitter, d: _core.Descriptors, done: _core.Done) -> None:
    slot = submitter.submit(_core.WRITE, d, done, None, patient=True) or []
    if not done.quiet:
        submitter.help(slot, done, None)
    done.wait()
    submitter.release(slot, False)


def _engines(submitter: HostSubmitter, d: _core.Descriptors, done: _core.Done) -> None:
    slot = submitter.submit(_core.WRITE, d, done, None, patient=True) or []
    submitter.wake()
    done.wait()
    submitter.release(slot, False)


_WAYS: dict[str, Callable[[HostSubmitter, _core.Descriptors, _core.Done], None]] = {
    "inline": _inline,
    "host": _host,
    "engines": _engines,
}


def measure_acl(seconds: float) -> AclCosts:
    """Blocks for about `seconds` a row."""
    with _rig() as rig:
        rows = [
            _measure(rig, by, count, streams, seconds)
            for by in _WAYS
            for streams in (STREAMS if by != "inline" else STREAMS[:1])
            for count in COUNTS
        ]
    return AclCosts(describe(read_machine(), {}), rows)


def _measure(rig: _Rig, by: str, count: int, streams: int, seconds: float) -> AclRow:
    submitter, batch = rig.submitter(streams), rig.batch(count)
    flags, times = min(streams, count), max(1, BARE // count)
    ours: list[int] = []
    bare: list[float] = []
    _submit(rig, submitter, batch, by)  # not counted: it makes streams, and starts engines
    end = time.monotonic() + seconds
    while len(bare) < TURNS or time.monotonic() < end:
        bare.append(_core.acl_submit(rig.calls, batch.descriptors, flags, times) / times)
        for _ in range(TRANSFERS):
            begin = time.perf_counter_ns()
            _submit(rig, submitter, batch, by)
            ours.append(time.perf_counter_ns() - begin)
    transfer, alone = median(ours), median(bare)
    return AclRow(
        by=by,
        descriptors=count,
        streams=streams,
        repeats=len(ours),
        transfer_ns=round(transfer, 1),
        bare_ns=round(alone, 1),
        overhead_ns=round(transfer - alone, 1),
        descriptor_ns=round((transfer - alone) / count, 1),
    )

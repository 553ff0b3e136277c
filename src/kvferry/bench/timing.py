"""Timed passes, in one thread or in several that begin together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ..engine import Report

__all__ = ["Pass", "deal", "join", "timed", "wait_until"]

T = TypeVar("T")


class Pass(msgspec.Struct, frozen=True):
    """One timed pass, or several that ran at the same time.

    begin, end  nanoseconds of the monotonic clock, which all processes of a host share
    bytes       moved
    calls       nanoseconds of each
    cpu         seconds of processor time of the initiators' processes

    The rest sums up what the reports of the calls say.
    """

    begin: int
    end: int
    bytes: int
    calls: list[int] = []
    cpu: float = 0.0
    staged: int = 0
    inline: int = 0
    stream: int = 0
    coprocessor: int = 0

    @property
    def submissions(self) -> dict[str, int]:
        """By who put the copies in motion."""
        return {"inline": self.inline, "stream": self.stream, "coprocessor": self.coprocessor}

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9

    @property
    def gbps(self) -> float:
        return self.bytes / self.seconds / 1e9


def timed(call: Callable[[T], Report], batches: Sequence[T]) -> Pass:
    """One call after the other; each waits until its bytes are visible."""
    calls, reports = [], []
    clock = time.monotonic_ns
    first = clock()
    for batch in batches:
        begin = clock()
        report = call(batch)
        calls.append(clock() - begin)
        reports.append(report)
    return Pass(
        begin=first,
        end=clock(),
        bytes=sum(report.bytes for report in reports),
        calls=calls,
        staged=sum(report.staged_bytes for report in reports),
        inline=sum(report.inline_copies for report in reports),
        stream=sum(report.stream_submissions for report in reports),
        coprocessor=sum(report.coprocessor_batches for report in reports),
    )


def join(passes: Sequence[Pass]) -> Pass:
    """From the earliest begin to the latest end."""
    return Pass(
        begin=min(each.begin for each in passes),
        end=max(each.end for each in passes),
        bytes=sum(each.bytes for each in passes),
        calls=[taken for each in passes for taken in each.calls],
        cpu=sum(each.cpu for each in passes),
        staged=sum(each.staged for each in passes),
        inline=sum(each.inline for each in passes),
        stream=sum(each.stream for each in passes),
        coprocessor=sum(each.coprocessor for each in passes),
    )


def deal(things: Sequence[T], hands: int) -> list[Sequence[T]]:
    """Contiguous shares, as equal as can be."""
    return [
        things[len(things) * hand // hands : len(things) * (hand + 1) // hands]
        for hand in range(hands)
    ]


def wait_until(moment: int) -> None:
    """Block until the monotonic clock says `moment`, in nanoseconds."""
    left = moment - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)

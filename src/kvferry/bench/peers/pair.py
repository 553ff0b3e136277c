"""Two processes between which a package moves blocks: passes of it, timed or verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..launch import Target
from ..timing import Pass
from ..verify import Landing, Verdict
from ..walk import Move
from .asked import Asked
from .messages import Attend, Blocks, Check, Fill, Go, Load, Meet, Poison, Ran, Rest, Start, Started
from .process import Process, start_process

__all__ = ["Calls", "Pair", "open_pair"]

Calls = Sequence[Sequence[Move]]  # of a pass: what each call moves


class Pair:
    """asked       the package
    target_cpu  seconds of processor time the target spent on the passes so far
    """

    def __init__(self, asked: Asked, initiator: Process, target: Process) -> None:
        self.asked = asked
        self.target_cpu = 0.0
        self._initiator = initiator
        self._target = target
        self._seed = 0

    @property
    def pids(self) -> tuple[int, int]:
        """The initiator's and the target's."""
        return self._initiator.pid, self._target.pid

    def run(self, op: str, calls: Calls) -> Pass:
        """One timed pass. Blocks; raises PeerError when the package or a process fails."""
        load = Load(op, [[_blocks(move) for move in call] for call in calls])
        self._initiator.ask(load, type(None))
        self._target.ask(Attend(), type(None))
        clock = Target(self._target.pid, "")
        cpu = clock.cpu
        ran = self._initiator.ask(Go(), Ran)
        self.target_cpu += clock.cpu - cpu
        self._target.ask(Rest(), type(None))
        moved = sum(move.bytes for call in calls for move in call)
        return Pass(ran.begin, ran.end, moved, ran.calls, ran.cpu)

    def verify(self, op: str, calls: Calls) -> Verdict:
        """Poison the destination, move one pass, compare every byte where it arrived."""
        ends = (self._initiator, self._target)
        source, destination = ends if op == "write" else reversed(ends)
        self._seed += 1
        source.ask(Fill(self._seed), type(None))
        destination.ask(Poison(), type(None))
        self.run(op, calls)
        return destination.ask(Check(_landings(op, calls), self._seed), Verdict)


@contextmanager
def open_pair(asked: Asked, size: int) -> Iterator[Pair]:
    """Start both processes, with `size` bytes each. Both are gone after the block.

    Raises UsageError where the package is not installed, PeerError when it does not start.
    """
    with start_process(asked, "target") as target, start_process(asked, "initiator") as initiator:
        for process in (target, initiator):
            process.say(Start(size))
        met = target.hear(Started)
        initiator.hear(Started)
        initiator.ask(Meet(met), type(None))
        yield Pair(asked, initiator, target)


def _blocks(move: Move) -> Blocks:
    return Blocks(move.base, move.block, move.total, move.local.tobytes(), move.remote.tobytes())


def _landings(op: str, calls: Calls) -> list[Landing]:
    """Where the blocks of all calls belong, one entry for each part of the layout."""
    return [_landing(op, part) for part in zip(*calls, strict=True)]


def _landing(op: str, moves: Sequence[Move]) -> Landing:
    local = b"".join(move.local.tobytes() for move in moves)
    remote = b"".join(move.remote.tobytes() for move in moves)
    to, source = (remote, local) if op == "write" else (local, remote)
    return Landing(moves[0].base, moves[0].block, moves[0].total, to, source)

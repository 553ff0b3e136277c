"""All processes of a run: initiators, one of them this process, and targets; and passes of all
initiators together.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import msgspec

from ..errors import PeerError
from .callers import Callers
from .cases import Case
from .initiator import carry_out
from .launch import Process, Target, start_process, start_target
from .orders import (
    Answer,
    Check,
    Connect,
    Go,
    Load,
    Order,
    Prepare,
    Prepared,
    Start,
    What,
    decode,
    encode,
)
from .session import Session, open_engine, resident
from .shares import Share, extents
from .target import REGION
from .timing import Pass, join
from .verify import Verdict
from .verify import join as join_verdicts

__all__ = ["Crew", "open_crew"]

T = TypeVar("T")

# A message is with its reader within that time, and the reader awake.
LEAD_NS = 2_000_000


class Crew:
    """near     this process as an initiator
    far      the other ones
    targets  each once

    What is asked is asked of all initiators at the same time.
    """

    def __init__(self, near: Callers, far: Sequence[Process], targets: Sequence[Target]) -> None:
        self.near = near
        self.targets = targets
        self._far = far

    @property
    def session(self) -> Session:
        """The first of this process."""
        return self.near.sessions[0]

    @property
    def lanes(self) -> int:
        """Channels over which bytes move at the same time."""
        return len(self.near.sessions) + len(self._far)

    def connect(self, case: Case) -> None:
        """Raises PathRefused where a pair has not got the path."""
        self._ask(Connect(case), type(None))

    def prepare(self, case: Case) -> Prepared:
        """Make ready for passes of `case`."""
        found = self._ask(Prepare(case), Prepared)
        threads = sum(each.threads for each in found)
        return msgspec.structs.replace(found[0], threads=threads)

    def go(self, what: What) -> Pass:
        """One pass of all initiators, who begin at the same moment."""
        self._ask(Load(what), type(None))
        if not self._far:
            return self.near.go(None)
        return join(self._ask(Go(time.monotonic_ns() + LEAD_NS), Pass))

    def check(self) -> Verdict:
        """Of the last pass, which was one to be checked."""
        return join_verdicts(self._ask(Check(), Verdict))

    def target_cpu(self) -> float:
        """Seconds of processor time that all targets have used so far."""
        return sum(target.cpu for target in self.targets)

    def memory(self) -> dict[str, int]:
        """Resident bytes of all processes, without the memory they share."""
        return {
            "initiator": resident("self") + sum(resident(each.pid) for each in self._far),
            "target": sum(resident(each.pid) for each in self.targets),
        }

    def _ask(self, order: Order, kind: type[T]) -> list[T]:
        for process in self._far:
            process.say(encode(order))
        mine = carry_out(self.near, order)
        answers = [_hear(process) for process in self._far]
        return [mine, *(msgspec.json.decode(answer.value, type=kind) for answer in answers)]


@contextmanager
def open_crew(shares: Sequence[Share]) -> Iterator[Crew]:
    """Start the processes and give both sides their memory. All of it is gone after the block."""
    token = secrets.token_hex().encode()
    sizes = [share.size for share in shares]
    mine = extents([share.initiator for share in shares], sizes)
    theirs = extents([share.target for share in shares], sizes)
    with ExitStack() as stack:
        targets = [stack.enter_context(start_target(size, token)) for size in theirs]
        starts = {
            share.initiator: _start(targets[share.target], token, mine[share.initiator], share)
            for share in shares
            if share.initiator
        }
        far = [stack.enter_context(_start_initiator(start)) for start in starts.values()]
        for process in far:
            _hear(process)
        engine = stack.enter_context(open_engine(token))
        region = engine.allocate(REGION, mine[0])
        near = [
            Session(engine, region, targets[share.target], share)
            for share in shares
            if share.initiator == 0
        ]
        yield Crew(stack.enter_context(Callers(near)), far, targets)


def _start(target: Target, token: bytes, size: int, share: Share) -> Start:
    return Start(target.address, target.pid, token, size, share)


@contextmanager
def _start_initiator(start: Start) -> Iterator[Process]:
    with start_process("kvferry.bench.initiator", "initiator") as process:
        process.say(encode(start))
        yield process


def _hear(process: Process) -> Answer:
    answer = decode(process.hear(), Answer)
    if answer.error is not None:
        raise PeerError(f"an initiator process: {answer.error}", cause="initiator")
    return answer

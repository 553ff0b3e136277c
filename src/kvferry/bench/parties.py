"""Who used the processor meanwhile."""

from __future__ import annotations

import time
from typing import NamedTuple

from .comparison import Cpu
from .session import Session

__all__ = ["Clocks", "read_clocks"]


class Clocks(NamedTuple):
    """Seconds of processor time used so far.

    caller     this thread
    engines    copy engines of this process, unfolding included
    unfolding  of batches, by them
    initiator  this process, in all threads
    target     the target's process
    """

    caller: float = 0.0
    engines: float = 0.0
    unfolding: float = 0.0
    initiator: float = 0.0
    target: float = 0.0

    def since(self, before: Clocks) -> Clocks:
        return Clocks(*(now - then for now, then in zip(self, before, strict=True)))

    def plus(self, other: Clocks) -> Clocks:
        return Clocks(*(one + two for one, two in zip(self, other, strict=True)))

    def per_gigabyte(self, size: int) -> Cpu:
        """`size` bytes were moved meanwhile."""

        def share(seconds: float) -> float:
            return round(max(0.0, seconds) / size * 1e9, 4)

        return Cpu(
            caller=share(self.caller),
            engines=share(self.engines - self.unfolding),
            coprocessor=share(self.unfolding),
            target=share(self.target),
            other=share(self.initiator - self.caller - self.engines),
        )


def read_clocks(session: Session) -> Clocks:
    """From the thread that submits."""
    copies = session.engine.copy_engines
    return Clocks(
        caller=time.thread_time(),
        engines=copies.cpu_ns / 1e9,
        unfolding=copies.unfold_ns / 1e9,
        initiator=time.process_time(),
        target=session.target.cpu,
    )

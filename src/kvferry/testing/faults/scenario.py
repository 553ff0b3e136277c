"""The one scenario whose parameter is the fault: its steps, and what may come of each.

    A  initiator  ---- channel under test ---->  B  target
         ^                                         ^
         '---- C  bystander, to the survivor ------'

A fault strikes when a step was reached. The survivor then makes the next call (`NEXT`), which may
end as `judge` says and no other way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

__all__ = [
    "NEXT",
    "PATHS",
    "Case",
    "Fault",
    "Side",
    "Step",
    "covering",
    "every",
    "judge",
]

PATHS = (
    "fabric/inline",
    "fabric/host",
    "fabric/coprocessor",
    "cma/inline",
    "cma/host",
    "cma/coprocessor",
    "tcp/host",
    "tcp/host/bounce",
)


class Step(Enum):
    """How far the two have come when the fault strikes.

    LISTENING  both listen; nobody has connected
    CONNECTED  there is a channel; the region is not known over it
    ATTACHED   the region is known
    SUBMITTED  a transfer is in flight and no byte of it has moved
    LANDING    some of its bytes have landed, and more are to come
    NOTIFIED   it is done, and the target has read the notification sent after it
    CLOSING    another transfer is held in flight, and the initiator has begun to close
    """

    LISTENING = "listening"
    CONNECTED = "connected"
    ATTACHED = "attached"
    SUBMITTED = "submitted"
    LANDING = "landing"
    NOTIFIED = "notified"
    CLOSING = "closing"


class Side(Enum):
    """Whom the fault strikes."""

    INITIATOR = "initiator"
    TARGET = "target"


class Fault(Enum):
    """What strikes. KILL: SIGKILL. STOP: SIGSTOP, and SIGCONT once the survivor has seen it."""

    KILL = "kill"
    STOP = "stop"


class Case(NamedTuple):
    """One run of the scenario; `op` is what the transfer does, "read" or "write"."""

    fault: Fault
    step: Step
    side: Side
    path: str
    op: str

    def __str__(self) -> str:
        words = (self.fault.value, self.side.value, self.step.value, self.op, self.path)
        return " ".join(words)


# ---- what may happen ----

# What the initiator calls next when it survives a fault after this step.
NEXT: dict[Step, str] = {
    Step.LISTENING: "connect",
    Step.CONNECTED: "attach",
    Step.ATTACHED: "transfer",
    Step.SUBMITTED: "finish",
    Step.LANDING: "finish",
    Step.NOTIFIED: "notify",
    Step.CLOSING: "finish",
}

DONE = frozenset({"done"})
GONE = frozenset({"PeerError"})
SILENT = frozenset({"Timeout"})
# Over a link that needs the peer's threads, its silence is no answer to an abort, either.
RESTLESS = frozenset({"Timeout", "NotQuiet", "PeerError"})
CLOSED = frozenset({"ClosedError", "NotQuiet"})


def judge(case: Case) -> frozenset[str]:
    """How the initiator's next call may end: "done", or the names of errors."""
    if case.side is Side.INITIATOR:
        return (
            CLOSED if case.step is Step.CLOSING else DONE
        )  # stopped, it goes on as if nothing was
    if case.fault is Fault.KILL:
        return GONE | CLOSED if case.step is Step.CLOSING else GONE
    if case.step is Step.CLOSING:
        return CLOSED
    if NEXT[case.step] not in ("transfer", "finish"):
        return SILENT
    return RESTLESS if case.path.startswith("tcp") else DONE


# ---- which cases ----


def every(fault: Fault) -> Iterator[Case]:
    """The full product."""
    for path in PATHS:
        for step in Step:
            for side in Side:
                for op in ("read", "write"):
                    yield Case(fault, step, side, path, op)


def covering(fault: Fault) -> Sequence[Case]:
    """A few in which every path, every step, every side and both directions occur."""
    steps, sides, ops = list(Step), list(Side), ("read", "write")
    shift = list(Fault).index(fault)
    return [
        Case(fault, steps[3 * n % len(steps)], sides[n % 2], path, ops[n // 2 % 2])
        for n, path in enumerate(PATHS, shift)
    ]

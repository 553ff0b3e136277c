"""One request on its way through an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from ...paged import Request
from .messages import Account
from .push import Push

__all__ = ["Sequence", "State"]


class State(Enum):
    """WAITING   it has no blocks
    ARRIVING  its blocks are being written by another worker
    RUNNING   tokens of it are computed, a step at a time
    DONE      it has no blocks any more
    """

    WAITING = auto()
    ARRIVING = auto()
    RUNNING = auto()
    DONE = auto()


MOVES = {
    (State.WAITING, "begin"): State.RUNNING,
    (State.WAITING, "await"): State.ARRIVING,
    (State.WAITING, "end"): State.DONE,
    (State.ARRIVING, "arrived"): State.RUNNING,
    (State.ARRIVING, "alone"): State.RUNNING,
    (State.RUNNING, "preempt"): State.WAITING,
    (State.RUNNING, "end"): State.DONE,
}


@dataclass(eq=False)
class Sequence:
    """most     tokens to generate
    stops    tokens that end it, and are not among them
    helped   another worker may compute its prompt
    push     where the KV of its prompt goes, which is all that is wanted of it then
    swapped  so many tokens of it are in the store, since others needed its blocks
    """

    request: Request
    most: int
    stops: frozenset[int]
    helped: bool = False
    push: Push | None = None
    swapped: int = 0
    given: int = 0
    state: State = State.WAITING
    account: Account = field(default_factory=Account)

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def left(self) -> int:
        """Tokens that have no KV yet."""
        return len(self.request) - self.request.computed

    def move(self, what: str) -> None:
        self.state = MOVES[self.state, what]

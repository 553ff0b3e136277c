"""Which worker does what: decisions alone, without processes.

Each request goes to the worker that decodes. What that one wants computed goes to the one that
prefills, as long as it lives; where it fails, decoding goes on alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...errors import PeerError, UsageError
from .messages import (
    Account,
    Alone,
    Failed,
    Finished,
    Given,
    Hop,
    Order,
    Plain,
    Prefill,
    Pushed,
    Ready,
    Said,
    Serve,
    Troubled,
    Unpushed,
    Wanted,
)

__all__ = ["DECODE", "PREFILL", "Ask", "Router", "Turn"]

PREFILL, DECODE = "prefill", "decode"


class Ask(NamedTuple):
    """A prompt, and how many tokens may follow, up to one of those that stop."""

    name: str
    tokens: list[int]
    most: int
    stops: frozenset[int] = frozenset()


@dataclass
class Turn:
    """What became of an Ask. Points in time are seconds of the monotonic clock.

    given     tokens
    times     when each of them came
    account   of the worker that decoded; prefilled: of the one that prefilled, if it did
    since, hops   handing over: when it computed first, and each layer's way
    troubles  what failed on the way, and was made good
    answered  all tokens are given; done: what became of handing over is known, too
    """

    ask: Ask
    begin: float
    given: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    account: Account = field(default_factory=Account)
    prefilled: Account | None = None
    since: float = 0.0
    hops: list[Hop] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    answered: bool = False
    done: bool = False

    @property
    def first(self) -> float:
        """Seconds to the first token."""
        return self.times[0] - self.begin


class Router:
    """post  carries an order to the worker of this name
    gone  workers that ended
    troubles  what workers did without
    """

    def __init__(self, post: Callable[[str, Order], None]) -> None:
        self.turns: dict[str, Turn] = {}
        self.addresses: dict[str, str] = {}
        self._post = post
        self._prefilling: set[str] = set()
        self._plain: dict[str, set[str]] = {PREFILL: set(), DECODE: set()}
        self.gone: set[str] = set()
        self.troubles: list[str] = []

    def ask(self, ask: Ask, now: float) -> Turn:
        """Raises UsageError (name) for the name of one that is not done, PeerError when the worker
        that decodes is gone."""
        turn = self._begin(ask, now)
        helped = PREFILL not in self.gone
        self._post(DECODE, Serve(ask.name, ask.tokens, ask.most, sorted(ask.stops), helped))
        return turn

    def plain(self, worker: str, ask: Ask, now: float) -> Turn:
        """Without blocks, store and peer. The one that decodes does it when this worker is gone.
        Raises as `ask`."""
        turn = self._begin(ask, now)
        self._begin_plain(DECODE if worker in self.gone else worker, ask)
        return turn

    def heard(self, worker: str, said: Said, now: float) -> None:
        """Raises PeerError for a worker that cannot begin, or a request that is not served."""
        _HEARD[type(said)](self, worker, said, now)

    def ended(self, worker: str) -> None:
        """Raises PeerError when nothing can go on without it."""
        self.gone.add(worker)
        if worker == DECODE or worker not in self.addresses:
            raise PeerError(f"the {worker} worker ended", cause="worker")
        for name in sorted(self._prefilling):
            self._go_on_alone(name, "the prefill worker ended", gone=True)
        for name in sorted(self._plain[worker]):
            self._begin_again(self.turns[name])

    def _begin(self, ask: Ask, now: float) -> Turn:
        if DECODE in self.gone:
            raise PeerError("the decode worker ended", cause="worker")
        other = self.turns.get(ask.name)
        if other is not None and not other.done:
            raise UsageError(f"another request {ask.name!r} is not done", cause="name")
        turn = self.turns[ask.name] = Turn(ask, now)
        return turn

    def _ready(self, worker: str, said: Ready, now: float) -> None:
        self.addresses[worker] = said.address

    def _wanted(self, worker: str, said: Wanted, now: float) -> None:
        ask = self.turns[said.name].ask
        self._prefilling.add(said.name)
        if PREFILL in self.gone:
            self._go_on_alone(said.name, "there is no prefill worker", gone=True)
            return
        to = self.addresses[DECODE]
        self._post(PREFILL, Prefill(said.name, ask.tokens, said.start, said.blocks, to))

    def _pushed(self, worker: str, said: Pushed, now: float) -> None:
        turn = self.turns[said.name]
        self._prefilling.discard(said.name)
        turn.prefilled, turn.since, turn.hops = said.account, said.since, said.hops
        turn.done = turn.answered

    def _unpushed(self, worker: str, said: Unpushed, now: float) -> None:
        self._go_on_alone(said.name, said.why, gone=False)

    def _given(self, worker: str, said: Given, now: float) -> None:
        turn = self.turns[said.name]
        turn.given.append(said.token)
        turn.times.append(now)

    def _finished(self, worker: str, said: Finished, now: float) -> None:
        turn = self.turns[said.name]
        turn.account = said.account or turn.account
        turn.answered = True
        turn.done = said.name not in self._prefilling
        self._plain[worker].discard(said.name)

    def _failed(self, worker: str, said: Failed, now: float) -> None:
        if said.name is not None:
            self.turns[said.name].done = True
            self._plain[worker].discard(said.name)
        elif worker == PREFILL and worker in self.addresses:
            return  # it ends, which is made good when it has
        raise PeerError(f"the {worker} worker: {said.why}", cause="worker")

    def _troubled(self, worker: str, said: Troubled, now: float) -> None:
        self.troubles.append(f"the {worker} worker: {said.why}")

    def _go_on_alone(self, name: str, why: str, gone: bool) -> None:
        turn = self.turns[name]
        self._prefilling.discard(name)
        turn.troubles.append(why)
        turn.done = turn.answered
        self._post(DECODE, Alone(name, gone))

    def _begin_again(self, turn: Turn) -> None:
        turn.given.clear()
        turn.times.clear()
        turn.troubles.append("the prefill worker ended")
        self._begin_plain(DECODE, turn.ask)

    def _begin_plain(self, worker: str, ask: Ask) -> None:
        self._plain[worker].add(ask.name)
        self._post(worker, Plain(ask.name, ask.tokens, ask.most, sorted(ask.stops)))


_HEARD: dict[type, Callable[[Router, str, Any, float], None]] = {
    Ready: Router._ready,
    Wanted: Router._wanted,
    Pushed: Router._pushed,
    Unpushed: Router._unpushed,
    Given: Router._given,
    Finished: Router._finished,
    Failed: Router._failed,
    Troubled: Router._troubled,
}

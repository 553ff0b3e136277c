"""What is played on a cluster: three scenes, and a fourth if there are more questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..serving import DECODE, PREFILL, Ask, Cluster, Turn
from .script import Script

__all__ = ["Audience", "Played", "play"]

WORKERS = (DECODE, PREFILL)


class Audience(Protocol):
    """Is told what happens, while it does."""

    def scene(self, title: str) -> None: ...

    def waiting(self, what: str) -> None:
        """For the first token."""

    def token(self, turn: Turn) -> None: ...

    def served(self, turn: Turn) -> None: ...


@dataclass(frozen=True)
class Played:
    """served  the first conversation, the second one, and those that followed
    plain   the same, computed plainly
    ways    bytes that the store says were read of it for the second one, by way
    """

    served: list[Turn]
    plain: list[Turn]
    ways: dict[str, int]


def play(
    cluster: Cluster, script: Script, audience: Audience, read: Callable[[], dict[str, int]]
) -> Played:
    """Blocks until all is done. read: bytes that were read of the store so far, by way.

    Raises PeerError when serving cannot go on.
    """
    first, second, *further = script.asks
    audience.scene(
        f"The first conversation: {len(first.tokens):,} tokens of prompt, computed by one worker "
        "and handed over to the other"
    )
    served = _serve(cluster, [first], audience)
    cluster.forget()
    before = read()
    audience.scene("The same text, another question; both workers have forgotten their own blocks")
    served += _serve(cluster, [second], audience)
    after = read()
    if further:
        cluster.forget()
        more = f"{len(further)} more questions at once" if len(further) > 1 else "One more question"
        audience.scene(more)
        served += _serve(cluster, further, audience)
    audience.scene("The same without kvferry: every token computed, for comparison")
    plain = _plain(cluster, script.asks, audience)
    ways = {way: count - before.get(way, 0) for way, count in after.items()}
    return Played(served, plain, {way: count for way, count in ways.items() if count > 0})


def _serve(cluster: Cluster, asks: list[Ask], audience: Audience) -> list[Turn]:
    audience.waiting("the first token")
    turns = cluster.serve(asks, audience.token)
    for turn in turns:
        audience.served(turn)
    return turns


def _plain(cluster: Cluster, asks: tuple[Ask, ...], audience: Audience) -> list[Turn]:
    """Until its first token the second conversation is computed alone, as it was served: that time
    is compared. The others go beside each other, then."""
    audience.waiting("tokens to compare with")
    first, second, *further = (ask._replace(name=f"plain {ask.name}") for ask in asks)
    measured = cluster.begin_plain(second, PREFILL)
    others: list[Turn] = []

    def go_on(_: Turn) -> None:
        if not others:
            others.append(cluster.begin_plain(first, DECODE))

    cluster.finish([measured], go_on)
    go_on(measured)  # an answer may be empty
    others += [cluster.begin_plain(ask, WORKERS[at % 2]) for at, ask in enumerate(further, 1)]
    before, *after = cluster.finish(others)
    turns = [before, measured, *after]
    for turn in turns:
        audience.served(turn)
    return turns

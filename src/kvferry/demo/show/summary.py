"""The figures of a run, out of its turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..serving import Hop, Turn
from .scenes import Played

__all__ = ["Difference", "Moved", "Summary", "difference", "overlapped", "summary_of"]


class Moved(msgspec.Struct, frozen=True):
    """ways  which it took"""

    bytes: int
    seconds: float
    ways: tuple[str, ...]

    @property
    def gbps(self) -> float:
        """GB/s of 10^9 bytes; 0 when nothing was moved."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0


class Difference(msgspec.Struct, frozen=True):
    """At this position of an answer one token was served and another one computed; None: it had
    ended there."""

    name: str
    position: int
    served: int | None
    plain: int | None


class Summary(msgspec.Struct, frozen=True):
    """first            seconds to the first token of the first conversation: handed over
    with_reuse       of the second one: loaded from the store
    without_reuse    of the second one computed plainly, by a worker with as many threads
    prompt_tokens    of the second conversation; full_blocks: blocks that these fill
    hit_tokens       of these came from the store, hit_blocks: in so many blocks
    handed_over      from the worker that prefills, of the first conversation
    before_the_end   share of these bytes that were there when the last layer's KV was computed
    loaded           from the store
    threads          of each worker
    tokens_per_second of an answer, after its first token; 0 when there are no others
    compared         tokens that are the same both ways, up to the first difference of an answer
    """

    first: float
    with_reuse: float
    without_reuse: float
    prompt_tokens: int
    full_blocks: int
    hit_tokens: int
    hit_blocks: int
    handed_over: Moved
    before_the_end: float
    loaded: Moved
    threads: int
    tokens_per_second: float
    compared: int
    differences: tuple[Difference, ...]
    troubles: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """How many times sooner; 0 when there is no first token."""
        return self.without_reuse / self.with_reuse if self.with_reuse else 0.0


def summary_of(
    played: Played, block_tokens: int, threads: int, troubles: Sequence[str] = ()
) -> Summary:
    """threads: of each worker; troubles: what else went wrong on the way. Raises nothing; an
    answer may be empty."""
    first, second, *_ = played.served
    hops, account = first.hops, second.account
    pairs = list(zip(played.served, played.plain, strict=True))
    found = [difference(served, plain) for served, plain in pairs]
    differences = tuple(each for each in found if each is not None)
    same = [
        len(served.given) if each is None else each.position
        for (served, _), each in zip(pairs, found, strict=True)
    ]
    paths = tuple(dict.fromkeys(hop.path for hop in hops))
    return Summary(
        first=_first(first),
        with_reuse=_first(second),
        without_reuse=_first(played.plain[1]),
        prompt_tokens=len(second.ask.tokens),
        full_blocks=len(second.ask.tokens) // block_tokens,
        hit_tokens=account.loaded,
        hit_blocks=account.loaded // block_tokens,
        handed_over=Moved(sum(hop.bytes for hop in hops), sum(hop.seconds for hop in hops), paths),
        before_the_end=overlapped(hops),
        loaded=Moved(account.loaded_bytes, account.loaded_seconds, tuple(played.ways)),
        threads=threads,
        tokens_per_second=_rate(played.served[:2]),
        compared=sum(same),
        differences=differences,
        troubles=(
            *troubles,
            *(f"{t.ask.name}: {why}" for t in _turns(played) for why in t.troubles),
        ),
    )


def difference(served: Turn, plain: Turn) -> Difference | None:
    """The first one, if there is any."""
    ours, theirs = served.given, plain.given
    for position in range(max(len(ours), len(theirs))):
        one = ours[position] if position < len(ours) else None
        other = theirs[position] if position < len(theirs) else None
        if one != other:
            return Difference(served.ask.name, position, one, other)
    return None


def overlapped(hops: Sequence[Hop]) -> float:
    """Share of the bytes that had arrived when the KV of the last layer was there to be sent:
    nobody waited for these. 0 for none."""
    total = sum(hop.bytes for hop in hops)
    end = max((hop.at for hop in hops), default=0.0)
    return sum(hop.bytes for hop in hops if hop.at + hop.seconds <= end) / total if total else 0.0


def _first(turn: Turn) -> float:
    """Seconds to the first token; 0 of an answer without any."""
    return turn.first if turn.times else 0.0


def _rate(turns: Sequence[Turn]) -> float:
    tokens = sum(len(turn.times) - 1 for turn in turns if turn.times)
    seconds = sum(turn.times[-1] - turn.times[0] for turn in turns if turn.times)
    return tokens / seconds if seconds else 0.0


def _turns(played: Played) -> list[Turn]:
    return [*played.served, *played.plain]

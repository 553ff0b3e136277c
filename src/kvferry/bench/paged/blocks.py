"""Rounds of the block manager's steps, ours and vLLM's in turns."""

from __future__ import annotations

import time
from statistics import median

import msgspec

from ..peers.process import Process
from .ours import Ours
from .steps import BLOCKS, POOL, STEPS, Ran, Round, run_round

__all__ = ["BlocksRow", "measure_blocks"]

ROUNDS = 15
WARM = 1 + POOL // BLOCKS  # rounds until every free block has somebody's hash


class BlocksRow(msgspec.Struct, frozen=True):
    """One step: medians of so many rounds, in microseconds.

    peer_us, ratio  None: nobody is beside; the ratio is theirs to ours
    verified        as many blocks were found as there should be, and hashes are equal
    """

    step: str
    rounds: int
    us: float
    peer_us: float | None
    ratio: float | None
    verified: bool


def measure_blocks(seconds: float, peer: Process | None) -> list[BlocksRow]:
    """Blocks for about `seconds`. Raises PeerError when the process of the other one fails."""
    ours, seed = Ours(), 0
    mine: list[Ran] = []
    theirs: list[Ran] = []
    end = time.monotonic() + seconds
    while len(mine) < WARM + ROUNDS or time.monotonic() < end:
        seed += 1
        asked = Round(seed)
        mine.append(run_round(ours, asked))
        if peer is not None:
            theirs.append(peer.ask(asked, Ran))
    return [_row(step, mine, theirs) for step in STEPS]


def _row(step: str, mine: list[Ran], theirs: list[Ran]) -> BlocksRow:
    us, peer_us = _median(step, mine), _median(step, theirs) if theirs else None
    return BlocksRow(
        step=step,
        rounds=len(mine) - WARM,
        us=round(us, 1),
        peer_us=None if peer_us is None else round(peer_us, 1),
        ratio=None if peer_us is None else round(peer_us / us, 2),
        verified=_right(mine) and (not theirs or (_right(theirs) and _equal(mine, theirs))),
    )


def _median(step: str, rounds: list[Ran]) -> float:
    return median(each.taken[step] for each in rounds[WARM:]) / 1e3


def _right(rounds: list[Ran]) -> bool:
    return all(each.found == [BLOCKS, 0, BLOCKS] for each in rounds)


def _equal(mine: list[Ran], theirs: list[Ran]) -> bool:
    return [each.hashes for each in mine] == [each.hashes for each in theirs]

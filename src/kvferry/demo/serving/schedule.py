"""Which request computes how many tokens in a step. Pure."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["fits", "shares"]


def shares(left: Sequence[int], budget: int) -> list[int]:
    """Tokens for each request, first come first served, of at most `budget` in all.

    left  tokens of each that have no KV yet; those with one left generate, and come first: a long
          prompt is cut into chunks between which the others go on
    """
    given = [int(count == 1) for count in left]
    room = max(0, budget - sum(given))
    for index, count in enumerate(left):
        if count > 1:
            given[index] = min(count, room)
            room -= given[index]
    return given


def fits(blocks: int, free: int, promised: int) -> bool:
    """May a request begin whose prompt takes so many blocks, when so many are free, and so many of
    these the prompts under way will still take?"""
    return blocks + promised <= free

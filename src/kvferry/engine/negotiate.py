"""Which path a channel takes: candidates in order, and a reason for every other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..link import Driver, Facts
from ..path import LinkKind, Path

__all__ = ["Ranking", "rank"]


class Ranking(NamedTuple):
    """Paths to try, best first, and why the others are out."""

    candidates: tuple[Path, ...]
    rejected: dict[Path, str]


def rank(
    ours: Facts, theirs: Facts, wanted: Sequence[Path], drivers: Mapping[LinkKind, type[Driver]]
) -> Ranking:
    """Judge the wanted paths, in their order, by what both sides told of themselves."""
    candidates = []
    rejected = {}
    for path in wanted:
        driver = drivers.get(path.link)
        reason = "this engine has no such link" if driver is None else driver.refuse(ours, theirs)
        if reason is None:
            candidates.append(path)
        else:
            rejected[path] = reason
    return Ranking(tuple(candidates), rejected)

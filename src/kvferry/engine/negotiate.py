"""Which paths a channel takes: candidates in order, and a reason for every other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..link import Driver, Facts
from ..path import LinkKind, Path

__all__ = ["Ranking", "foreign", "rank"]


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
        reason = path.refusal or _refusal(drivers.get(path.link), ours, theirs)
        if reason is None:
            candidates.append(path)
        else:
            rejected[path] = reason
    return Ranking(tuple(candidates), rejected)


def foreign(chosen: Path, candidates: Sequence[Path]) -> tuple[Path, ...]:
    """Of the candidates, those for memory that the peer merely registered, best first.

    What reaches all of the peer's memory serves for both: a second link would be one too many.
    """
    if chosen.sees_registered:
        return (chosen,)
    return tuple(path for path in candidates if path.sees_registered)


def _refusal(driver: type[Driver] | None, ours: Facts, theirs: Facts) -> str | None:
    if driver is None:
        return "this engine has no such link"
    return driver.refuse(ours, theirs)

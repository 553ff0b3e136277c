"""How long it takes to move so many keys: a key is one slot of a layout, all go in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from .comparison import KeyRow
from .lane import Lane
from .layouts import MODELS, Layout
from .timing import Pass, timed

__all__ = ["COUNTS", "key_batch", "key_layout", "measure_keys", "slots_repeat"]

COUNTS = (32, 64, 128, 256, 512)
ROUNDS = 3


def key_layout(size: int) -> Layout:
    """The model of the largest slots of which a side of `size` bytes holds the most keys that are
    moved; where none fits, the one of the smallest. Pure.
    """
    models = sorted(MODELS.values(), key=lambda layout: layout.slot_bytes)
    fitting = [layout for layout in models if layout.slot_bytes * max(COUNTS) <= size]
    return fitting[-1] if fitting else models[0]


def key_batch(slots: int) -> int:
    """How many different keys there are to be verified: the most that are moved, or all."""
    return min(max(COUNTS), slots)


def slots_repeat(slots: int) -> bool:
    return slots < max(COUNTS)


def measure_keys(
    lanes: Mapping[str, Lane], counts: Sequence[int] = COUNTS
) -> tuple[list[KeyRow], dict[str, int]]:
    """Rounds over all counts and all lanes, in turns; each goes on in the walk where it was.

    Returns rows, and how many bytes each lane staged.
    """
    passes: dict[int, dict[str, list[Pass]]] = {
        count: {name: [] for name in lanes} for count in counts
    }
    start = 0
    for _ in range(ROUNDS + 1):
        for count in counts:
            for name, lane in lanes.items():
                passes[count][name].append(_move(lane, start, count))
            start += count
    rows = [
        KeyRow(count, {name: _milliseconds(made) for name, made in by_name.items()})
        for count, by_name in passes.items()
    ]
    staged = {
        name: sum(each.staged for by_name in passes.values() for each in by_name[name])
        for name in lanes
    }
    return rows, staged


def _move(lane: Lane, start: int, count: int) -> Pass:
    return timed(lane.call, lane.batches([np.arange(start, start + count)]))


def _milliseconds(made: Sequence[Pass]) -> float:
    """The first round found caches and page tables cold."""
    return round(median(each.seconds for each in made[1:]) * 1e3, 3)

"""What a trace is like."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .simulate import Ratios, ideal
from .trace import Ints, Trace

__all__ = ["Figures", "Spread", "figures_of"]


class Spread(NamedTuple):
    mean: float
    median: float
    p90: float
    most: int


class Figures(NamedTuple):
    """seconds  from the first arrival to the last
    blocks   that were asked for, `unique` of them different; 0: the format names none
    ideal    if nothing ever left; None: there are no blocks
    inputs   tokens of a prompt, outputs of an answer
    """

    format: str
    requests: int
    skipped: int
    seconds: float
    block_tokens: int
    blocks: int
    unique: int
    ideal: Ratios | None
    inputs: Spread
    outputs: Spread


def figures_of(trace: Trace) -> Figures:
    return Figures(
        format=trace.format,
        requests=len(trace),
        skipped=trace.skipped,
        seconds=float(trace.arrivals[-1]),
        block_tokens=trace.block_tokens,
        blocks=len(trace.blocks),
        unique=trace.unique,
        ideal=ideal(trace).ratios(trace) if trace.block_tokens else None,
        inputs=_spread(trace.inputs),
        outputs=_spread(trace.outputs),
    )


def _spread(tokens: Ints) -> Spread:
    median, p90 = np.quantile(tokens, (0.5, 0.9)).tolist()
    return Spread(float(tokens.mean()), median, p90, int(tokens.max()))

"""Agentic: a conversation of a coding agent a line, each request by what it adds to the last.

    {"id", "block_size", "reqs": [[t, input, output, think, api, keep, [[start, count], ...]], ...]}

Seconds from the conversation's beginning; all conversations of a file begin together. The ids of a
request are the first `keep` ones of the request before it, then start, start + 1, ... of each run.
They are of whole blocks alone, and of this conversation alone. Source of the traces: callanjfox/
kv-cache-tester.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..lines import BadLine
from ..trace import NO_IDS, Call
from .form import Format, Moment, Read, Tokens, decoded

__all__ = ["AGENTIC"]

MOST = 1 << 32  # the largest id, and the longest run

Number = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Run = tuple[Number, Number]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Delta = tuple[Moment, Tokens, Tokens, Seconds, Seconds, Number, list[Run]]


class Line(msgspec.Struct, frozen=True):
    id: str
    block_size: Annotated[int, msgspec.Meta(gt=0, le=1 << 20)]
    reqs: Annotated[list[Delta], msgspec.Meta(min_length=1)]


DECODER = msgspec.json.Decoder(Line)


def read(line: bytes, number: int, block_tokens: int) -> Read:
    one = decoded(DECODER, line)
    calls: list[Call] = []
    ids = NO_IDS
    for at, inputs, outputs, _, _, keep, runs in one.reqs:
        ids = _next(ids, keep, runs, inputs // one.block_size)
        calls.append(Call(at, inputs, outputs, ids, number))
    if any(after.at < before.at for before, after in pairwise(calls)):
        raise BadLine("time goes backwards within the conversation")
    return Read(calls, one.block_size)


def _next(ids: NDArray[np.uint64], keep: int, runs: list[Run], expected: int) -> NDArray[np.uint64]:
    """Looks at the lengths before it makes anything as long."""
    if keep > len(ids):
        raise BadLine(f"keeps {keep} blocks of a request that has {len(ids)}")
    count = keep + sum(count for _, count in runs)
    if count != expected:
        raise BadLine(f"{count} blocks, where its tokens make {expected}")
    fresh = (np.arange(start, start + n, dtype=np.uint64) for start, n in runs)
    return np.concatenate((ids[:keep], *fresh))


def fits(line: bytes) -> bool:
    return b'"reqs"' in line and b'"block_size"' in line


AGENTIC = Format("agentic", 64, fits, read)

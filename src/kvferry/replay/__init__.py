"""Replay of real traces: how often requests hit, by policy and capacity.

formats/    lines of files to requests, which `read_trace` makes a Trace of
simulate    the store's own policy objects over numbers of blocks; LFU and MIN beside them
real        the same requests against a store, with real bytes, at the times at which they came

`serve` is one for both: what a request does to what holds blocks.
"""

from .capacity import Block, blocks_in
from .figures import Figures, figures_of
from .formats import FORMATS
from .reading import read_trace
from .real import Measured, replay_at, replay_embedded
from .run import Plan, Result, Row, run, write_json
from .simulate import KNOWN, Hits, Ratios, checked_policy, ideal, simulate
from .trace import Trace

__all__ = [
    "FORMATS",
    "KNOWN",
    "Block",
    "Figures",
    "Hits",
    "Measured",
    "Plan",
    "Ratios",
    "Result",
    "Row",
    "Trace",
    "blocks_in",
    "checked_policy",
    "figures_of",
    "ideal",
    "read_trace",
    "replay_at",
    "replay_embedded",
    "run",
    "simulate",
    "write_json",
]

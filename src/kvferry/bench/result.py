"""What a run found: rows, costs, and the machine; and how that is written as JSON."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import msgspec

from ..path import Path
from .machine import Machine

__all__ = ["Costs", "Result", "Row", "describe", "path_fields", "write_json"]


class Row(msgspec.Struct, frozen=True):
    """One case. Speeds in 10^9 bytes a second.

    path          what the channel took, preset: the name it was asked by, if it was one;
                  of another package its name, `peer`, and its `transport`
    layout        the model whose slots were moved; None: plain blocks
    block         bytes of a slot
    batch         slots a call; of a trace, the most
    streams       a transfer was cut over
    callers       threads that submitted at the same time, in all processes
    threads       that copied: streams, or the callers themselves
    repeats       passes, each beside one of the limit
    gbps          median over the passes; gbps_min and gbps_max are the worst and the best
    limit_gbps    median of the machine's own, by the bare loop `limit` in its limit_variant
    ratio         gbps / limit_gbps
    p50_us        of a call, p99_us likewise
    verified      every byte of one more pass was where it belongs, and no other byte had changed
    staged_bytes  of all passes together, submissions and cpu_s likewise
    """

    path: dict[str, str]
    preset: str | None
    op: str
    layout: str | None
    block: int
    batch: int
    streams: int
    callers: int
    threads: int
    repeats: int
    bytes: int
    gbps: float
    gbps_min: float
    gbps_max: float
    limit_gbps: float
    limit: str
    limit_variant: str
    ratio: float
    p50_us: float
    p99_us: float
    verified: bool
    staged_bytes: int
    submissions: dict[str, int]
    cpu_s: dict[str, float]


class Costs(msgspec.Struct, frozen=True):
    """What a call costs beside the copying, measured once a run.

    build_us       a batch of 4,096 block pairs made from NumPy arrays of ids
    resolve_us     the same batch checked and relocated
    import_s       ``import kvferry`` in a fresh interpreter, best of a few
    bare_copy_us   p50 of one native copy of 4 KiB called from Python
    inline_us      p50 of one synchronous write of 4 KiB over fabric/inline
    memory_bytes   resident beyond the pools, by process; the most that was seen after a case
    growth_calls   writes that were made in a row to see memory grow
    growth_bytes   by how much the memory of both processes together grew meanwhile
    paths          by name, see path_costs.PathCosts
    """

    build_us: float
    resolve_us: float
    import_s: float
    bare_copy_us: float
    inline_us: float
    memory_bytes: dict[str, int]
    growth_calls: int
    growth_bytes: int
    paths: dict[str, float | None] = {}


class Result(msgspec.Struct, frozen=True):
    """A whole run.

    settings  size: bytes a side, seconds: of measuring, a case; threads: that submit on a channel;
              pattern and peers: between which processes
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Row]
    costs: Costs

    @property
    def verified(self) -> bool:
        return all(row.verified for row in self.rows)


def describe(machine: Machine, pool: dict[str, Any]) -> dict[str, Any]:
    """The machine's facts in groups; `pool`: the pages that the memory moved stands in."""
    facts = machine.as_dict()
    pages = {name: facts.pop(name) for name in ("thp", "thp_shmem", "hugetlb")}
    versions = {name: facts.pop(name) for name in ("python", "numpy", "kvferry")}
    return {
        "cpu": facts.pop("cpu"),
        "numa": facts.pop("numa_nodes"),
        "kernel": facts.pop("kernel"),
        "pages": {**pages, **pool},
        "versions": versions,
        **facts,
    }


def path_fields(path: Path) -> dict[str, str]:
    return {
        "link": path.link.value,
        "submitter": path.submitter.value,
        "staging": path.staging.value,
        "addressing": path.addressing.value,
    }


def write_json(result: msgspec.Struct, file: File) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")

"""What a run found."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Memory", "Row", "StoreResult", "Want"]


class Want(msgspec.Struct, frozen=True):
    """figure  a field of the row that is to be at most `bound` if it is a time, else at least"""

    figure: str
    bound: float
    met: bool


class Row(msgspec.Struct, frozen=True):
    """One call of one user of a store. Medians over passes, times over all calls.

    who          embedded, mapped, far, or another store's name
    full         others had to leave for every object that came
    calls        were timed, of `batch` keys each
    mkeys        million keys a second
    gbps         10^9 bytes a second; None where none are moved
    limit        what a bare loop (of_limit) or the link alone (of_link) reaches with as many bytes
    of_embedded  of the speed of the process that is the node
    cpu_us       of processor time a call: user, and node where that is another process
    verified     every key was found or stored, and every byte of one more pass was right
    wanted       of it
    """

    who: str
    op: str
    block: int
    batch: int
    full: bool
    calls: int
    p50_us: float
    p99_us: float
    mkeys: float
    gbps: float | None
    limit_gbps: float | None
    limit: str | None
    of_limit: float | None
    of_link: float | None
    of_embedded: float | None
    cpu_us: dict[str, float]
    verified: bool
    wanted: list[Want]


class Memory(msgspec.Struct, frozen=True):
    """What an object costs in the node beside its bytes, index and policy included.

    objects      of 64 bytes that were there at the end
    node_bytes   resident in the node then, without its pool
    empty_bytes  resident in one with room for next to none, without its pool
    object_bytes the difference, for each
    verified     all were stored, and almost all had room in the index at once
    """

    objects: int
    node_bytes: int
    empty_bytes: int
    object_bytes: float
    wanted: Want
    verified: bool


class StoreResult(msgspec.Struct, frozen=True):
    """A whole run.

    settings  size: bytes a side, pool: bytes of every store, seconds: of measuring, a task
    absent    other stores that were asked for, and why there is nothing of them
    cpu_s     seconds of processor time of each process, from its start
    import_s  import of kvferry.Store in a fresh interpreter, best of a few
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Row]
    memory: Memory | None
    absent: dict[str, str]
    cpu_s: dict[str, float]
    import_s: float

    @property
    def verified(self) -> bool:
        memory = self.memory is None or self.memory.verified
        return memory and all(row.verified for row in self.rows)

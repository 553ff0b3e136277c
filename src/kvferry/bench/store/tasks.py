"""What is measured, of whom, and what is wanted. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["OPS", "TASKS", "Figure", "Op", "Role", "Task", "Wanted"]

KIB, MIB = 1 << 10, 1 << 20


class Op(str, Enum):
    """Calls of a store. LOOK: as VIEW, and what is seen is copied to the side, to be compared."""

    GET = "get_into"
    GET_BATCH = "get_batch_into"
    VIEW = "view"
    LOOK = "look"
    EXISTS_BATCH = "exists_batch"
    PUT = "put"
    PUT_BATCH = "put_batch"


# What moves values, or shows them.
OPS = (Op.GET, Op.GET_BATCH, Op.VIEW, Op.PUT, Op.PUT_BATCH)


class Role(str, Enum):
    """embedded  the process that is the node
    mapped    another process of its host
    far       a process that reaches the node over tcp alone, as another host would
    rival     another store
    """

    EMBEDDED = "embedded"
    MAPPED = "mapped"
    FAR = "far"
    RIVAL = "rival"


class Figure(str, Enum):
    """p50_us       microseconds of a call
    mkeys        million keys a second
    gbps         10^9 bytes a second
    of_limit     of what a bare copy loop reaches
    of_link      of what the link alone reaches
    of_embedded  of what the process that is the node reaches
    """

    P50 = "p50_us"
    MKEYS = "mkeys"
    GBPS = "gbps"
    OF_LIMIT = "of_limit"
    OF_LINK = "of_link"
    OF_EMBEDDED = "of_embedded"


class Wanted(NamedTuple):
    """A time is to be at most `bound`, everything else at least."""

    figure: Figure
    bound: float

    def met(self, value: float) -> bool:
        return value <= self.bound if self.figure is Figure.P50 else value >= self.bound


class Task(NamedTuple):
    """figure  by which processes are compared
    roles   who is measured
    wanted  of embedded and mapped; far: of far alone
    full    the pool is full: for every object that comes others leave
    """

    op: Op
    block: int
    batch: int
    figure: Figure
    roles: tuple[Role, ...]
    wanted: tuple[Wanted, ...] = ()
    far: tuple[Wanted, ...] = ()
    full: bool = False

    def __str__(self) -> str:
        return f"{self.op.value} {self.batch} x {self.block} bytes"

    @property
    def puts(self) -> bool:
        return self.op in (Op.PUT, Op.PUT_BATCH)

    def wants(self, role: Role) -> tuple[Wanted, ...]:
        if role is Role.FAR:
            return self.far
        if role is Role.MAPPED:
            return (*self.wanted, Wanted(Figure.OF_EMBEDDED, 0.9))
        return self.wanted if role is Role.EMBEDDED else ()


NEAR = (Role.EMBEDDED, Role.MAPPED)
STORES = (*NEAR, Role.RIVAL)
ALL = (*NEAR, Role.FAR, Role.RIVAL)

# By block: the objects of one size are there together.
TASKS = (
    Task(Op.GET, 4 * KIB, 1, Figure.P50, ALL, (Wanted(Figure.P50, 6),)),
    Task(Op.VIEW, 4 * KIB, 1, Figure.P50, NEAR, (Wanted(Figure.P50, 4),)),
    Task(Op.GET_BATCH, 4 * KIB, 128, Figure.MKEYS, STORES, (Wanted(Figure.MKEYS, 0.8),)),
    Task(Op.EXISTS_BATCH, 4 * KIB, 128, Figure.MKEYS, STORES, (Wanted(Figure.MKEYS, 2),)),
    Task(Op.PUT, 4 * KIB, 1, Figure.P50, STORES, (Wanted(Figure.P50, 60),)),
    Task(Op.GET, 64 * KIB, 1, Figure.P50, STORES),
    Task(Op.PUT_BATCH, 64 * KIB, 128, Figure.GBPS, STORES, (Wanted(Figure.GBPS, 5),)),
    Task(
        Op.GET,
        MIB,
        1,
        Figure.GBPS,
        ALL,
        (Wanted(Figure.OF_LIMIT, 0.85),),
        (Wanted(Figure.OF_LINK, 0.8),),
    ),
    Task(Op.VIEW, MIB, 1, Figure.P50, NEAR, (Wanted(Figure.P50, 4),)),
    Task(Op.GET_BATCH, MIB, 16, Figure.GBPS, (Role.FAR,), far=(Wanted(Figure.OF_LINK, 0.8),)),
    Task(Op.PUT, 4 * KIB, 1, Figure.P50, NEAR, full=True),
    Task(Op.PUT_BATCH, 64 * KIB, 128, Figure.GBPS, NEAR, full=True),
)

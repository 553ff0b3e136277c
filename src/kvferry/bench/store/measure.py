"""Measures one task: passes of every process in turn, then one more of each that is verified."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec
import numpy as np

from .messages import Ran
from .party import Party
from .passes import Calls, Ground, passes
from .result import Row, Want
from .tasks import OPS, Figure, Op, Role, Task
from .yardstick import COPY, LINK, Yardstick

__all__ = ["measure"]

ROUNDS = 5


@dataclass
class Turn:
    """One process in a task, and what its passes came to.

    node  seconds of processor time that the node's process used meanwhile
    """

    party: Party
    passes: Iterator[Calls]
    ran: list[tuple[Calls, Ran]] = field(default_factory=list)
    node: float = 0.0

    def go(self, task: Task, node: Party) -> None:
        calls, before = next(self.passes), node.cpu
        self.ran.append((calls, self.party.run(calls)))
        self.node += node.cpu - before
        if task.puts and not task.full:
            self.party.drop(calls)

    def verified(self, task: Task) -> bool:
        """Every call found or stored what it was about, and one more pass is right."""
        calls = next(self.passes)
        if task.puts:
            self.party.fill()
            self.ran.append((calls, self.party.run(calls)))
        complete = all(ran.good == len(each.numbers) for each, ran in self.ran)
        right = self._right(calls)
        if task.puts and not task.full:
            self.party.drop(calls)
        return complete and right

    def _right(self, calls: Calls) -> bool:
        """Every byte is what was put; and what never was is not told to be there."""
        if calls.op is Op.EXISTS_BATCH:
            return self.party.run(calls.absent).good == 0
        shown, verdict = self.party.shown(calls)
        return shown.good == len(calls.numbers) and verdict.good


def measure(
    task: Task,
    ground: Ground,
    parties: Sequence[Party],
    yardstick: Yardstick,
    eras: Iterator[int],
    seconds: float,
) -> list[Row]:
    """A row of each that the task is for. The first of `parties` is the node. Blocks for about
    `seconds` and the time it takes to verify."""
    node = parties[0]
    turns = [
        Turn(each, passes(task, ground, next(eras))) for each in parties if each.role in task.roles
    ]
    yards = _yardsticks(task)
    for turn in turns:
        if task.puts:
            turn.party.fill()
        turn.go(task, node)  # not counted: it finds caches and page tables cold
        turn.ran.clear()
        turn.node = 0.0
    limits: dict[str, list[float]] = {name: [] for name in yards}
    ready = {name: yardstick.passes(name, ground.block, task.batch) for name in yards}
    end, rounds = time.monotonic() + seconds, 0
    while rounds < ROUNDS or time.monotonic() < end:
        for turn in turns[rounds % len(turns) :] + turns[: rounds % len(turns)]:
            turn.go(task, node)
        for name, go in ready.items():
            limits[name].append(go())
        rounds += 1
    alone = {name: median(speeds) for name, speeds in limits.items()}
    rows = [_row(task, turn, alone) for turn in turns]
    checked = [turn.verified(task) for turn in turns]
    return _judged(task, turns, rows, checked)


def _yardsticks(task: Task) -> set[str]:
    wanted = {want.figure for role in task.roles for want in task.wants(role)}
    names = {Figure.OF_LIMIT: COPY, Figure.OF_LINK: LINK}
    return {name for figure, name in names.items() if figure in wanted}


def _row(task: Task, turn: Turn, alone: dict[str, float]) -> Row:
    calls = [taken for _, ran in turn.ran for taken in ran.calls]
    p50, p99 = np.percentile(calls, [50, 99]) / 1e3
    keys = [len(each.numbers) / (ran.end - ran.begin) * 1e3 for each, ran in turn.ran]
    moves = task.op in OPS and task.op is not Op.VIEW
    gbps = median(keys) * task.block / 1e3 if moves else None
    name = LINK if turn.party.role is Role.FAR else COPY
    limit = alone.get(name) if moves and turn.party.role is not Role.RIVAL else None
    ratio = None if limit is None or gbps is None else round(gbps / limit, 3)
    user = sum(ran.cpu for _, ran in turn.ran)
    cpu = {"user": round(user / len(calls) * 1e6, 2)}
    if turn.party.role in (Role.MAPPED, Role.FAR):
        cpu["node"] = round(turn.node / len(calls) * 1e6, 2)
    return Row(
        who=turn.party.name,
        op=task.op.value,
        block=task.block,
        batch=task.batch,
        full=task.full,
        calls=len(calls),
        p50_us=round(float(p50), 2),
        p99_us=round(float(p99), 2),
        mkeys=round(median(keys), 4),
        gbps=None if gbps is None else round(gbps, 3),
        limit_gbps=None if limit is None else round(limit, 3),
        limit=None if limit is None else name,
        of_limit=ratio if name == COPY else None,
        of_link=ratio if name == LINK else None,
        of_embedded=None,
        cpu_us=cpu,
        verified=False,
        wanted=[],
    )


def _judged(
    task: Task, turns: Sequence[Turn], rows: Sequence[Row], checked: Sequence[bool]
) -> list[Row]:
    """With what only a look at all of them tells."""
    ours = [row for row, turn in zip(rows, turns, strict=True) if turn.party.role is Role.EMBEDDED]
    judged = []
    for row, turn, good in zip(rows, turns, checked, strict=True):
        if ours and row is not ours[0]:
            row = msgspec.structs.replace(row, of_embedded=_speed(task, row, ours[0]))
        wants = [
            Want(want.figure.value, want.bound, want.met(getattr(row, want.figure.value)))
            for want in task.wants(turn.party.role)
        ]
        judged.append(msgspec.structs.replace(row, verified=good, wanted=wants))
    return judged


def _speed(task: Task, row: Row, other: Row) -> float:
    """Of the other's, by what the task is compared by."""
    one, two = getattr(row, task.figure.value), getattr(other, task.figure.value)
    return float(round(two / one if task.figure is Figure.P50 else one / two, 3))

"""A whole run: every case of a plan, the costs, and the machine it was made on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from . import measure
from .cases import Case, Plan, cases
from .costs import measure_costs
from .limit import Limit
from .machine import read_machine
from .result import Result, Row, describe
from .session import Session, open_session

__all__ = ["run"]

Track = Callable[[list[Case]], Iterable[Case]]


def run(plan: Plan, size: int, track: Track = iter) -> Result:
    """Carry out `plan` with `size` bytes a side, in this process and a target of its own.

    track  is given all cases and gives them back one by one: it may show how far we are

    Raises UsageError for a plan that cannot be, before anything is started; PathRefused for a path
    that this machine has not got, before anything is measured.
    """
    todo = cases(plan, size)
    with open_session(size) as session, Limit() as limit:
        for case in todo:
            session.channel(case.path, case.streams)
        rows: list[Row] = []
        memory: dict[str, int] = {}
        for case in track(todo):
            rows.append(measure.measure(case, session, limit, plan.seconds))
            memory = _most(memory, session.memory())
        return Result(
            machine=describe(read_machine(), _pool(session)),
            settings={"size": size, "seconds": plan.seconds},
            rows=rows,
            costs=measure_costs(session, memory),
        )


def _most(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: max(a.get(name, 0), b[name]) for name in b}


def _pool(session: Session) -> dict[str, Any]:
    grant = session.region.grant
    assert grant is not None
    return {"page": grant.page, "huge": grant.huge, "notes": list(grant.notes)}

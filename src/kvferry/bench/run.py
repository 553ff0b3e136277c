"""A whole run: every case of a plan, the costs, and the machine it was made on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from . import measure
from .cases import Case, Plan, cases
from .costs import measure_costs
from .crew import open_crew
from .machine import read_machine
from .peers import Asked, check_beside, open_beside
from .result import Result, Row, describe
from .session import pool
from .shares import shares

__all__ = ["run"]

Track = Callable[[list[Case]], Iterable[Case]]


def run(plan: Plan, size: int, track: Track = iter, beside: Sequence[Asked] = ()) -> Result:
    """Carry out `plan` with `size` bytes a side, in this process and others of its own.

    track   is given all cases and gives them back one by one: it may show how far we are
    beside  packages that move the same blocks in the same run, by one caller each

    Raises UsageError for a plan that cannot be, before anything is started; PathRefused for a path
    that this machine has not got, and UsageError for a package, before anything is measured.
    """
    todo = cases(plan, size)
    check_beside(plan, beside)
    with (
        open_crew(shares(plan.pattern, plan.peers, size)) as crew,
        open_beside(beside, size) as others,
    ):
        for case in todo:
            crew.connect(case)
        rows: list[Row] = []
        memory: dict[str, int] = {}
        for case in track(todo):
            rows.append(measure.measure(case, crew, plan.seconds))
            memory = _most(memory, crew.memory())
            rows += others.rows(case, crew, plan.seconds)
        return Result(
            machine=describe(read_machine(), pool(crew.session)),
            settings={
                "size": size,
                "seconds": plan.seconds,
                "threads": plan.threads,
                "pattern": None if plan.pattern is None else plan.pattern.value,
                "peers": plan.peers,
            },
            rows=rows,
            costs=measure_costs(crew.session, memory),
        )


def _most(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: max(a.get(name, 0), b[name]) for name in b}

"""How far a run is, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["track"]

T = TypeVar("T")


def track(cases: list[T]) -> Iterator[T]:
    """The cases one by one, behind a bar on standard error that goes away; no bar elsewhere."""
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            progress.update(task, description=str(case))
            yield case
            progress.advance(task)

"""How far a replay is, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["Watcher", "watched"]

# Given what is under way, gives what is to be told of requests that were served.
Watcher = Callable[[str], Callable[[int], None]]


@contextmanager
def watched(requests: int, runs: int) -> Iterator[Watcher]:
    """Behind a bar on standard error that goes away; no bar where that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda name: _nothing
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=requests * runs)

        def begin(name: str) -> Callable[[int], None]:
            bar.update(task, description=name)
            return lambda count: bar.advance(task, count)

        yield begin


def _nothing(count: int) -> None:
    pass

"""How far a download is, drawn while it lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Drawn

from .pip_download import Progress

__all__ = ["download_bar"]


@contextmanager
def download_bar(console: Console, what: str) -> Iterator[Progress]:
    """A bar that moves to and fro until a total is known; gone afterwards. Where `console` is no
    terminal: a line, when it begins."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    hidden = not console.is_terminal
    with Drawn(
        *columns, TransferSpeedColumn(), console=console, transient=True, disable=hidden
    ) as drawn:
        task = drawn.add_task(what, total=None)
        told: list[str] = []

        def progress(done: int, of: int) -> None:
            if hidden and not told:
                told.append(what)
                console.print(f"{what}, {of / 1e6:.0f} MB")
            drawn.update(task, completed=done, total=of)

        yield progress

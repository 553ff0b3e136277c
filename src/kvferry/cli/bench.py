"""``kvferry bench``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ..errors import UsageError

if TYPE_CHECKING:
    from ..bench.cases import Plan
    from ..bench.layouts import Layout
    from ..bench.result import Result

__all__ = ["bench"]

T = TypeVar("T")

PATHS = "fabric/inline,fabric/host"
BLOCKS = "4KiB,64KiB,1MiB,16MiB"
TRACE_LAYOUT = "llama-3-8b"
UNVERIFIED = 1
PIPE_WIDTH = 160
CACHES = 4


def bench(
    what: Annotated[str, typer.Argument(help="sweep, layout or trace")] = "sweep",
    of: Annotated[
        str | None,
        typer.Argument(
            help="layout: deepseek-r1, llama-3-8b, qwen3-8b or smollm2-135m; "
            "trace: a file of requests, JSON lines, plain or gzip"
        ),
    ] = None,
    paths: Annotated[
        str, typer.Option(help="presets (auto, ubshmem), or link/submitter[/staging]")
    ] = PATHS,
    ops: Annotated[str, typer.Option(help="write, read")] = "write,read",
    blocks: Annotated[
        str | None, typer.Option(help="bytes of a block, of a sweep", show_default=BLOCKS)
    ] = None,
    batches: Annotated[
        str, typer.Option(help="blocks a call, at most half a side and 256 MiB")
    ] = "1,128",
    streams: Annotated[
        str, typer.Option(help="streams that a transfer is cut over, on a host path")
    ] = "1,2",
    size: Annotated[str, typer.Option(help="bytes per side")] = "1GiB",
    seconds: Annotated[
        float, typer.Option(min=0, max=3600, help="how long a case is measured")
    ] = 0.3,
    layout: Annotated[
        str | None, typer.Option(help="a trace's blocks", show_default=TRACE_LAYOUT)
    ] = None,
    json: Annotated[Path | None, typer.Option(help="write all figures to this file")] = None,
) -> None:
    """Moves KV blocks between two processes, verifies every byte, and shows how fast it was.

    Every figure stands beside the limit of this machine: the best copy of the same blocks in as
    many threads, measured in turns with it.
    """
    from ..bench.cases import Plan, cases
    from ..bench.sizes import parse_size

    if json is not None:
        _check_writable(json)
    layouts, trace = _moved(what, of, blocks, layout)
    plan = Plan(
        layouts=layouts,
        paths=_words("paths", paths, str),
        ops=_words("ops", ops, str),
        batches=_words("batches", batches, _natural),
        streams=_words("streams", streams, _natural),
        seconds=seconds,
        trace=trace,
    )
    asked = parse_size(size)
    cases(plan, asked)  # refuses a bad plan before the size is shrunk, and before anything starts
    result = _run(plan, asked)
    if json is not None:
        from ..bench.result import write_json

        write_json(result, json)
    if not result.verified:
        print("kvferry: some bytes were wrong: see the rows not verified", file=sys.stderr)
        raise typer.Exit(UNVERIFIED)


def _run(plan: Plan, asked: int) -> Result:
    from rich.console import Console

    from ..bench.cases import cases
    from ..bench.progress import track
    from ..bench.run import run
    from ..bench.session import free_memory, shrink
    from ..bench.sizes import format_size
    from ..bench.table import LEGEND, costs_line, machine_line, rows_table

    free = free_memory()
    size = shrink(asked, free)
    if size < asked:
        print(
            f"kvferry: {format_size(size)} a side, not {format_size(asked)}: a quarter of the "
            f"{free >> 20} MiB of memory that are free",
            file=sys.stderr,
        )
    if any(case.batch not in plan.batches for case in cases(plan, size)):
        print(
            "kvferry: large batches are shortened to half a side and 256 MiB a pass",
            file=sys.stderr,
        )
    result = run(plan, size, track)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    console.print(rows_table(result.rows))
    console.print(LEGEND, soft_wrap=True)
    console.print(costs_line(result.costs), soft_wrap=True)
    console.print(machine_line(result), soft_wrap=True)
    cache = result.machine["l3"]
    if cache is not None and size < CACHES * cache:
        print(
            f"kvferry: {format_size(size)} a side may stay in the cache of {format_size(cache)}",
            file=sys.stderr,
        )
    return result


def _moved(
    what: str, of: str | None, blocks: str | None, layout: str | None
) -> tuple[tuple[Layout, ...], Path | None]:
    """What a slot is, and whose requests are followed. Raises UsageError for what does not fit."""
    from ..bench.layouts import model, plain
    from ..bench.sizes import parse_size
    from ..bench.trace import read_trace

    if what not in ("sweep", "layout", "trace"):
        raise UsageError(f"unknown bench {what!r}: know sweep, layout, trace", cause="bench")
    if (of is None) != (what == "sweep"):
        lacks = {
            "sweep": "takes no name",
            "layout": "needs a model's name",
            "trace": "needs a file",
        }[what]
        raise UsageError(f"bench {what} {lacks}", cause="bench")
    if blocks is not None and what != "sweep":
        raise UsageError(f"bench {what} has the blocks of its layout: no --blocks", cause="bench")
    if layout is not None and what != "trace":
        raise UsageError("--layout belongs to bench trace", cause="bench")
    if of is None:
        return tuple(plain(block) for block in _words("blocks", blocks or BLOCKS, parse_size)), None
    if what == "layout":
        return (model(of),), None
    next(read_trace(Path(of)), None)  # a file that is none is refused now
    return (model(layout or TRACE_LAYOUT),), Path(of)


def _words(option: str, text: str, read: Callable[[str], T]) -> tuple[T, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"--{option} is empty", cause="bench")
    return tuple(read(word) for word in words)


def _natural(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1 << 20:
        raise UsageError(f"{text!r} is no number from 1 to {1 << 20}", cause="bench")
    return int(text)


def _check_writable(file: Path) -> None:
    """Before a minute is spent on figures that then cannot be kept."""
    there = file if file.exists() else file.parent
    if file.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"cannot write {file}", cause="json")

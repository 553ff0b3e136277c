"""``kvferry replay``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .writable import check_writable

if TYPE_CHECKING:
    from ..replay import Block, Result, Trace

__all__ = ["replay"]

SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)  # of the different blocks: capacities when none are named
BLOCK_BYTES = "4KiB"
BLOCK_TOKENS = 512  # of a trace that names no blocks


def replay(
    file: Annotated[Path, typer.Argument(help="a trace, plain or .gz")],
    format: Annotated[
        str | None,
        typer.Option(
            help="mooncake, agentic, azure or bailian [default: what the file looks like]",
            show_default=False,
        ),
    ] = None,
    block_tokens: Annotated[
        int | None,
        typer.Option(help="tokens of a block [default: as the format has it]", show_default=False),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="count and pass over lines that are no requests")
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="tell what the trace is like, and replay nothing")
    ] = False,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="lru, s3fifo, prefix (a node's), s3fifo-listed, lfu, min (for comparison); more "
            "than once [default: lru]",
            show_default=False,
        ),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            help="in blocks (5860, 10k) or bytes (8GiB); more than once [default: 1, 5, 10, 25 and "
            "50 per cent of the different blocks]",
            show_default=False,
        ),
    ] = None,
    block_bytes: Annotated[
        str | None, typer.Option(help="bytes of a block, such as 2MiB", show_default=False)
    ] = None,
    kv_bytes_per_token: Annotated[
        str | None, typer.Option(help="instead: bytes of KV a token", show_default=False)
    ] = None,
    real: Annotated[
        bool,
        typer.Option("--real", help="also against a store, with bytes; without --at of its own"),
    ] = False,
    at: Annotated[
        str | None, typer.Option(help="with --real: address of that store", show_default=False)
    ] = None,
    speed: Annotated[
        str, typer.Option(help="with --real: times that at which requests came; 0 or max: no wait")
    ] = "1",
    json: Annotated[Path | None, typer.Option(help="write the results to this file")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="draw hit ratios to this file (.png, .svg, .pdf)")
    ] = None,
) -> None:
    """Replay a trace of requests: how often they hit, by policy and capacity."""
    from ..picture import check_plot
    from ..replay import Block, Plan, checked_policy, read_trace, run, write_json
    from ..replay.plot import draw

    _check(real, at, plot is not None and stats)
    check_writable(json, plot)
    pace = _speed(speed)
    policies = tuple(map(checked_policy, policy or ([] if at else ["lru"])))
    if plot is not None:
        check_plot(plot)
    trace = read_trace(file, format=format, block_tokens=block_tokens, skip_bad=skip_bad)
    if not trace.block_tokens and real:
        trace = trace.unshared(block_tokens or BLOCK_TOKENS)  # for the load on the store
    stats = stats or not (trace.block_tokens or policy or capacity)
    plan = Plan((), ())
    if not stats:
        block = Block(block_bytes, kv_bytes_per_token, trace.block_tokens)
        size = _size(block) if real else None
        plan = Plan(policies, _capacities(trace, capacity, block), size, at, pace)
    result = run(file, trace, plan)
    _print(result)
    if json is not None:
        write_json(result, json)
    if plot is not None:
        draw(result, plot)


def _check(real: bool, at: str | None, undrawn: bool) -> None:
    if at is not None and not real:
        raise UsageError("--at is for --real", cause="at")
    if undrawn:
        raise UsageError("--stats has no curves to draw", cause="plot")


def _speed(text: str) -> float:
    try:
        speed = 0.0 if text == "max" else float(text)
    except ValueError:
        speed = math.nan
    if not 0 <= speed < math.inf:
        raise UsageError(f"a speed of {text!r} is none: a number, 0 or max", cause="speed")
    return speed


def _capacities(trace: Trace, texts: list[str] | None, block: Block) -> tuple[int, ...]:
    from ..replay import blocks_in

    if texts:
        return tuple(blocks_in(text, block) for text in texts)
    return tuple(dict.fromkeys(max(int(trace.unique * share), 1) for share in SHARES))


def _size(block: Block) -> int:
    from ..store.user.addresses import bytes_in

    return block.bytes if block.bytes is not None else bytes_in(BLOCK_BYTES)


def _print(result: Result) -> None:
    from rich.console import Console

    from ..replay.table import figure_lines, legend, measured_lines, rows_table

    to = Console()
    for line in figure_lines(result.figures):
        to.print(line, soft_wrap=True, highlight=False)
    if result.rows:
        to.print(rows_table(result.rows))
        for line in (*measured_lines(result.rows), legend(result.rows)):
            to.print(line, soft_wrap=True, highlight=False)

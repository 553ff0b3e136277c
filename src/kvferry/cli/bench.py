"""``kvferry bench``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ..errors import Unsupported, UsageError
from .writable import check_writable

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.cases import Plan
    from ..bench.layouts import Layout
    from ..bench.peers import Asked
    from ..bench.result import Result
    from ..bench.shares import Pattern

__all__ = ["bench"]

T = TypeVar("T")

PATHS = "fabric/inline,fabric/host"
OPS = "write,read"
BATCHES = "1,128"
STREAMS = "1,2"
SIZE = "1GiB"
BLOCKS = "4KiB,64KiB,1MiB,16MiB"
TRACE_LAYOUT = "llama-3-8b"
UNVERIFIED = 1
PIPE_WIDTH = 160
CACHES = 4
PEERS = 2
OBJECTS = 200_000
KEYS = 1_000_000  # of a directory
STORE_SIDES = 4  # pairs of sides' worth of memory that a store has, and its users, and yardsticks


def bench(
    what: Annotated[
        str,
        typer.Argument(help="sweep, layout, trace, acl, store, ssd, codecs, directory or paged"),
    ] = "sweep",
    of: Annotated[
        str | None,
        typer.Argument(
            help="layout: deepseek-r1, llama-3-8b, qwen3-8b or smollm2-135m; "
            "trace: a file of requests, JSON lines, plain or gzip; "
            "ssd: a folder on the disk, this one if none is given"
        ),
    ] = None,
    paths: Annotated[
        str,
        typer.Option(
            help="presets (auto, rma, direct, ubshmem, fabricmem), or link/submitter[/staging]"
        ),
    ] = PATHS,
    ops: Annotated[str, typer.Option(help="write, read")] = OPS,
    blocks: Annotated[
        str | None, typer.Option(help="bytes of a block, of a sweep", show_default=BLOCKS)
    ] = None,
    batches: Annotated[
        str, typer.Option(help="blocks a call, at most half a side and 256 MiB")
    ] = BATCHES,
    streams: Annotated[
        str, typer.Option(help="streams that a transfer is cut over, on a host path")
    ] = STREAMS,
    size: Annotated[str, typer.Option(help="bytes per side")] = SIZE,
    seconds: Annotated[
        float, typer.Option(min=0, max=3600, help="how long a case is measured")
    ] = 0.3,
    layout: Annotated[
        str | None,
        typer.Option(help="of a trace's blocks, or of the keys of --ab", show_default=TRACE_LAYOUT),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, max=64, help="threads that submit on a channel, side by side")
    ] = 1,
    pattern: Annotated[
        str | None, typer.Option(help="several peers: pairwise, one-to-many or many-to-one")
    ] = None,
    peers: Annotated[
        int | None, typer.Option(min=1, max=16, help="of a pattern", show_default="2")
    ] = None,
    ab: Annotated[
        bool, typer.Option("--ab", help="compare paths that differ in one thing each")
    ] = False,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="measure another package too: mooncake, nixl or, of a store, redis, or compat, "
            "which is ours through Mooncake's interface, or, of paged, vllm; or NAME=PYTHON "
            "that has it"
        ),
    ] = None,
    objects: Annotated[
        int | None,
        typer.Option(
            min=1, help="of a store whose memory is measured", show_default=f"{OBJECTS:,}"
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="draw GB/s against block size: a PNG, SVG or PDF file")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="write all figures to this file")] = None,
) -> None:
    """Moves KV blocks between two processes, verifies every byte, and shows how fast it was.

    Every figure stands beside what a bare loop over the same blocks reaches on this machine,
    measured in turns with it.

    acl: what submitting to ACL costs above ACL's own calls. No card is needed for that, and it says
    nothing about one.

    codecs: how much smaller codecs make KV blocks, how fast, and how far off what is read is.

    store: what a store's calls cost in the node's process, in another one of its host and over tcp,
    and what an object costs in memory.

    ssd: what the log of an SSD tier reaches of what plain loops past the page cache reach. The disk
    has to have room for twice the size.

    directory: lookups a second, bytes a key, and how long a new directory takes until it knows all;
    of --objects keys, a million by default.

    paged: what the block manager takes for a request of 1,000 blocks, and how fast scattered pages
    move beside batches made before.
    """
    from ..bench.cases import Plan, cases
    from ..bench.peers import parse_peers
    from ..bench.sizes import parse_size

    check_writable(json, plot)
    if plot is not None:
        from ..picture import check_plot

        check_plot(plot)
    choices = {
        "OF": of is None,
        "--paths": paths == PATHS,
        "--ops": ops == OPS,
        "--blocks": blocks is None,
        "--batches": batches == BATCHES,
        "--streams": streams == STREAMS,
        "--threads": threads == 1,
        "--pattern": pattern is None,
        "--peers": peers is None,
        "--plot": plot is None,
    }
    if what == "store":
        from ..bench.store import Plan as Tasks
        from ..bench.store import parse_rivals
        from .store_costs import store_costs

        _check_alone("store", {**choices, "--ab": not ab, "--layout": layout is None})
        _refuse_devices()
        rivals = parse_rivals(peer or ())
        side = _affordable(parse_size(size), pairs=STORE_SIDES + len(rivals))
        tasks = Tasks(side, seconds, objects or OBJECTS)
        _finish(store_costs(tasks, rivals, json, _open_console()))
        return
    if what == "paged":
        from ..bench.paged import parse_peer
        from .paged_costs import paged_costs

        more = {"--ab": not ab, "--layout": layout is None, "--objects": objects is None}
        _check_alone("paged", {**choices, **more})
        _refuse_devices()
        beside_it, side = parse_peer(peer or ()), _affordable(parse_size(size))
        _finish(paged_costs(side, seconds, beside_it, json, _open_console()))
        return
    choices["--peer"] = not peer
    if what == "directory":
        from ..bench.store.directory import Plan as Keys
        from .directory_costs import directory_costs

        more = {"--ab": not ab, "--layout": layout is None, "--size": size == SIZE}
        _check_alone("directory", {**choices, **more})
        _finish(directory_costs(Keys(objects or KEYS, seconds), json, _open_console()))
        return
    choices["--objects"] = objects is None
    if what == "ssd":
        from .ssd_costs import ssd_costs

        _check_alone("ssd", {**choices, "OF": True, "--ab": not ab, "--layout": layout is None})
        _finish(ssd_costs(Path(of or "."), parse_size(size), json, _open_console()))
        return
    if what == "codecs":
        from .codec_costs import codec_costs

        more = {"--ab": not ab, "--layout": layout is None, "--size": size == SIZE}
        _check_alone("codecs", {**choices, **more})
        _finish(codec_costs(seconds, json, _open_console()))
        return
    if what == "acl":
        from .acl_costs import acl_costs

        more = {"--ab": not ab, "--layout": layout is None, "--size": size == SIZE}
        _check_alone("acl", {**choices, **more})
        acl_costs(seconds, json, _open_console())
        return
    _refuse_devices()
    if ab:
        from .compare import compare

        _check_alone("--ab", {"WHAT": what == "sweep", **choices})
        side = _affordable(parse_size(size))
        _finish(compare(side, layout, seconds, json, _open_console()))
        return
    layouts, trace = _moved(what, of, blocks, layout)
    plan = Plan(
        layouts=layouts,
        paths=_words("paths", paths, str),
        ops=_words("ops", ops, str),
        batches=_words("batches", batches, _natural),
        streams=_words("streams", streams, _natural),
        seconds=seconds,
        trace=trace,
        threads=threads,
        pattern=_pattern(pattern, peers),
        peers=1 if pattern is None else peers or PEERS,
    )
    beside = parse_peers(peer or ())
    asked = parse_size(size)
    cases(plan, asked)  # refuses a bad plan before the size is shrunk, and before anything starts
    result = _run(plan, asked, beside)
    if json is not None:
        from ..bench.result import write_json

        write_json(result, json)
    if plot is not None:
        from ..bench.plot import draw

        draw(result, plot)
    _finish(result.verified)


def _refuse_devices() -> None:
    from ..config import from_environment

    runtime = from_environment().runtime
    if runtime != "host":
        raise Unsupported(
            f"KVFERRY_RUNTIME={runtime}: bare loops touch memory of the host alone, and a figure "
            "without one says nothing; unset it, or see kvferry bench acl",
            cause="bench",
        )


def _finish(verified: bool) -> None:
    if not verified:
        print("kvferry: some bytes were wrong: see the rows not verified", file=sys.stderr)
        raise typer.Exit(UNVERIFIED)


def _run(plan: Plan, asked: int, beside: Sequence[Asked]) -> Result:
    from ..bench.cases import cases
    from ..bench.progress import track
    from ..bench.run import run
    from ..bench.sizes import format_size
    from ..bench.table import (
        LEGEND,
        costs_line,
        machine_line,
        paths_line,
        peculiar_lines,
        rows_table,
    )

    size = _affordable(asked, pairs=1 + len(beside))
    if any(case.batch not in plan.batches for case in cases(plan, size)):
        print(
            "kvferry: large batches are shortened to half a side and 256 MiB a pass",
            file=sys.stderr,
        )
    result = run(plan, size, track, beside)
    console = _open_console()
    console.print(rows_table(result.rows))
    console.print(LEGEND, soft_wrap=True)
    for line in peculiar_lines(result):
        console.print(line, soft_wrap=True)
    console.print(costs_line(result.costs), soft_wrap=True)
    console.print(paths_line(result.costs), soft_wrap=True)
    console.print(machine_line(result), soft_wrap=True)
    cache = result.machine["l3"]
    if cache is not None and size < CACHES * cache:
        print(
            f"kvferry: much of a side of {format_size(size)} may stay in the cache of "
            f"{format_size(cache)}",
            file=sys.stderr,
        )
    return result


def _affordable(asked: int, pairs: int = 1) -> int:
    """Bytes a side of each pair of processes may have; says so when they are fewer than asked."""
    from ..bench.session import free_memory, shrink
    from ..bench.sizes import format_size

    free = free_memory() // pairs
    size = shrink(asked, free)
    if size < asked:
        print(
            f"kvferry: {format_size(size)} a side, not {format_size(asked)}: a quarter of the "
            f"{free >> 20} MiB of memory that are free",
            file=sys.stderr,
        )
    return size


def _open_console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def _pattern(text: str | None, peers: int | None) -> Pattern | None:
    from ..bench.shares import parse_pattern

    if text is None and peers is not None:
        raise UsageError("--peers belongs to --pattern", cause="bench")
    return None if text is None else parse_pattern(text)


def _check_alone(asked: str, defaults: dict[str, bool]) -> None:
    """What is asked for chooses its own paths, blocks, batches and streams."""
    for name, default in defaults.items():
        if not default:
            raise UsageError(f"{asked} goes without {name}", cause="bench")


def _moved(
    what: str, of: str | None, blocks: str | None, layout: str | None
) -> tuple[tuple[Layout, ...], Path | None]:
    """What a slot is, and whose requests are followed. Raises UsageError for what does not fit."""
    from ..bench.layouts import model, plain
    from ..bench.sizes import parse_size
    from ..bench.trace import read_trace

    if what not in ("sweep", "layout", "trace"):
        raise UsageError(
            f"unknown bench {what!r}: know sweep, layout, trace, acl, store, ssd, codecs, "
            "directory, paged",
            cause="bench",
        )
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

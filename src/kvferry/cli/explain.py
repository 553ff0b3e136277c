"""``kvferry explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PathRefused

if TYPE_CHECKING:
    from ..bench.explain import Explained, Sample

__all__ = ["explain"]

REFUSED = 2

OUT_OF_REACH = "out of reach: no path that was asked for sees what is not mapped"


def explain(
    address: Annotated[str, typer.Argument(help="HOST:PORT or unix:///path of an engine")],
    path: Annotated[
        str, typer.Option(help="a preset (auto, rma, direct, ...) or link/submitter[/staging]")
    ] = "auto",
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="seconds")] = 5.0,
) -> None:
    """Connects to an engine, reads a few blocks, and says which path they took and why."""
    from ..bench.explain import explain as examine
    from ..engine import Engine

    with Engine() as engine:
        try:
            found = examine(engine, address, path, timeout)
        except PathRefused as refusal:
            print(f"{address}: no path")
            _print_rejected(refusal.rejected)
            raise typer.Exit(REFUSED) from None
        _print(found)


def _print(found: Explained) -> None:
    channel = found.channel
    print(f"{channel.peer}, epoch {channel.epoch:016x}")
    print(f"  its own memory        {channel.path}")
    print(f"  registered memory     {channel.foreign_path or OUT_OF_REACH}")
    if found.store is not None:
        print(f"  as a store's user     {found.store}")
    _print_rejected(found.rejected)
    for sample in found.samples:
        _print_sample(sample)
    if not found.samples:
        print("it offers no memory: nothing was moved")


def _print_rejected(rejected: dict[str, str]) -> None:
    width = max(map(len, rejected), default=0)
    for path, reason in rejected.items():
        print(f"  not {path:<{width}}  {reason}")


def _print_sample(sample: Sample) -> None:
    region, report = sample
    kind = "own" if region.own else "registered"
    print(
        f"{report.descriptors} blocks, {report.bytes} bytes of {kind} region {region.name!r} over "
        f"{report.path} in {report.seconds * 1e6:.0f} us"
    )
    for answer in report.answers:
        print(f"  {answer.question:<13} {answer.answer}  [{answer.evidence}]")

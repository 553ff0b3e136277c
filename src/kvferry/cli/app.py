"""The commands, and how their failures look."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import Error
from .bench import bench
from .compat import compat
from .demo import demo
from .directory import directory
from .doctor import doctor
from .explain import explain
from .node import node, why
from .npu import npu
from .replay import replay
from .top import top

__all__ = ["app", "main"]

REFUSED = 2

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(bench)
app.command()(compat)
app.command()(demo)
app.command()(directory)
app.command()(doctor)
app.command()(explain)
app.command()(node)
app.command()(replay)
app.command()(top)
app.command()(why)
app.add_typer(npu, name="npu")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"kvferry {__version__}")
        raise typer.Exit


@app.callback()
def kvferry(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Moves LLM KV cache between processes by one-sided transfer."""


def main() -> None:
    """What the command runs. An error of ours is one line and exit status 2."""
    try:
        app()
    except Error as error:
        print(f"kvferry: {error}", file=sys.stderr)
        sys.exit(REFUSED)

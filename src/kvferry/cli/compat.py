"""``kvferry compat``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError

__all__ = ["compat"]


def compat(
    name: Annotated[str, typer.Argument(help="mooncake or hixl")],
    env: Annotated[
        bool, typer.Option("--env", help='print what eval "$(...)" needs to find it')
    ] = False,
) -> None:
    """Says what kvferry offers under another package's name, and makes programs find it."""
    from .. import compat as packages

    offer = packages.OFFERS.get(name)
    if offer is None:
        known = ", ".join(packages.OFFERS)
        raise UsageError(f"there is no {name!r}, only {known}", cause="no_package")
    if env:
        trees = Path(packages.__file__).parent
        print(packages.exports(packages.places(name, trees, Path(sys.executable))))
        return
    print(f"has    {offer.has}\nlacks  {offer.lacks}")

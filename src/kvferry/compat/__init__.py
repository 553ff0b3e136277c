"""Importable packages under the names of others, so that programs written for those run on kvferry.

    compat/NAME/          a directory for PYTHONPATH
        NAME/             the package, imported as NAME and never as kvferry.compat.NAME.NAME
        bin/              commands of that package, for PATH; not every one has any

`kvferry compat NAME --env` prints what makes a shell, and every process below it, find one.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

__all__ = ["OFFERS", "Offer", "Places", "exports", "places"]


class Offer(NamedTuple):
    """What a package has and what it has not, a line each."""

    has: str
    lacks: str


OFFERS = {
    "mooncake": Offer(
        "mooncake.engine and mooncake.store over host memory, and the commands mooncake_master, "
        "mooncake_client, mooncake_http_metadata_server",
        "no device memory, no peers that run Mooncake; etcd and redis are not asked",
    ),
    "hixl": Offer(
        "hixl (Hixl: registering, connecting, one-sided transfers, notifies over host memory)",
        "no device memory, and no peers that run HIXL",
    ),
}


class Places(NamedTuple):
    """What a package adds to a process's search paths, first come first searched."""

    path: tuple[Path, ...]
    pythonpath: tuple[Path, ...]


def places(name: str, trees: Path, python: Path) -> Places:
    """Of the package `name`, whose tree lies in `trees`, for the interpreter `python`."""
    tree = trees / name
    commands = [tree / "bin"] if (tree / "bin").is_dir() else []
    return Places((*commands, python.parent), (tree,))


def exports(added: Places) -> str:
    """Two lines for a POSIX shell. Raises nothing: whatever a path holds, it is quoted."""
    path = ":".join(shlex.quote(str(each)) for each in added.path)
    pythonpath = ":".join(shlex.quote(str(each)) for each in added.pythonpath)
    before = "${PYTHONPATH:+:$PYTHONPATH}"
    return f'export PATH={path}:"$PATH";\nexport PYTHONPATH={pythonpath}"{before}"'

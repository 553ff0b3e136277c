"""What both commands do with their command line, and with what keeps them from running."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from kvferry import config
from kvferry.errors import Error

from ..web import Server
from .flag_file import flags_in
from .flags import BadFlag, Flag, Flags, Value, help_of, read
from .logging_flags import log_as

__all__ = ["listening", "run", "token_from"]

WRONG = 1  # the status of a command that could not do what it was asked to


def run(
    name: str, known: tuple[Flag, ...], words: Sequence[str] | None, work: Callable[[Flags], None]
) -> None:
    """Do the work as the flags say. What is wrong with them, or goes wrong then, is one line."""
    try:
        flags = _flags(known, sys.argv[1:] if words is None else words)
        if flags.help:
            print(f"{name}\n{help_of(known)}")  # noqa: T201  what was asked for
            return
        log_as(flags)
        work(flags)
    except (BadFlag, Error, OSError) as error:
        _end(name, error)


def listening(make: Callable[[str, int], Server], host: str, port: int) -> Server:
    """Raises BadFlag, with the address, where nobody can listen there."""
    try:
        return make(host, port)
    except OSError as error:
        raise BadFlag(f"{host}:{port}: {error.strerror}") from None


def token_from(options: config.Options) -> str:
    """Where the token is, without the token."""
    return "KVFERRY_TOKEN" if options.token is not None else str(options.token_file)


def _flags(known: tuple[Flag, ...], words: Sequence[str]) -> Flags:
    """The line, over a file that it names."""
    flags = read(known, words, {})
    path = flags.values.get("config_path")
    return flags if not path or flags.help else read(known, words, _file(str(path), known))


def _file(path: str, known: tuple[Flag, ...]) -> dict[str, Value]:
    try:
        return flags_in(path, Path(path).read_text("utf-8"), known)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFlag(f"--config_path: {path}: {error}") from None


def _end(name: str, error: Exception) -> NoReturn:
    print(f"{name}: {error}", file=sys.stderr)  # noqa: T201  there may be no log yet
    sys.exit(WRONG)

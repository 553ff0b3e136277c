"""A trace from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import UsageError
from .formats import FORMATS, Format, format_of
from .lines import LONGEST, BadLine, Torn, lines_of
from .trace import Call, Trace, trace_of

__all__ = ["read_trace"]


def read_trace(
    file: Path,
    *,
    format: str | None = None,
    block_tokens: int | None = None,
    skip_bad: bool = False,
) -> Trace:
    """All requests of a file, which may be compressed with gzip.

    format        one of FORMATS; None: what the first line looks like
    block_tokens  in place of those that the format says
    skip_bad      lines that are none are counted and passed over

    Raises UsageError: the file cannot be read (trace), it is of no known format (format), a line
    is bad (bad_line; number and reason are told), there is no request in it (empty).
    """
    if block_tokens is not None and block_tokens <= 0:
        raise UsageError(f"blocks of {block_tokens} tokens are none", cause="block_tokens")
    reader = _Reader(file, _chosen(file, format), block_tokens, skip_bad)
    calls = list(reader)
    if not calls:
        bad = f" but {reader.skipped} bad lines" if reader.skipped else ""
        raise UsageError(f"{file}: there is no request in it{bad}", cause="empty")
    return trace_of(calls, reader.form.name, reader.block_tokens, reader.skipped)


def _chosen(file: Path, name: str | None) -> Format:
    known = ", ".join(FORMATS)
    if name is not None:
        if name not in FORMATS:
            raise UsageError(f"format {name!r} is not one of {known}", cause="format")
        return FORMATS[name]
    first = _first(file)
    found = format_of(first)
    if found is None:
        told = repr(first[:60].decode(errors="replace").strip())
        raise UsageError(
            f"{file}: begins with {told}, which is none of the formats {known}", cause="format"
        )
    return found


def _first(file: Path) -> bytes:
    try:
        for _, line in lines_of(file):
            return line
    except Torn as torn:
        raise UsageError(f"{file}, line {torn.after + 1}: {torn}", cause="bad_line") from None
    raise UsageError(f"{file}: there is no request in it", cause="empty")


class _Reader:
    """The requests of a file, once; knows how many lines were passed over."""

    def __init__(self, file: Path, form: Format, block_tokens: int | None, skip_bad: bool) -> None:
        self.form = form
        self.skipped = 0
        self._file = file
        self._asked = block_tokens
        self._skip_bad = skip_bad
        self._own = 0  # tokens of a block, as the lines say

    @property
    def block_tokens(self) -> int:
        return self._own or (self.form.block_tokens and (self._asked or self.form.block_tokens))

    def __iter__(self) -> Iterator[Call]:
        try:
            for number, line in lines_of(self._file):
                try:
                    yield from self._calls(number, line)
                except BadLine as bad:
                    self._bad(number, str(bad))
        except Torn as torn:
            self._bad(torn.after + 1, str(torn))

    def _calls(self, number: int, line: bytes) -> list[Call]:
        if len(line) > LONGEST:
            raise BadLine(f"longer than {LONGEST} bytes")
        if self.form.header(line):
            return []
        read = self.form.read(line, number, self._asked or self.form.block_tokens)
        if read.block_tokens != (self._own or read.block_tokens):
            raise BadLine(f"blocks of {read.block_tokens} tokens, others of {self._own}")
        for call in read.calls:
            _check(call)
        self._own = read.block_tokens
        return read.calls

    def _bad(self, number: int, why: str) -> None:
        if not self._skip_bad:
            raise UsageError(f"{self._file}, line {number}: {why}", cause="bad_line")
        self.skipped += 1


def _check(call: Call) -> None:
    if not np.isfinite(call.at):
        raise BadLine("a time that is no number")
    rising = bool((call.ids[1:] > call.ids[:-1]).all())
    if not rising and len(np.unique(call.ids)) < len(call.ids):
        raise BadLine("a block is named twice: an id stands for all of the prefix that ends there")

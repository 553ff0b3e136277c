"""Lines of a file, plain or compressed with gzip, with their numbers."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from ..errors import UsageError

__all__ = ["LONGEST", "BadLine", "Torn", "lines_of"]

LONGEST = 16 << 20  # bytes
GZIP = b"\x1f\x8b"


class BadLine(ValueError):
    """What is wrong with a line; who reads the file knows its number."""


class Torn(Exception):
    """The file ends, or cannot be decompressed, after so many lines; why."""

    def __init__(self, after: int, why: str) -> None:
        super().__init__(why)
        self.after = after


def lines_of(file: Path) -> Iterator[tuple[int, bytes]]:
    """Number and text of each line that is not empty.

    Raises Torn, and UsageError for a file that cannot be opened. Of a line longer than LONGEST the
    first LONGEST + 1 bytes come, which no format accepts; the rest of it is passed over.
    """
    number = 0
    try:
        with _open(file) as stream:
            while line := stream.readline(LONGEST + 1):
                number += 1
                if len(line) > LONGEST:
                    _pass_over(stream)
                if line.strip():
                    yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Torn(number, f"cannot be decompressed: {error}") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}", cause="trace") from None


def _pass_over(stream: BinaryIO) -> None:
    while (more := stream.readline(LONGEST)) and not more.endswith(b"\n"):
        pass


def _open(file: Path) -> BinaryIO:
    with file.open("rb") as stream:
        packed = stream.read(len(GZIP)) == GZIP
    return cast(BinaryIO, gzip.open(file, "rb") if packed else file.open("rb"))

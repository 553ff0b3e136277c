"""Request traces in Mooncake's format: a JSON object a line, plain or compressed with gzip."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import msgspec
import numpy as np

from ..errors import UsageError
from .layouts import Ids

__all__ = ["Request", "forever", "read_trace"]

LINE_LIMIT = 4 << 20
GZIP = b"\x1f\x8b"

Natural = Annotated[int, msgspec.Meta(ge=0)]


class Request(msgspec.Struct, frozen=True):
    """timestamp      milliseconds since the trace began
    input_length   tokens
    output_length  tokens
    hash_ids       one for each block of the input; equal ids have equal contents
    """

    timestamp: float
    input_length: Natural
    output_length: Natural
    hash_ids: list[Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]]


def read_trace(file: Path) -> Iterator[Request]:
    """Requests one by one, as they are asked for. Empty lines are skipped.

    Raises UsageError with the number of the line for what is no request, is longer than 4 MiB, or
    cannot be decompressed.
    """
    decoder = msgspec.json.Decoder(Request)
    number = 0
    try:
        with _open(file) as stream:
            while line := stream.readline(LINE_LIMIT + 1):
                number += 1
                if len(line) > LINE_LIMIT:
                    raise _bad(file, number, f"longer than {LINE_LIMIT} bytes")
                if line.strip():
                    yield decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise _bad(file, number, str(error)) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _bad(file, number + 1, f"cannot be decompressed: {error}") from None
    except UnicodeDecodeError:
        raise _bad(file, number, "not UTF-8") from None
    except OSError as error:
        raise UsageError(f"trace {file}: {error.strerror or error}", cause="trace") from None


def forever(file: Path) -> Iterator[Ids]:
    """The blocks of each request that has any, from the beginning again after the last."""
    while True:
        found = False
        for request in read_trace(file):
            if request.hash_ids:
                found = True
                yield np.array(request.hash_ids, np.int64)
        if not found:
            raise UsageError(f"trace {file}: no request has a block", cause="trace")


def _open(file: Path) -> BinaryIO:
    with file.open("rb") as stream:
        compressed = stream.read(len(GZIP)) == GZIP
    return cast(BinaryIO, gzip.open(file)) if compressed else file.open("rb")


def _bad(file: Path, line: int, what: str) -> UsageError:
    return UsageError(f"trace {file}, line {line}: {what}", cause="trace")

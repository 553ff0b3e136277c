"""A model, its tokenizer, or both, out of one GGUF file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ...errors import UsageError
from .config import Config, config_of
from .header import Header, read_header
from .llama import Llama
from .tokenizer import Tokenizer
from .weights import read_weights

__all__ = ["load", "load_config", "load_model", "load_tokenizer", "sha256_of"]

LOT = 1 << 20  # bytes
THREADS = 4  # at most; more wait for each other


def load(path: Path) -> tuple[Llama, Tokenizer]:
    """Both, with the header read once.

    The file is closed on return and may go. Blocks for about a second per 100 MB. Raises
    UsageError: model_file (names the field or tensor, what it is and what it has to be),
    demo_extra (a package is missing).
    """
    with _opened(path) as (file, header):
        tokenizer = Tokenizer(header.fields)
        return _model(file, header), tokenizer


def load_model(path: Path) -> Llama:
    """As `load`."""
    with _opened(path) as (file, header):
        return _model(file, header)


def load_config(path: Path) -> Config:
    """As `load_tokenizer`."""
    with _opened(path) as (_, header):
        return config_of(header.fields)


def load_tokenizer(path: Path) -> Tokenizer:
    """As `load`, but reads no weights, and is quick."""
    with _opened(path) as (_, header):
        return Tokenizer(header.fields)


def sha256_of(file: BinaryIO) -> str:
    """Of all that is left of it, in hexadecimal."""
    digest, lot = hashlib.sha256(), bytearray(LOT)
    while count := file.readinto(lot):  # type: ignore[attr-defined]
        digest.update(memoryview(lot)[:count])
    return digest.hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, Header]]:
    try:
        with open(path, "rb") as file:
            yield file, read_header(file)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", cause="model_file") from error
    except UsageError as error:
        if error.cause != "model_file":
            raise
        raise UsageError(f"{path}: {error.args[0]}", cause="model_file") from None


def _model(file: BinaryIO, header: Header) -> Llama:
    config = config_of(header.fields)
    threads = min(THREADS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(1) as beside:
        file.seek(0)
        revision = beside.submit(sha256_of, file)
        weights = read_weights(file.fileno(), header, config, threads)
        return Llama(config, weights, revision.result())

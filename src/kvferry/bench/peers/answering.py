"""What every process that runs another package has: memory, an output of its own, answers."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

import msgspec
import numpy as np

from .. import verify
from .messages import Answer

__all__ = ["answer_of", "make_side", "take_output"]


def take_output() -> BinaryIO:
    """Standard output is ours alone: what a package prints goes where its errors go."""
    ours = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(ours, "wb")


def make_side(size: int) -> verify.Words:
    """Memory of this process alone, in huge pages where there are any, each page touched."""
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    words = np.frombuffer(memory, np.uint64)
    verify.poison(words)
    return words


def answer_of(carry_out: Callable[[], object]) -> Answer:
    """What is carried out gives; or why it gives nothing."""
    try:
        value = carry_out()
    except ImportError as error:
        return Answer(error=str(error), absent=True)
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {error}")
    return Answer(msgspec.Raw(msgspec.json.encode(value)))

"""What is asked of a package that moves blocks. Imported by the processes of a pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from .messages import Blocks

__all__ = ["Ids", "Package", "offsets"]

Ids = npt.NDArray[np.int64]


class Package(ABC):
    """One end. Made with the side it may move, from `address` on, registered at once.

    The package itself is imported when its first end is made: ImportError if it cannot be.

    install    what pip calls it
    transport  how bytes cross, of what it offers
    pause      seconds between two calls of attend; None: it needs none, its threads do the work
    """

    install: ClassVar[str]
    transport: ClassVar[str]
    pause: ClassVar[float | None]

    @abstractmethod
    def __init__(self, address: int, size: int) -> None: ...

    @abstractmethod
    def card(self) -> bytes:
        """What the other end needs to meet this one."""

    @abstractmethod
    def meet(self, card: bytes, address: int) -> None:
        """Get to know the other end, whose side begins at `address` in its own process."""

    @abstractmethod
    def call(self, op: str, blocks: Sequence[Blocks]) -> Callable[[], None]:
        """A call that moves the blocks, and returns when they are there; made ready, not made.

        It raises RuntimeError when they are not moved.
        """

    @abstractmethod
    def attend(self) -> None:
        """Called on the target again and again while the initiator calls."""


def offsets(blocks: Sequence[Blocks]) -> tuple[Ids, Ids, Ids]:
    """Where each block begins on the initiator's side and on the target's, and its length."""
    return (
        np.concatenate([each.base + each.ours * each.block for each in blocks]),
        np.concatenate([each.base + each.theirs * each.block for each in blocks]),
        np.concatenate([np.full(len(each.ours), each.block, np.int64) for each in blocks]),
    )

"""What is asked of a store. Imported by the processes that use one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..verify import Words
from .messages import Open, Opened
from .tasks import Op

__all__ = ["Key", "Slots", "Subject", "views"]

Key = str
Slots = Sequence[int]


class Subject(ABC):
    """A store in use by this process, which moves values between it and blocks of `side`.

    The store's package is imported when this is made: ImportError if it cannot be.
    """

    @abstractmethod
    def __init__(self, wanted: Open, side: Words) -> None: ...

    @property
    def opened(self) -> Opened:
        return Opened()

    @abstractmethod
    def call(self, op: Op, keys: list[Key], slots: Slots, block: int) -> Callable[[], Any]:
        """A call made ready, not made: of one key, or of a batch, as `op` says."""

    @abstractmethod
    def good(self, op: Op, result: Any) -> int:
        """How many keys were found or stored, by what a call returned."""

    @abstractmethod
    def remove(self, keys: list[Key]) -> None:
        """As far as they are there."""

    @abstractmethod
    def close(self) -> None: ...


def views(side: Words, slots: Slots, block: int) -> list[memoryview]:
    """Blocks of a side as buffers."""
    whole = memoryview(side).cast("B")
    return [whole[at * block : (at + 1) * block] for at in slots]

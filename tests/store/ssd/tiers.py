"""A node with an SSD tier and a user of it, and disks that do what a test wants."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kvferry import Engine
from kvferry.store import Limits, Store
from kvferry.store.node import Node, Service
from kvferry.store.ssd import Ssd
from tests.store.settings import sound

__all__ = ["MIB", "Faulty", "Made", "keys_of", "made", "until", "value", "written"]

MIB = 1 << 20
PATIENCE = 15.0


class Made(NamedTuple):
    node: Node
    user: Store

    @property
    def ssd(self) -> dict[str, int]:
        assert self.node.tier is not None
        return self.node.tier.figures()

    def flush(self) -> None:
        """All that is in memory is on the disk."""
        assert self.node.tier is not None
        assert self.node.tier.flush(PATIENCE)

    def put(self, keys: list[str], size: int) -> None:
        """Into memory and from there to the disk, none of them lost on the way."""
        for key in keys:
            assert self.user.put(key, value(key, size)), key
            self.flush()


@contextmanager
def made(folder: Path, size: int = 16 * MIB, disk: Any = os, **wanted: Any) -> Iterator[Made]:
    wanted.setdefault("limits", Limits(high=1.0, low=1.0))
    wanted.setdefault("size", MIB)
    with Engine(f"unix://{folder}/node") as engine:
        node = Node(engine, ssd=Ssd(folder / "ssd", size, disk), **wanted)
        service = Service(node)
        try:
            with Store(f"unix://{folder}/node") as user:
                yield Made(node, user)
            assert sound(node) == []
            assert node.tier is not None
            assert node.tier.check_integrity() == []
        finally:
            service.close()


def value(key: str, size: int, version: int = 0) -> bytes:
    """Bytes that follow from the key, the version and the size."""
    word = f"{key}/{version}/{size}/".encode()
    return (word * (size // len(word) + 1))[:size]


def keys_of(count: int, name: str = "key") -> list[str]:
    return [f"{name} {at}" for at in range(count)]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)


def written(folder: Path) -> int:
    """Bytes of all files of a tier."""
    return sum(path.stat().st_size for path in (folder / "ssd").iterdir())


class Faulty:
    """The os module, whose writes wait or fail while they are told to."""

    def __init__(self) -> None:
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.waiting = threading.Event()
        self.fails_with: int | None = None

    def pwrite(self, fd: int, data: Any, at: int) -> int:
        if not self.open_gate.is_set():
            self.waiting.set()
        self.open_gate.wait(PATIENCE)
        if self.fails_with is not None:
            raise OSError(self.fails_with, os.strerror(self.fails_with))
        return os.pwrite(fd, data, at)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


FULL, BROKEN = errno.ENOSPC, errno.EIO

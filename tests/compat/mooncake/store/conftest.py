"""One master and one client that contributes memory, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kvferry.testing import Child, spawn

from .town import MIB, SIZE, client, made, master


class Other:
    """A client in another process."""

    def __init__(self, child: Child) -> None:
        said = child.hear()
        assert said["code"] == 0
        self.child = child
        self.name: str = said["name"]
        self.memory: int = said["memory"]

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.child.ask([name, *arguments])


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with spawn(master) as child:
        yield child.hear()


@pytest.fixture(scope="session")
def other(address: str) -> Iterator[Other]:
    with spawn(client, address, SIZE) as child:
        yield Other(child)


@pytest.fixture
def store(address: str, other: Other) -> Iterator[Any]:
    """In this process; it contributes memory, too."""
    mine = made(address)
    yield mine
    mine.close()


@pytest.fixture
def memory(store: Any) -> Iterator[Any]:
    """A MiB that the store may use: the numbers 0 to 255 again and again."""
    array = np.arange(MIB, dtype=np.uint64).astype(np.uint8)
    assert store.register_buffer(array.ctypes.data, MIB) == 0
    yield array
    assert store.unregister_buffer(array.ctypes.data) == 0

"""The package that is tested on the path, and engines that end with their test."""

from __future__ import annotations

import ctypes
import logging
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

FOLDER = Path(__file__).parents[3] / "src/kvferry/compat/hixl"
sys.path.insert(0, str(FOLDER))

import hixl  # noqa: E402

MIB = 1 << 20
FABRIC = {hixl.OPTION_ENABLE_USE_FABRIC_MEM: "1"}
DIRECT = {hixl.OPTION_ENABLE_USE_FABRIC_MEM: "0"}
AUTO = {hixl.OPTION_AUTO_CONNECT: "1"}


def free_address() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def bytes_at(address: int, length: int) -> npt.NDArray[np.uint8]:
    """A view, as a program in another language would have it: it keeps nothing alive."""
    return np.frombuffer((ctypes.c_char * length).from_address(address), np.uint8)


class Side(NamedTuple):
    """An engine and some of its memory."""

    name: str
    engine: hixl.Hixl
    address: int
    handle: int
    length: int

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        return bytes_at(self.address, self.length)


Start = Callable[..., hixl.Hixl]
MakeSide = Callable[..., Side]


@pytest.fixture
def start() -> Iterator[Start]:
    """An initialized engine; by default one that listens nowhere."""
    with ExitStack() as undo:

        def make(name: str = "127.0.0.1", options: Mapping[str, str] | None = None) -> hixl.Hixl:
            engine = hixl.Hixl()
            undo.callback(engine.finalize)
            assert engine.initialize(name, dict(options or {})) == hixl.SUCCESS
            return engine

        yield make


@pytest.fixture
def side(start: Start) -> MakeSide:
    """An engine that listens, with memory that malloc_mem gave and that is registered."""

    def make(options: Mapping[str, str] | None = None, length: int = MIB) -> Side:
        name = free_address()
        engine = start(name, options)
        status, address = engine.malloc_mem(hixl.MEM_HOST, length)
        assert status == hixl.SUCCESS
        status, handle = engine.register_mem(hixl.MemDesc(address, length), hixl.MEM_HOST)
        assert status == hixl.SUCCESS
        return Side(name, engine, address, handle, length)

    return make


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What the package has logged."""
    caplog.set_level(logging.INFO, logger="hixl")

    def text() -> str:
        return "\n".join(each.getMessage() for each in caplog.records if each.name == "hixl")

    return text

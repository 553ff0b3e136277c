"""A CannRuntime on the software NPU, in processes that are children of the tests.

The library keeps state for its whole process, so nothing of it happens in the tests' own. A worker
does one job after the other: each finalises what the one before initialised, sets NPU_* anew, and
ends with empty books.
"""

from __future__ import annotations

import ctypes
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvferry.errors import Error
from kvferry.runtime import Access, Allocation, Mapping, Place, Reservation, ShareHandle
from kvferry.runtime.cann import Code, Library, open_library
from kvferry.runtime.cann.addresses import CAPACITY, START
from kvferry.runtime.cann.enums import MemcpyKind
from kvferry.runtime.cann.ipc import CannIpcRuntime
from kvferry.runtime.cann.runtime import CannRuntime
from kvferry.testing import Child, Parent
from tests.npu.acl import LIBRARY

HUGE, GIANT = 2 << 20, 1 << 30
BOOKS = (
    "allocations",
    "reservations",
    "mappings",
    "handles",
    "streams",
    "contexts",
    "registrations",
    "imports",
)
EMPTY = dict.fromkeys(BOOKS, 0)
ALONE = {"reservations": 1, "contexts": 2}  # what a runtime with no memory holds
BOTH = (Place.DEVICE, Place.HOST)


def library(**environ: str) -> Library:
    """The software NPU with these settings, not initialised."""
    for name in [name for name in os.environ if name.startswith("NPU_")]:
        del os.environ[name]
    os.environ.update({"NPU_QUIET": "1", **environ})
    opened = copy(_opened())
    opened.call("aclFinalize", allow=(Code.UNINITIALIZE,))
    return opened


@cache
def _opened() -> Library:
    return open_library(str(LIBRARY))


class Recorded(Library):
    """A library that notes which functions are called."""

    names: list[str]

    @classmethod
    def of(cls, whole: Library) -> Recorded:
        made = cls.__new__(cls)
        made.__dict__.update(whole.__dict__)
        made.names = []
        return made

    def call(self, name: str, *arguments: object, allow: Any = ()) -> int:
        self.names.append(name)
        return super().call(name, *arguments, allow=allow)


def books() -> dict[str, int]:
    """What this process holds."""
    counts = (ctypes.c_uint64 * len(BOOKS))()
    ctypes.CDLL(str(LIBRARY)).npu_books(counts)
    return dict(zip(BOOKS, counts, strict=True))


def held() -> dict[str, int]:
    """The books without what is zero."""
    return {name: count for name, count in books().items() if count}


@contextmanager
def runtime(
    device: int = 0,
    *,
    library_: Library | None = None,
    ipc: bool = False,
    options: dict[str, Any] | None = None,
    **environ: str,
) -> Iterator[CannRuntime]:
    """A runtime, after which nothing is left."""
    kind = CannIpcRuntime if ipc else CannRuntime
    made = kind(library_ or library(**environ), device, **(options or {}))
    try:
        yield made
    finally:
        made.close()
    assert books() == EMPTY


def mapped(on: CannRuntime, memory: Allocation, access: Access = Access.WRITE) -> Mapping:
    """At addresses that go with the mapping."""
    with on.reserve(memory.size) as room:
        return on.map(memory, room, access)


def store(mapping: Mapping, data: bytes, offset: int = 0) -> None:
    if mapping.reach is None:
        memoryview(mapping.view)[offset : offset + len(data)] = data
    else:
        assert mapping.reach.store(mapping.address + offset, data) == 0


def load(mapping: Mapping, length: int, offset: int = 0) -> bytes:
    if mapping.reach is None:
        return bytes(memoryview(mapping.view)[offset : offset + length])
    got = bytearray(length)
    assert mapping.reach.load(mapping.address + offset, got) == 0
    return bytes(got)


def ferry(on: CannRuntime, to: int, source: int, length: int) -> None:
    """Copy between what the device reaches, on a stream of its own."""
    call = on.library.call
    with on.device.using():
        stream = on.device.made("aclrtCreateStream")
        kind = MemcpyKind.DEVICE_TO_DEVICE
        try:
            call("aclrtMemcpyAsync", to, length, source, length, kind, stream)
            call("aclrtSynchronizeStream", stream)
        finally:
            call("aclrtDestroyStream", stream)


def packed(handle: ShareHandle) -> list[Any]:
    """As JSON."""
    return [handle.size, handle.page, handle.access.value, handle.kind, handle.data.hex()]


def unpacked(told: list[Any]) -> ShareHandle:
    size, page, access, kind, data = told
    return ShareHandle(None, size, page, Access(access), kind, bytes.fromhex(data))


def work(parent: Parent) -> None:
    """Calls what it is told: file of this folder, function and arguments."""
    for file, name, arguments in parent:
        try:
            job = getattr(import_module(f"tests.runtime.cann.{file}"), name)
            outcome = {"returned": job(parent, **arguments)}
        except BaseException:
            outcome = {"raised": traceback.format_exc()}
        parent.tell(outcome)


class Worker:
    """A process in `work`."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.tell = child.tell

    def begin(self, job: Callable[..., Any], **arguments: Any) -> None:
        self.child.tell([Path(job.__code__.co_filename).stem, job.__name__, arguments])

    def hear(self) -> Any:
        """What the job tells next, or {"returned": what}; AssertionError when it raised."""
        said = self.child.hear()
        if isinstance(said, dict):
            assert "raised" not in said, said["raised"]
        return said

    def ask(self, value: Any) -> Any:
        self.tell(value)
        return self.hear()

    def result(self) -> Any:
        return self.hear()["returned"]

    def do(self, job: Callable[..., Any], **arguments: Any) -> Any:
        self.begin(job, **arguments)
        return self.result()


def why(call: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
    """How a call is refused: the error, its cause and the vendor's code."""
    with pytest.raises(Error) as refused:
        call(*arguments, **named)
    return [type(refused.value), refused.value.cause, refused.value.code]


def is_high(room: Reservation) -> bool:
    """Is it where only the A3 reserves, by default?"""
    return START <= room.address < START + CAPACITY


class Two(NamedTuple):
    owner: Worker
    user: Worker

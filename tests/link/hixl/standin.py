"""A stand-in for the vendor's `hixl` module, made from its listed signatures, within one process.

It keeps the contract: a result is told once; a connection shows what both sides had registered when
it was made; the same range again gives the same handle; under FabricMem nothing is deregistered
while connected. Bytes move when a request is submitted, or when a held one is released.

A test says what goes wrong: `answer` makes the next calls of a method return a status, `hold` keeps
requests waiting, `calls` is what was called, in order.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import ModuleType
from typing import NamedTuple

SUCCESS = 0
PARAM_INVALID = 103900
TIMEOUT = 103901
NOT_CONNECTED = 103902
ALREADY_CONNECTED = 103903
NOTIFY_FAILED = 103904
UNSUPPORTED = 103905
RESOURCE_EXHAUSTED = 203900
FAILED = 503900
STATUSES = (
    PARAM_INVALID,
    TIMEOUT,
    NOT_CONNECTED,
    ALREADY_CONNECTED,
    NOTIFY_FAILED,
    UNSUPPORTED,
    RESOURCE_EXHAUSTED,
    FAILED,
)


class MemType(IntEnum):
    MEM_DEVICE = 0
    MEM_HOST = 1


class TransferOp(IntEnum):
    READ = 0
    WRITE = 1


class TransferStatus(IntEnum):
    WAITING = 0
    COMPLETED = 1
    TIMEOUT = 2
    FAILED = 3


class MemDesc(NamedTuple):
    addr: int
    len: int


class TransferOpDesc(NamedTuple):
    local_addr: int
    remote_addr: int
    len: int


class Request(NamedTuple):
    remote: str
    op: TransferOp
    descriptors: tuple[TransferOpDesc, ...]


class StandIn(ModuleType):
    """One such module, with the engines of its process; a test has one of its own."""

    MemType, TransferOp, TransferStatus = MemType, TransferOp, TransferStatus
    MemDesc, TransferOpDesc = MemDesc, TransferOpDesc

    def __init__(self) -> None:
        super().__init__("hixl")
        self.lock = threading.RLock()
        self.engines: dict[str, Engine] = {}
        self.calls: list[str] = []
        self.held = False
        self.gates: dict[str, threading.Event] = {}  # a call of this method waits for it
        self.numbers = itertools.count(1)
        self._answers: defaultdict[str, deque[int]] = defaultdict(deque)
        module = self

        class Hixl(Engine):
            def __init__(self) -> None:
                super().__init__(module)

        self.Hixl = Hixl

    def answer(self, method: str, *statuses: int) -> None:
        """The next calls of `method` return these, and do nothing."""
        self._answers[method].extend(statuses)

    def hold(self) -> None:
        """Requests wait from now on."""
        self.held = True

    def release(self) -> None:
        """Those that wait move now, and all that come."""
        with self.lock:
            self.held = False
            for engine in self.engines.values():
                engine.move_all()

    def said(self, method: str) -> int | None:
        self.calls.append(method)
        gate = self.gates.get(method)
        if gate is not None:
            assert gate.wait(20)
        with self.lock:
            return self._answers[method].popleft() if self._answers[method] else None


class Engine:
    """What the module calls Hixl."""

    def __init__(self, module: StandIn) -> None:
        self._module = module
        self._name = ""
        self._options: dict[str, str] = {}
        self.registered: dict[int, tuple[MemDesc, MemType]] = {}
        self.connected: dict[str, tuple[list[MemDesc], list[MemDesc]]] = {}
        self.requests: dict[int, Request] = {}
        self.over: dict[int, TransferStatus] = {}

    def initialize(self, local_engine: str, options: Mapping[str, str] = {}) -> int:
        module = self._module
        if (status := module.said("initialize")) is not None:
            return status
        if local_engine in module.engines:
            return FAILED
        self._name, self._options = local_engine, dict(options)
        module.engines[local_engine] = self
        return SUCCESS

    def finalize(self) -> None:
        self._module.said("finalize")
        self._module.engines.pop(self._name, None)

    def register_mem(self, mem: MemDesc, mem_type: MemType) -> tuple[int, int]:
        assert isinstance(mem, MemDesc)
        assert isinstance(mem_type, MemType)
        if (status := self._module.said("register_mem")) is not None:
            return status, 0
        for handle, (known, _) in self.registered.items():
            if known == mem:
                return SUCCESS, handle
            if known.addr < mem.addr + mem.len and mem.addr < known.addr + known.len:
                return PARAM_INVALID, 0
        handle = next(self._module.numbers)
        self.registered[handle] = (mem, mem_type)
        return SUCCESS, handle

    def deregister_mem(self, handle: int) -> int:
        if (status := self._module.said("deregister_mem")) is not None:
            return status
        if self._options.get("EnableUseFabricMem") == "1" and self.connected:
            return FAILED
        self.registered.pop(handle, None)
        return SUCCESS

    def connect(self, remote_engine: str, timeout_in_millis: int = 1000) -> int:
        assert timeout_in_millis > 0
        if (status := self._module.said("connect")) is not None:
            return status
        if remote_engine in self.connected:
            return ALREADY_CONNECTED
        there = self._module.engines.get(remote_engine)
        if there is None:
            return FAILED
        both = (self._memory(), there._memory())
        self.connected[remote_engine] = both
        return SUCCESS

    def disconnect(self, remote_engine: str, timeout_in_millis: int = 1000) -> int:
        if (status := self._module.said("disconnect")) is not None:
            return status
        with self._module.lock:
            if self.connected.pop(remote_engine, None) is None:
                return NOT_CONNECTED
            for number, request in list(self.requests.items()):
                if request.remote == remote_engine:
                    del self.requests[number]
                    self.over.pop(number, None)
        return SUCCESS

    def transfer_async(
        self, remote_engine: str, op: TransferOp, op_descs: Sequence[TransferOpDesc]
    ) -> tuple[int, int]:
        assert isinstance(op, TransferOp)
        module = self._module
        if (status := module.said("transfer_async")) is not None:
            return status, 0
        with module.lock:
            shown = self.connected.get(remote_engine)
            if shown is None:
                return NOT_CONNECTED, 0
            for each in op_descs:
                if not (
                    _inside(each.local_addr, each.len, shown[0])
                    and _inside(each.remote_addr, each.len, shown[1])
                ):
                    return PARAM_INVALID, 0
            number = next(module.numbers)
            self.requests[number] = Request(remote_engine, op, tuple(op_descs))
            if not module.held:
                self.move_all()
        return SUCCESS, number

    def get_transfer_status(self, request: int) -> tuple[int, TransferStatus]:
        module = self._module
        if (status := module.said("get_transfer_status")) is not None:
            return status, TransferStatus.WAITING
        with module.lock:
            if request not in self.requests:
                return PARAM_INVALID, TransferStatus.WAITING
            status = self.over.pop(request, TransferStatus.WAITING)
            if status is not TransferStatus.WAITING:
                del self.requests[request]
        return SUCCESS, status

    def move_all(self) -> None:
        """With the lock of the module: carry out what waits."""
        for number, request in self.requests.items():
            if number in self.over:
                continue
            if request.remote not in self._module.engines:
                self.over[number] = TransferStatus.FAILED
                continue
            for here, there, length in request.descriptors:
                to, source = (here, there) if request.op is TransferOp.READ else (there, here)
                ctypes.memmove(to, source, length)
            self.over[number] = TransferStatus.COMPLETED

    def fail(self, status: TransferStatus = TransferStatus.FAILED) -> None:
        """What waits ends like that."""
        with self._module.lock:
            self.over |= dict.fromkeys(self.requests.keys() - self.over.keys(), status)

    def _memory(self) -> list[MemDesc]:
        return [mem for mem, _ in self.registered.values()]


def _inside(address: int, length: int, ranges: list[MemDesc]) -> bool:
    return any(r.addr <= address and address + length <= r.addr + r.len for r in ranges)


def without(kind: type, name: str) -> type:
    """The class as another version of the module might have it."""
    names = {each for each in dir(kind) if not each.startswith("_")} - {name}
    return type(kind.__name__, (), {each: getattr(kind, each) for each in names})

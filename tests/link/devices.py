"""Device memory to test with: touching it faults, and ACL functions of our own copy there."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from kvferry import _core
from kvferry.memory import Region
from kvferry.runtime import Access, HostRuntime, Mapping

CODE = 507899  # of a driver that failed

HOST_TO_DEVICE = 1

MEMCPY = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
)
GET_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
SET_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Device:
    """
    region   |.... nothing is mapped ....|     what batches name
    memory   |###########################|     where the bytes are

    fails_at  the copy of this number moves half of its bytes and fails with CODE; 0: none does
    copies    how many there were
    spans     what of this process lies in it
    """

    def __init__(self) -> None:
        self.fails_at = self.copies = 0
        self.spans = _core.SpanTable()
        self._memory: dict[int, npt.NDArray[np.uint8]] = {}
        self._runtime = HostRuntime(threads=1)
        functions = MEMCPY(self._memcpy), GET_CONTEXT(lambda _: 0), SET_CONTEXT(lambda _: 0)
        self._kept = functions
        memcpy, get, put = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions)
        calls = _core.AclCalls(
            memcpy=memcpy, memcpy_async=0, query=0, abort=0, get_context=get, set_context=put
        )
        self.reach = _core.AclReach(calls, 1)

    def fail_at(self, number: int) -> None:
        self.copies, self.fails_at = 0, number

    def region(self, serial: int, size: int) -> Region:
        reservation = self._runtime.reserve(size)
        mapping = Mapping(reservation, size, Access.WRITE, lambda: None, self.reach)
        self._memory[mapping.address] = np.zeros(size, np.uint8)
        span = _core.Span(mapping.address, size, mapping.address, True, reach=self.reach)
        self.spans.add(span)
        return Region(serial, f"device {serial}", mapping, size)

    def memory(self, region: Region) -> npt.NDArray[np.uint8]:
        return self._memory[region.address]

    def _memcpy(self, to: int, room: int, source: int, length: int, kind: int) -> int:
        assert room == length
        self.copies += 1
        fails = self.copies == self.fails_at
        if kind == HOST_TO_DEVICE:
            to = self._real(to, length)
        else:
            source = self._real(source, length)
        ctypes.memmove(to, source, length // 2 if fails else length)
        return CODE if fails else 0

    def _real(self, address: int, length: int) -> int:
        for base, memory in self._memory.items():
            if base <= address and address + length <= base + len(memory):
                return memory.ctypes.data + address - base
        raise AssertionError(f"{address:#x} does not lie in the device")

"""The fabric link of a device's library keeps the contract: run by scripts/on-npu."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

import kvferry
from kvferry.engine.memory_runtime import memory_runtime
from kvferry.link import Driver
from kvferry.link.cann import CannDriver
from kvferry.memory import Region
from kvferry.path import SubmitterKind
from kvferry.runtime import Access, Place
from kvferry.runtime.cann import CannRuntime
from kvferry.testing.link_contract import EPOCH, Bench, LinkContract
from kvferry.testing.under_test import on_host

if on_host():
    pytest.skip("the library keeps state for its whole process", allow_module_level=True)


class CannBench(Bench):
    """Regions of `place`, of the runtime that the suite runs on."""

    place = Place.HOST

    def __init__(self, make_driver: Callable[[Bench], Driver], submitter: SubmitterKind) -> None:
        self._undo = ExitStack()
        options = kvferry.config.from_environment()
        lent = memory_runtime(options, host=None)  # type: ignore[arg-type]
        self.device = self._undo.enter_context(lent)
        super().__init__(make_driver, submitter)

    def region(self, size: int, shared: Access = Access.WRITE) -> Region:
        device = self.device
        with ExitStack() as undo:
            allocation = undo.enter_context(device.allocate(size, self.place))
            reservation = undo.enter_context(device.reserve(allocation.size))
            mapping = undo.enter_context(device.map(allocation, reservation, Access.WRITE))
            undo.pop_all()
        number = len(self._regions) + 1
        region = Region(number, f"region {number}", mapping, size, allocation, shared)
        region.store(bytes(size))
        self._regions.append(region)
        self.published.add(region.span)
        return region

    def close(self) -> None:
        super().close()
        self._undo.close()


class OnDevice(CannBench):
    place = Place.DEVICE


class TestHostMemory(LinkContract):
    submitters = (SubmitterKind.INLINE, SubmitterKind.HOST)
    make_bench = CannBench

    @staticmethod
    def make_driver(bench: Bench) -> Driver:
        assert isinstance(bench, CannBench)
        assert isinstance(bench.device, CannRuntime)
        return CannDriver(bench.device, bench.engines, EPOCH)


class TestDeviceMemory(TestHostMemory):
    make_bench = OnDevice

"""The hixl link keeps the contract of links, over the stand-in."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from kvferry import _core
from kvferry.batch import Batch
from kvferry.errors import Error, UsageError
from kvferry.link import Driver, Published
from kvferry.link.hixl import HixlDriver
from kvferry.memory import Region, resolve
from kvferry.path import SubmitterKind
from kvferry.testing.link_contract import Bench, Flying, LinkContract, contents
from tests.link.hixl.standin import StandIn

MIB = 1 << 20


class HixlBench(Bench):
    """Registers every buffer that a batch is made of: HIXL moves registered memory only.

    regions  of either side, by name
    """

    def region(self, *arguments: object) -> Region:
        region = super().region(*arguments)  # type: ignore[arg-type]
        self.owner._regions[region.name] = region  # type: ignore[attr-defined]
        return region

    def start(self, op: int, batch: Batch, done: _core.Done | None = None) -> Flying:
        self._register(batch)
        done = done or _core.Done(self.engines)
        d = resolve(op, batch, self._local, self.table.spans, "the peer")
        for region in self._regions:
            self.driver._regions.setdefault(region.name, region)  # type: ignore[attr-defined]
        lent = self.link.submit(op, d, done, _core.now() + 20_000_000_000, patient=True)
        return Flying(batch, d, done, lent)

    def _register(self, batch: Batch) -> None:
        held = batch.local_held
        if held is not None and held.length:
            name = f"{held.address:#x}+{held.length}"
            if name not in self.driver._regions:  # type: ignore[attr-defined]
                region = Region(1000 + len(self._regions), name, held, held.length)
                self.driver._regions[name] = region  # type: ignore[attr-defined]


MODULE = StandIn()


class TestHixl(LinkContract):
    submitters = (SubmitterKind.HOST,)
    make_bench = HixlBench

    @staticmethod
    def make_driver(_bench: Bench) -> Driver:
        return HixlDriver("1", "{}", {}, MODULE)

    @pytest.fixture(autouse=True)
    def _all_is_over(self) -> Iterator[None]:
        yield
        assert not MODULE.engines

    def test_aborted_under_way_it_becomes_quiet(self, bench: Bench) -> None:
        """HIXL disconnects: what reached the peer is unknown, and the link is over."""
        region = bench.region(8 * MIB)
        here = np.ones(8 * MIB, np.uint8)
        batch = Batch.of(here, bench.attach(region))
        done = _core.Done(bench.engines)
        MODULE.hold()
        flying = bench.start(_core.WRITE, batch, done)
        aborter = threading.Thread(target=bench.link.abort, args=(done,))
        aborter.start()
        assert bench.finish(flying) == _core.LOST
        aborter.join()
        here[:] = 2
        MODULE.release()
        assert contents(region).max() == 0
        assert bench.link.why(done) is not None
        with pytest.raises(Error, match="disconnect"):
            bench.start(_core.WRITE, batch)

    @pytest.mark.parametrize(
        "claims", [{"length": 0}, {"base": 1 << 64}, {"handle": "memfd"}, {"kind": "disk"}]
    )
    def test_what_is_no_range_is_refused(self, bench: Bench, claims: dict[str, object]) -> None:
        record = bench.publish(bench.region(4096)).record
        with pytest.raises(UsageError) as caught:
            bench.link.attach(Published(msgspec.structs.replace(record, **claims), []))
        assert caught.value.cause == "bad_handle"

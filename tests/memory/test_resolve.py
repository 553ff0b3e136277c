"""From a batch to descriptors that hold their regions, or to the error that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvferry import _core
from kvferry.batch import Batch, buffer_of
from kvferry.errors import ClosedError, RightsError, UsageError
from kvferry.memory import Region, RegionTable, resolve

FAR = 1 << 44
PEER = "127.0.0.1:26001"
SIZE = 4096


class Theirs:
    """A region of a peer whose memory lies at another address here."""

    def __init__(self, name: str, base: int, writable: bool = True) -> None:
        self.name = name
        self.memory = np.zeros(SIZE, np.uint8)
        self.span = _core.Span(base, SIZE, self.memory.ctypes.data, writable)


class Side:
    """Our regions and theirs."""

    def __init__(self) -> None:
        self.local: RegionTable[Region] = RegionTable()
        self.remote: RegionTable[Theirs] = RegionTable()
        self.engines = _core.CopyEngines(1)
        self.theirs = [Theirs("a", FAR), Theirs("b", FAR + SIZE), Theirs("c", FAR + (1 << 30))]
        self.fixed = Theirs("fixed", FAR - (1 << 30), writable=False)
        for region in [*self.theirs, self.fixed]:
            self.remote.add(region)
        self.ours = Region(1, "ours", buffer_of(np.zeros(SIZE, np.uint8)), SIZE)
        self.frozen = Region(2, "frozen", buffer_of(bytes(SIZE)), SIZE)
        self.local.add(self.ours)
        self.local.add(self.frozen)

    def resolve(self, op: int, batch: Batch) -> _core.Descriptors:
        return resolve(op, batch, self.local.spans, self.remote.spans, PEER)

    def run(self, op: int, batch: Batch) -> None:
        done = _core.Done(self.engines)
        d = self.resolve(op, batch)
        self.engines.copy_inline(op, d, done)
        assert done.outcome == _core.OK
        d.release()

    @property
    def inside(self) -> int:
        regions = [*self.local.values(), *self.remote.values()]
        return sum(region.span.inside for region in regions)


@pytest.fixture
def side() -> Side:
    return Side()


def test_a_named_region_is_relocated(side: Side) -> None:
    data = np.arange(SIZE).astype(np.uint8)
    side.run(_core.WRITE, Batch.of(data, side.theirs[1]))
    assert np.array_equal(side.theirs[1].memory, data)
    assert not side.theirs[0].memory.any()
    assert side.inside == 0


def test_addresses_of_several_regions_are_each_relocated(side: Side) -> None:
    ours = np.frombuffer(side.ours, np.uint8)
    ours[:] = np.arange(SIZE).astype(np.uint8) + 1
    here = side.ours.address
    # The first two are adjacent there; a descriptor each, for they are not adjacent here.
    bases = [FAR, FAR + SIZE, FAR + (1 << 30) + 500]
    side.run(_core.WRITE, Batch.absolute([here, here + 100, here + 200], bases, 100))
    for index, start in ((0, 0), (1, 0), (2, 500)):
        expected = np.zeros(SIZE, np.uint8)
        expected[start : start + 100] = ours[index * 100 : index * 100 + 100]
        assert np.array_equal(side.theirs[index].memory, expected)
    del ours


def test_it_holds_the_regions_it_uses_and_no_other(side: Side) -> None:
    d = side.resolve(_core.WRITE, Batch.of(side.ours, side.theirs[0]))
    spans = [side.ours.span, side.theirs[0].span]
    assert all(d.holds(span) and span.inside == 1 for span in spans)
    assert side.inside == 2
    d.release()
    assert side.inside == 0


def refusals(side: Side) -> dict[str, tuple[int, Batch, type[Exception], str, Any, Any]]:
    here, there = side.ours.address, FAR
    stranger = Theirs("stranger", FAR + (1 << 20))
    return {
        "unknown remote": (
            _core.WRITE,
            Batch.absolute([here, here], [there, 5], 8),
            UsageError,
            "not_registered",
            1,
            (5, 8),
        ),
        "unknown local": (
            _core.WRITE,
            Batch.absolute([here, 77], there, 8),
            UsageError,
            "not_registered",
            1,
            (77, 8),
        ),
        "leaves remote": (
            _core.READ,
            Batch.absolute(here, there + (1 << 30) + SIZE - 7, 8),
            UsageError,
            "out_of_bounds",
            0,
            (there + (1 << 30) + SIZE - 7, 8),
        ),
        "from one region into the next": (
            _core.WRITE,
            Batch.absolute(here, there + SIZE - 4, 8),
            UsageError,
            "out_of_bounds",
            0,
            (there + SIZE - 4, 8),
        ),
        "leaves local": (
            _core.WRITE,
            Batch.absolute([here, here + SIZE - 1], there, 2),
            UsageError,
            "out_of_bounds",
            1,
            (here + SIZE - 1, 2),
        ),
        "write to read-only": (
            _core.WRITE,
            Batch.of(side.ours, side.fixed),
            RightsError,
            "read_only",
            None,
            None,
        ),
        "write to read-only, by address": (
            _core.WRITE,
            Batch.absolute(here, [FAR, FAR - (1 << 30)], 8),
            RightsError,
            "read_only",
            1,
            (FAR - (1 << 30), 8),
        ),
        "read into a read-only region": (
            _core.READ,
            Batch.of(side.frozen, side.theirs[0]),
            RightsError,
            "read_only",
            None,
            None,
        ),
        "read into a read-only buffer": (
            _core.READ,
            Batch.of(bytes(8), side.theirs[0]),
            RightsError,
            "read_only",
            None,
            None,
        ),
        "a region of nobody": (
            _core.READ,
            Batch.of(bytearray(8), stranger),
            ClosedError,
            "stale_region",
            None,
            None,
        ),
        "a region of the wrong side": (
            _core.READ,
            Batch.of(side.theirs[0], side.theirs[1]),
            ClosedError,
            "stale_region",
            None,
            None,
        ),
    }


@pytest.mark.parametrize("name", refusals(Side()))
def test_refused_before_anything_moves(side: Side, name: str) -> None:
    op, batch, kind, cause, index, span = refusals(side)[name]
    with pytest.raises(kind) as caught:
        side.resolve(op, batch)
    error = caught.value
    assert (error.cause, error.index, error.range) == (cause, index, span)  # type: ignore[attr-defined]
    assert error.peer == PEER  # type: ignore[attr-defined]
    assert error.bytes_moved == 0  # type: ignore[attr-defined]
    assert side.inside == 0


@pytest.mark.parametrize("which", ["local", "remote"])
@pytest.mark.parametrize("by", ["name", "address"])
def test_a_closed_region_is_refused(side: Side, which: str, by: str) -> None:
    (side.ours if which == "local" else side.theirs[0]).span.close()
    batch = (
        Batch.of(side.ours, side.theirs[0])
        if by == "name"
        else Batch.absolute(side.ours.address, FAR, 8)
    )
    with pytest.raises(ClosedError, match=f"the {which} region is gone") as caught:
        side.resolve(_core.WRITE, batch)
    assert caught.value.cause == "stale_region"
    assert side.inside == 0


def test_a_removed_region_is_refused_and_its_successor_is_not_meant(side: Side) -> None:
    batch = Batch.of(side.ours, side.theirs[0])
    side.remote.remove(side.theirs[0])
    successor = Theirs("a", FAR)
    side.remote.add(successor)
    with pytest.raises(ClosedError):
        side.resolve(_core.WRITE, batch)
    side.run(_core.WRITE, Batch.of(np.ones(SIZE, np.uint8), successor))
    assert successor.memory.all()
    assert not side.theirs[0].memory.any()


def test_read_only_memory_may_be_the_source(side: Side) -> None:
    side.run(_core.WRITE, Batch.of(b"\5" * SIZE, side.theirs[0]))
    assert (side.theirs[0].memory == 5).all()
    side.run(_core.WRITE, Batch.of(side.frozen, side.theirs[0]))
    assert not side.theirs[0].memory.any()
    side.fixed.memory[:] = 6
    side.run(_core.READ, Batch.of(side.ours, side.fixed))
    assert bytes(memoryview(side.ours)) == b"\6" * SIZE


def test_a_batch_of_nothing_holds_nothing(side: Side) -> None:
    d = side.resolve(_core.WRITE, Batch.blocks(side.ours, [], side.theirs[0], [], 8))
    assert (len(d), d.bytes, side.inside) == (0, 0, 0)

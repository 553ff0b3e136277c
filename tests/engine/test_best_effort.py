"""Regions that are smaller than asked, or in smaller pages: only where that was permitted."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pytest

import kvferry as kf
from kvferry.engine.regions import MemoryUse, OwnRegions
from kvferry.errors import NoMemory
from kvferry.runtime import Allocation, Grant, HostRuntime, Place, Reservation, commit, memfile
from kvferry.runtime import host as host_module
from kvferry.runtime.vaspace import VaSpace

from .window import window

MIB, GIB = 1 << 20, 1 << 30
PAGE, HUGE = 4096, 2 * MIB
NOTHING = MemoryUse(0, 0, 0)


class Fragmented(HostRuntime):
    """Bytes in one piece by page size, and addresses from a VaSpace; both are never used up.

    Its memory files stay empty, so gigabytes cost nothing.
    """

    def __init__(self, pieces: dict[int, int], addresses: int = 64 * GIB) -> None:
        super().__init__(threads=1)
        self.pieces = pieces
        self.space = VaSpace(GIB, addresses)
        self.asked: list[tuple[int, int]] = []
        self.made: list[Allocation] = []

    def granularity(self, place: Place) -> Sequence[int]:
        return sorted(self.pieces)

    def allocate(self, size: int, place: Place = Place.HOST, page: int = 0) -> Allocation:
        self.asked.append((size, page))
        page = page or max(self.pieces, key=self.pieces.__getitem__)
        granted = -(-size // page) * page
        commit.check(granted, [commit.Room(f"pages of {page}", self.pieces[page])])
        allocation = memfile.create(granted, PAGE)
        allocation.grant = Grant(size, granted, page, 0, ("a note of its own",))
        self.made.append(allocation)
        return allocation

    def reserve(self, size: int, at: int | None = None) -> Reservation:
        self.space.give(self.space.take(size))
        return super().reserve(size, at)


def allocate(
    runtime: HostRuntime, size: int, at_least: float = 1.0, page: int = 0, strict: bool = False
) -> tuple[Grant, MemoryUse, str]:
    """What became of it: the grant, the sums, the region's repr. Nothing is left behind."""
    regions = OwnRegions(runtime, {})
    try:
        region = regions.allocate("kv", size, Place.HOST, page, False, at_least, strict)
    except NoMemory:
        assert regions.memory == NOTHING
        assert "kv" not in regions.table
        raise
    use, grant = regions.memory, region.grant
    assert grant is not None
    assert region.length == min(size, grant.granted)
    with memoryview(region) as view:
        view[-1] = 7
        assert view.nbytes == region.length
    assert regions.withdraw(region)
    regions.free(region)
    assert regions.memory == NOTHING
    return grant, use, repr(region)


def test_the_default_is_all_or_an_error() -> None:
    runtime = Fragmented({HUGE: 9 * GIB})
    with pytest.raises(NoMemory, match=f"asked for {10 * GIB} bytes, {9 * GIB} are available"):
        allocate(runtime, 10 * GIB)
    assert runtime.asked == [(10 * GIB, 0)]


def test_less_in_steps_of_a_gib(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Fragmented({HUGE: 8 * GIB - 1})
    with caplog.at_level(logging.WARNING):
        grant, use, text = allocate(runtime, 10 * GIB, 0.5)
    assert runtime.asked == [(n * GIB, 0) for n in (10, 9, 8, 7)]
    assert grant[:3] == (10 * GIB, 7 * GIB, HUGE)
    assert [note.split(":")[0] for note in grant.notes] == [
        *(f"not {n * GIB} bytes" for n in (10, 9, 8)),
        "a note of its own",
    ]
    assert f"{8 * GIB - 1} are available (pages of {HUGE})" in grant.notes[2]
    assert use == MemoryUse(10 * GIB, 7 * GIB, 1)
    assert f"{7 * GIB} bytes of {10 * GIB} asked" in text
    assert text in caplog.text


def test_less_than_will_do_is_not_taken() -> None:
    runtime = Fragmented({HUGE: 5 * GIB - 1})
    with pytest.raises(NoMemory, match="6 attempts failed") as caught:
        allocate(runtime, 10 * GIB, 0.5)
    assert caught.value.cause == "no_memory"
    assert all(f"not {n * GIB} bytes" in str(caught.value) for n in (10, 9, 8, 7, 6, 5))


def test_smaller_pages_come_after_less() -> None:
    runtime = Fragmented({PAGE: 3 * GIB, HUGE: 3 * GIB, GIB: GIB})
    grant, use, _ = allocate(runtime, 4 * GIB, 0.5, page=GIB)
    assert runtime.asked == [(n * GIB, GIB) for n in (4, 3, 2)] + [(4 * GIB, HUGE), (3 * GIB, HUGE)]
    assert grant[:3] == (4 * GIB, 3 * GIB, HUGE)
    assert len(grant.notes) == 5
    assert use == MemoryUse(4 * GIB, 3 * GIB, 1)


def test_strict_refuses_smaller_pages() -> None:
    runtime = Fragmented({PAGE: 9 * GIB, HUGE: 9 * GIB, GIB: GIB})
    for page in (GIB, 0):
        with pytest.raises(NoMemory, match="3 attempts failed"):
            allocate(runtime, 4 * GIB, 0.5, page=page, strict=True)
    assert {page for _, page in runtime.asked} == {GIB}
    grant, _, _ = allocate(runtime, GIB, 0.5, strict=True)
    assert grant[:3] == (GIB, GIB, GIB)


def test_addresses_in_pieces_are_a_reason_too() -> None:
    """What was allocated for an attempt that found no addresses is let go before the next."""
    runtime = Fragmented({HUGE: 64 * GIB}, addresses=8 * GIB)
    runtime.space.take(3 * GIB)
    grant, _, _ = allocate(runtime, 6 * GIB, 0.5)
    assert (grant.granted, len(runtime.made)) == (5 * GIB, 2)
    assert f"{5 * GIB} in one piece [no_addresses]" in grant.notes[0]
    assert all(each.closed for each in runtime.made)


@pytest.mark.parametrize(
    "wrong", [{"at_least": 0}, {"at_least": 1.1}, {"page": 3}, {"page": 3 * MIB, "strict": True}]
)
def test_what_cannot_be_is_refused_before_anything(wrong: dict[str, float]) -> None:
    with kf.Engine() as engine:
        with pytest.raises(kf.UsageError) as caught:
            engine.allocate("kv", MIB, **wrong)  # type: ignore[arg-type]
        assert caught.value.cause in ("bad_at_least", "bad_page")
        assert engine.memory == NOTHING


@pytest.mark.host_memory("what the machine has left for it")
def test_a_host_with_less_gives_a_region_that_peers_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = [commit.Room("a group of ours", 6 * MIB)]
    with kf.Engine("127.0.0.1:0") as owner, kf.Engine() as engine:
        with monkeypatch.context() as tight:
            tight.setattr(commit, "rooms", lambda read: rooms)
            with pytest.raises(kf.NoMemory, match=r"2 attempts failed: .*a group of ours"):
                owner.allocate("kv", 8 * MIB + 1, at_least=0.9, page=PAGE)
            region = owner.allocate("kv", 8 * MIB + 1, at_least=0.5, page=PAGE)
        length = (8 * MIB + 1) * 7 // 10 // PAGE * PAGE
        assert region.grant is not None
        assert (region.length, *region.grant[:3]) == (length, 8 * MIB + 1, length, PAGE)
        assert "a group of ours" in region.grant.notes[0]
        assert owner.memory == MemoryUse(8 * MIB + 1, length, 1)
        remote = engine.connect(owner.addresses[0]).regions["kv"]
        assert remote.length == length
        data = np.random.default_rng(1).integers(0, 256, length, np.uint8)
        peer = engine.connect(owner.addresses[0])
        peer.write(kf.Batch.of(data, remote, length=length), timeout=10)
        assert np.array_equal(window(region), data)


@pytest.mark.host_memory("the kernel's pool of large pages")
@pytest.mark.skipif(host_module._pool().available > 0, reason="the pool has pages to give")
def test_a_host_without_a_pool_gives_small_pages() -> None:
    with kf.Engine() as engine:
        for strict, at_least in ((True, 0.5), (False, 1.0)):
            with pytest.raises(kf.NoMemory, match="2 MiB pool"):
                engine.allocate("kv", 4 * MIB, at_least=at_least, page=HUGE, strict=strict)
        region = engine.allocate("kv", 4 * MIB, at_least=0.5, page=HUGE)
        assert region.grant is not None
        assert region.grant[:3] == (4 * MIB, 4 * MIB, PAGE)
        assert [note.split(":")[0] for note in region.grant.notes[:2]] == [
            f"not {size} bytes in pages of {HUGE}" for size in (4 * MIB, 2 * MIB)
        ]
        assert repr(region).startswith(f"<own Region 'kv', {4 * MIB} bytes at")

"""Blocks that go to a store and come back: swapped, of another process, of another layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvferry import Store
from kvferry.errors import ClosedError, RightsError, UsageError
from kvferry.paged import (
    BlockManager,
    LayoutRecord,
    PagedMemory,
    PrefixHash,
    StoredBlocks,
    layouts,
    swap_in,
    swap_out,
)
from kvferry.testing import Child, spawn
from tests.store.conftest import short_folder

BLOCKS, SIZE = 24, 4
TOKENS_MOST = 4 * BLOCKS
RECORD = LayoutRecord("smol", "1", 3, 4, 8, "float32", SIZE)
PROMPT = list(range(500, 535))


def kv_of(tokens: list[int]) -> Any:
    """[layers, k and v, tokens, heads, dimensions] that depends on all tokens before."""
    sums = np.cumsum(np.multiply(tokens, np.arange(1, 1 + len(tokens)))).astype(np.float32)
    shape = (RECORD.layers, 2, TOKENS_MOST, RECORD.heads, RECORD.head_dim)
    part = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)[:, :, : len(tokens)]
    return part + sums[:, None, None]


class Worker:
    """A pool of one shard with memory and a manager: layers apart, as NumPy arrays."""

    def __init__(self, store: Store, record: LayoutRecord = RECORD) -> None:
        page = record.page_shape[1:]
        self.record = record
        self.layers = [np.zeros((BLOCKS, *page), np.float32) for _ in record.layer_range]
        memory = layouts.layer_first(record, BLOCKS, self.layers)
        hashing = PrefixHash(record.block_tokens, identity=record.identity)
        self.manager = BlockManager(BLOCKS, hashing)
        self.stored = StoredBlocks(store, memory)

    def fill(self, request: Any, start: int) -> None:
        """Compute: of the order l k t h."""
        kv = kv_of(request.tokens.tolist())
        blocks, offsets = self.manager.slots(request, start, len(request))
        kv = kv[self.record.layer_range.start : self.record.layer_range.stop, :, start:]
        kv = kv[:, :, :, self.record.head_range.start : self.record.head_range.stop]
        for layer, part in zip(self.layers, kv, strict=True):
            layer[blocks, :, offsets] = part.transpose(1, 0, 2, 3)

    def look(self, request: Any, stop: int) -> Any:
        """[layers, k and v, tokens, heads, dimensions]"""
        blocks, offsets = self.manager.slots(request, 0, stop)
        found = [layer[blocks, :, offsets].transpose(1, 0, 2, 3) for layer in self.layers]
        return np.stack(found)

    def begin(self, name: str, tokens: list[int]) -> Any:
        request = self.manager.request(name, tokens)
        assert self.manager.allocate_slots(request, len(tokens)) is not None
        self.fill(request, 0)
        return request


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(size="4MiB") as made:
        yield made


def test_a_request_comes_back_as_it_was(store: Store) -> None:
    worker = Worker(store)
    manager = worker.manager
    request = worker.begin("0", PROMPT)
    assert swap_out(manager, request, worker.stored) == 35
    assert manager.pool.used_blocks == 0
    other = worker.begin("1", [1] * (4 * (BLOCKS - 1)))  # takes every block
    assert swap_in(manager, request, worker.stored, 35) is None
    manager.free(other)
    assert swap_in(manager, request, worker.stored, 35) == 35
    np.testing.assert_array_equal(worker.look(request, 35), kv_of(PROMPT))
    assert manager.get_computed_blocks(manager.request("2", PROMPT)).tokens == 32
    assert manager.check_integrity() == []


def test_what_the_store_lost_is_computed_again(store: Store) -> None:
    worker = Worker(store)
    manager, stored = worker.manager, worker.stored
    request = worker.begin("0", PROMPT)
    hashes = list(request.hashes)
    swap_out(manager, request, stored)
    manager.reset_prefix_cache()
    assert store.remove(_keys(hashes)[5])
    assert stored.has(hashes) == 5
    assert swap_in(manager, request, stored, 35) == 20
    assert request.computed == 20
    assert len(manager.table(request)) == 5
    np.testing.assert_array_equal(worker.look(request, 20), kv_of(PROMPT)[:, :, :20])
    assert manager.allocate_slots(request, 15) is not None
    worker.fill(request, 20)
    np.testing.assert_array_equal(worker.look(request, 35), kv_of(PROMPT))
    assert manager.check_integrity() == []


def test_what_the_pool_still_has_is_not_fetched(store: Store) -> None:
    worker = Worker(store)
    manager = worker.manager
    request = worker.begin("0", PROMPT)
    swap_out(manager, request, worker.stored)
    for key in _keys(request.hashes):
        store.remove(key)
    assert swap_in(manager, request, worker.stored, 35) == 35  # the tail alone was fetched
    np.testing.assert_array_equal(worker.look(request, 35), kv_of(PROMPT))
    swap_out(manager, request, worker.stored)
    assert swap_in(manager, request, worker.stored, 6) == 4  # no part of six tokens was stored
    assert len(manager.table(request)) == 1


def test_a_full_store_keeps_the_beginning() -> None:
    with Store(size="256KiB") as store:
        worker = Worker(store)
        others = [f"other {at}" for at in range(100)]
        store.put_batch(others, [bytes(RECORD.page_bytes)] * 100)
        kept_there = np.flatnonzero(store.exists_batch(others, lease=60)).tolist()
        for at in kept_there[:5]:
            store.remove(others[at], force=True)
        request = worker.begin("0", PROMPT)
        kept = swap_out(worker.manager, request, worker.stored)
        assert kept % SIZE == 0
        assert 0 < kept < 35
        worker.manager.reset_prefix_cache()
        assert swap_in(worker.manager, request, worker.stored, 35) == kept
        np.testing.assert_array_equal(worker.look(request, kept), kv_of(PROMPT)[:, :, :kept])


def test_the_end_leaves_before_the_beginning() -> None:
    """A pool with room for twelve pages: what does not fit any more is the end of what was used
    longest ago, be it put or got."""
    hashing = PrefixHash(SIZE, identity=RECORD.identity)
    first, second, third = (hashing.chain([n] * 8 * SIZE) for n in range(3))
    with Store(size=13 * RECORD.page_bytes, objects=12) as store:
        stored = Worker(store).stored
        stored.put(first, range(8))
        stored.put(second, range(8))
        assert 0 < stored.has(first) < 8
        assert stored.has(second) == 8
        stored.get(first[: stored.has(first)], range(stored.has(first)))
        stored.put(third[:4], range(4))
        assert stored.has(first) > 0
        assert 0 < stored.has(second) < 8


def _keys(hashes: list[bytes]) -> list[bytes]:
    return [hash_ + RECORD.identity[:16] + b"\0\0\1\0" for hash_ in hashes]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """The address of a node in another process, to which two shards gave the same prompt."""
    with short_folder() as folder, spawn(serve, str(folder)) as child:
        yield child.hear()
        child.tell("end")
        child.result()


def serve(parent: Child, folder: str) -> None:
    address = f"unix://{Path(folder, 'node')}"
    with Store(size="4MiB", listen=[address]) as store:
        for rank in (0, 1):
            worker = Worker(store, replace(RECORD, tp=2, tp_rank=rank))
            request = worker.begin("0", PROMPT)
            assert worker.stored.put(request.hashes, worker.manager.table(request).blocks[:8]) == 8
            worker.stored.publish("smol")
        parent.tell(address)
        parent.hear()


@pytest.mark.parametrize("size", [4, 8, 3])
@pytest.mark.parametrize("split", [1, 2, 4])
def test_another_process_reads_with_another_layout(elsewhere: str, size: int, split: int) -> None:
    record = replace(RECORD, block_tokens=size, tp=split, tp_rank=split - 1)
    with Store(elsewhere) as store:
        worker = Worker(store, record)
        request = worker.manager.request("0", PROMPT)
        theirs = worker.stored.published("smol")
        assert theirs is not None
        assert worker.manager.allocate_slots(request, 0, external=35, delay_cache=True)
        hashes = PrefixHash(4, identity=theirs.identity).chain(PROMPT)
        blocks = worker.manager.table(request).blocks
        assert worker.stored.get_repacked(theirs, hashes, blocks, 35) == 32
        heads = slice(record.head_range.start, record.head_range.stop)
        expected = kv_of(PROMPT)[:, :, :32, heads]
        np.testing.assert_array_equal(worker.look(request, 32), expected)
        if (size, split) == (4, 2):
            assert worker.stored.get(request.hashes, blocks[:8]) == 8
        elif size == 4:
            assert worker.stored.get(request.hashes, blocks[:8]) == 0  # other names


def test_other_models_and_dtypes_are_refused_by_name(elsewhere: str) -> None:
    with Store(elsewhere) as store:
        worker = Worker(store)
        for changed in ({"model": "x"}, {"revision": "2"}, {"head_dim": 4}, {"dtype": "int8"}):
            theirs = replace(RECORD, **changed)
            (field,) = changed
            with pytest.raises(UsageError, match=f"^{field} is "):
                worker.stored.get_repacked(theirs, [b""] * 8, range(1, 9), 32)
        assert worker.stored.published("another") is None
        store.put(b"kvferry.layout/bad", b"\xff")
        with pytest.raises(UsageError, match="not a layout"):
            worker.stored.published("bad")


def test_hashes_that_name_no_layout_are_a_miss(store: Store) -> None:
    """As those of an engine are, byte for byte."""
    worker = Worker(store)
    request = worker.begin("0", PROMPT)
    hashes = PrefixHash(SIZE).chain(PROMPT)
    blocks = worker.manager.table(request).blocks[: len(hashes)]
    assert worker.stored.put(hashes, blocks) == len(hashes)
    assert worker.stored.get(hashes, blocks) == len(hashes)
    others: list[dict[str, Any]] = [{"model": "x"}, {"revision": "2"}, {"order": "lkht"}]
    for changed in others:
        assert Worker(store, replace(RECORD, **changed)).stored.get(hashes, blocks) == 0


def test_any_course_of_swaps_with_a_store_that_fails_half_way(store: Store) -> None:
    """Forks of forks, preempted; each has the KV of its tokens, or is refused."""
    random = np.random.default_rng(9)
    worker = Worker(store)
    manager, held, out, broken = worker.manager, dict[str, Any](), dict[str, Any](), 0

    class Flaky(StoredBlocks):
        def put(self, hashes: Any, blocks: Any) -> int:
            half = len(hashes) // 2
            super().put(hashes[:half], blocks[:half])
            raise ClosedError("half way", cause="test")

        def get(self, hashes: Any, blocks: Any) -> int:
            super().get(hashes[: len(hashes) // 2], blocks[: len(hashes) // 2])
            return self.put(hashes[:0], blocks[:0])

    flaky = Flaky(store, worker.stored.memory)
    for step in range(300):
        stored = flaky if random.random() < 0.3 else worker.stored
        event, name = random.integers(6), str(step)
        one = str(random.choice(list(held))) if held else None
        try:
            if event == 0 or one is None:
                request = manager.request(name, random.integers(0, 2, random.integers(1, 30)))
                if grown(worker, request):
                    held[name] = request
            elif event == 1:
                held[name] = manager.fork(held[one], name)
            elif event == 2:
                held[one].append([int(random.integers(0, 2))])
                grown(worker, held[one])
            elif event == 3:
                kept = swap_out(manager, held[one], stored)
                out[one] = held.pop(one), kept
            elif event == 4:
                manager.free(held.pop(one))
            elif out:
                one = str(random.choice(list(out)))
                request, kept = out[one]
                if swap_in(manager, request, stored, kept) is not None:
                    held[one] = out.pop(one)[0]
        except ClosedError:
            broken += 1
        assert manager.check_integrity() == []
        for request in held.values():
            np.testing.assert_array_equal(
                worker.look(request, request.computed),
                kv_of(request.tokens.tolist())[:, :, : request.computed],
            )
    assert broken > 10


def grown(worker: Worker, request: Any) -> bool:
    """Compute what is missing, if there is room."""
    manager, start = worker.manager, request.computed
    hit = manager.get_computed_blocks(request)
    start += hit.tokens
    allocated = manager.allocate_slots(request, len(request) - start, hit=hit)
    if allocated is not None:
        for layer in worker.layers:
            layer[allocated.copies.targets] = layer[allocated.copies.sources]
        worker.fill(request, start)
    return allocated is not None


def test_missing_pages_end_what_is_repacked(store: Store) -> None:
    theirs = replace(RECORD, tp=2)
    for rank in (0, 1):
        worker = Worker(store, replace(theirs, tp_rank=rank))
        request = worker.begin("0", PROMPT)
        count = 7 if rank else 3
        worker.stored.put(request.hashes[:count], worker.manager.table(request).blocks[:count])
    ours = Worker(store, replace(RECORD, block_tokens=8))
    hashes = PrefixHash(4, identity=theirs.identity).chain(PROMPT)
    mine = ours.manager.request("0", PROMPT)
    assert ours.manager.allocate_slots(mine, 0, external=35, delay_cache=True)
    blocks = ours.manager.table(mine).blocks
    assert ours.stored.get_repacked(theirs, hashes, blocks, 35) == 12
    np.testing.assert_array_equal(ours.look(mine, 12), kv_of(PROMPT)[:, :, :12])
    assert ours.stored.get_repacked(theirs, hashes, blocks, 10) == 10
    assert ours.stored.get_repacked(theirs, [], [], 10) == 0
    with pytest.raises(UsageError, match="blocks for"):
        ours.stored.get_repacked(theirs, hashes, blocks[:2], 35)


def test_a_store_that_is_gone_costs_no_blocks() -> None:
    with Store(size="1MiB") as store:
        worker = Worker(store)
        request = worker.begin("0", PROMPT)
    with pytest.raises(ClosedError):
        swap_out(worker.manager, request, worker.stored)
    np.testing.assert_array_equal(worker.look(request, 35), kv_of(PROMPT))
    worker.manager.preempt(request)
    worker.manager.reset_prefix_cache()
    with pytest.raises(ClosedError):
        swap_in(worker.manager, request, worker.stored, 35)
    assert worker.manager.pool.used_blocks == 0
    assert worker.manager.check_integrity() == []


def test_refuses(store: Store) -> None:
    worker = Worker(store)
    with pytest.raises(UsageError, match="hashes"):
        worker.stored.put([b"a"], [1, 2])
    with pytest.raises(UsageError, match="block 24 of 24"):
        worker.stored.put([b"a"], [24])
    memory = bytes(BLOCKS * RECORD.page_bytes)
    frozen = StoredBlocks(store, PagedMemory(RECORD, BLOCKS, [memory]))
    assert frozen.put([b"a"], [1]) == 1
    with pytest.raises(RightsError):
        frozen.get([b"a"], [1])
    store.put(_keys([b"short"])[0], b"abc")
    assert worker.stored.get([b"short"], [1]) == 0
    request = worker.begin("0", PROMPT)
    with pytest.raises(UsageError):
        swap_out(worker.manager, request, worker.stored, 36)
    with pytest.raises(UsageError, match="has blocks"):
        swap_in(worker.manager, request, worker.stored, 35)
    other = Worker(store, replace(RECORD, block_tokens=8))
    for swap in (swap_out, swap_in):
        with pytest.raises(UsageError, match=r"^block_tokens is 4"):
            swap(worker.manager, request, other.stored, 35)
    np.testing.assert_array_equal(worker.look(request, 35), kv_of(PROMPT))
    with pytest.raises(UsageError):
        worker.stored.get_repacked(RECORD, [], [], -1)
    worker.manager.table(request).let_go(8)
    with pytest.raises(UsageError, match="let go"):
        swap_out(worker.manager, request, worker.stored)
    with pytest.raises(UsageError):
        swap_in(worker.manager, worker.manager.request("1", [1]), worker.stored, 2)

"""What a block manager decides, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

from kvferry.errors import UsageError
from kvferry.paged import BlockManager, BlockPool, BlockTable, Extras, Hit, PrefixCache, PrefixHash
from kvferry.paged.manager import NO_HIT
from kvferry.paged.request import Request


@pytest.fixture
def manager() -> BlockManager:
    return BlockManager(1 + 8, PrefixHash(4))


def seen(manager: BlockManager) -> tuple[Any, ...]:
    """All that a call could change."""
    pool = manager.pool
    every = np.arange(pool.blocks)
    held = {name: held.table.blocks.tolist() for name, held in manager._held.items()}
    uses = pool.uses(every).tolist()
    return pool.line().tolist(), uses, manager.prefixes.hashes_of(every), held


def begun(manager: BlockManager, name: str, tokens: list[int], **wanted: Any) -> Request:
    request = manager.request(name, tokens)
    hit = manager.get_computed_blocks(request)
    assert manager.allocate_slots(request, len(tokens) - hit.tokens, hit=hit, **wanted) is not None
    return request


def test_without_room_nothing_changes(manager: BlockManager) -> None:
    first = begun(manager, "0", list(range(20)))
    manager.free(first)
    begun(manager, "1", list(range(50, 66)))
    other = manager.request("2", list(range(30)))
    hit = manager.get_computed_blocks(other)
    assert hit.tokens == 16
    before = seen(manager)
    assert manager.allocate_slots(other, 14, hit=hit) is None
    assert seen(manager) == before
    assert other.computed == 0


def test_hits_that_are_free_count_as_taken(manager: BlockManager) -> None:
    first = begun(manager, "0", list(range(33))[:32])
    manager.free(first)
    same = manager.request("1", [*range(28), 99, 98, 97, 96, 95])  # 7 hits and 2 new ones
    hit = manager.get_computed_blocks(same)
    assert len(hit.blocks) == 7
    assert manager.allocate_slots(same, len(same) - hit.tokens, hit=hit) is None
    assert manager.check_integrity() == []


def test_a_watermark_is_for_those_under_way() -> None:
    manager = BlockManager(1 + 8, PrefixHash(4), watermark=2)
    assert manager.allocate_slots(manager.request("0", [1] * 28), 28) is None
    request = begun(manager, "1", [1] * 24)
    request.append([2] * 8)
    assert manager.allocate_slots(request, 8) is not None


def test_lookahead_takes_room_once(manager: BlockManager) -> None:
    request = begun(manager, "0", list(range(6)), lookahead=4)
    assert len(manager.table(request)) == 3
    request.append([6, 7])
    allocated = manager.allocate_slots(request, 2, lookahead=4)
    assert allocated is not None
    assert not len(allocated.blocks)
    assert manager.prefixes.blocks == 2
    blocks, offsets = manager.slots(request, 3, 6)
    assert blocks.tolist() == manager.table(request).blocks[[0, 1, 1]].tolist()
    assert offsets.tolist() == [3, 0, 1]


def test_kv_that_is_yet_to_arrive_is_not_found(manager: BlockManager) -> None:
    request = manager.request("0", list(range(10)))
    assert manager.allocate_slots(request, 2, external=8, delay_cache=True) is not None
    other = manager.request("1", list(range(10)))
    assert manager.get_computed_blocks(other).tokens == 0
    manager.cache_blocks(request, 8)
    assert manager.get_computed_blocks(other).tokens == 8


def test_what_failed_is_found_no_more(manager: BlockManager) -> None:
    request = begun(manager, "0", list(range(14)))
    other = begun(manager, "1", list(range(9)))
    assert manager.rewind(request, 5) == ["1"]
    assert manager.get_computed_blocks(manager.request("2", list(range(14)))).tokens == 4
    assert manager.rewind(other, 4) == ["0"]
    assert manager.allocate_slots(request, 9) is not None
    assert manager.get_computed_blocks(manager.request("2", list(range(14)))).tokens == 12
    assert manager.check_integrity() == []


def test_forks_share_until_one_writes(manager: BlockManager) -> None:
    request = begun(manager, "0", list(range(6)))
    twin = manager.fork(request, "1")
    assert manager.pool.used_blocks == 2
    shared = manager.table(request).blocks.copy()
    twin.append([70])
    request.append([71])
    allocated = manager.allocate_slots(twin, 1)
    assert allocated is not None
    assert allocated.copies.sources.tolist() == [shared[1]]
    assert manager.table(twin).blocks.tolist() == [shared[0], *allocated.copies.targets]
    assert manager.table(request).blocks.tolist() == shared.tolist()
    allocated = manager.allocate_slots(request, 1)
    assert allocated is not None
    assert not len(allocated.copies.sources)  # the other half is its own by now
    manager.free(request)
    manager.free(twin)
    assert manager.pool.used_blocks == 0
    assert manager.check_integrity() == []


def test_a_fork_that_cannot_copy_changes_nothing() -> None:
    manager = BlockManager(1 + 2, PrefixHash(4))
    request = begun(manager, "0", list(range(6)))
    twin = manager.fork(request, "1")
    twin.append([70])
    before = seen(manager)
    assert manager.allocate_slots(twin, 1) is None
    assert seen(manager) == before


def test_blocks_behind_a_window_are_let_go(manager: BlockManager) -> None:
    request = begun(manager, "0", list(range(14)))
    table = manager.table(request)
    table.let_go(9)
    assert table.blocks.tolist()[:2] == [0, 0]
    assert manager.pool.free_blocks == 6
    with pytest.raises(UsageError, match="let go"):
        table.slots(3, 12)
    request.append([14, 15])
    assert manager.allocate_slots(request, 2) is not None
    assert manager.check_integrity() == []
    manager.free(request)
    assert manager.get_computed_blocks(manager.request("1", list(range(17)))).tokens == 16


def test_names_of_hashes_end_as_they_are() -> None:
    cache = PrefixCache(PrefixHash(4), 4)
    cache.insert(np.array([1, 2]), [b"a\0\0", b"\0"])
    assert cache.hashes_of(np.array([1, 2])) == [b"a\0\0", b"\0"]
    assert cache.drop(np.array([2, 1, 3])) == [b"\0", b"a\0\0"]


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (lambda m, r: m.allocate_slots(r, -1), "tokens"),
        (lambda m, r: m.allocate_slots(r, 1), "tokens"),
        (lambda m, r: m.allocate_slots(m.request("x", [1, 2]), 3), "tokens"),
        (lambda m, r: m.allocate_slots(r, 0, hit=Hit(np.array([1]), 4)), "tokens"),
        (
            lambda m, r: m.allocate_slots(m.request("x", range(9)), 1, hit=Hit(np.array([1]), 3)),
            "hit",
        ),
        (
            lambda m, r: m.allocate_slots(m.request("x", [9] * 9), 1, hit=Hit(np.array([1]), 4)),
            "hit",
        ),
        (
            lambda m, r: m.allocate_slots(m.request("x", [9] * 9), 1, hit=Hit(np.array([99]), 4)),
            "blocks",
        ),
        (lambda m, r: m.allocate_slots(m.request("x", [9] * 9), 1.5), "tokens"),
        (lambda m, r: m.allocate_slots(m.request("0", [9] * 9), 9), "request"),
        (lambda m, r: m.free(m.request("0", [9] * 9)), "request"),
        (lambda m, r: m.cache_blocks(r, 11), "tokens"),
        (lambda m, r: m.cache_blocks(m.request("x", [1]), 0), "request"),
        (lambda m, r: m.rewind(r, 11), "tokens"),
        (lambda m, r: m.fork(r, "0"), "request"),
        (lambda m, r: m.slots(r, 5, 11), "tokens"),
        (lambda m, r: m.preempt(m.request("x", [1])), "request"),
        (lambda m, r: m.request("x", []), "tokens"),
        (lambda m, r: BlockManager(9, m.hashing, watermark=-1), "watermark"),
        (lambda m, r: BlockPool(1), "blocks"),
        (lambda m, r: BlockPool(1 << 40), "blocks"),
        (lambda m, r: m.pool.allocate(-1), "blocks"),
        (lambda m, r: m.pool.allocate(1.5), "blocks"),
        (lambda m, r: BlockPool(9, PrefixCache(m.hashing, 8)), "blocks"),
        (lambda m, r: m.table(r).shorten(-1), "tokens"),
        (lambda m, r: m.pool.touch([[1], [2, 3]]), "blocks"),
        (lambda m, r: m.pool.touch([9]), "blocks"),
        (lambda m, r: m.pool.touch([-1]), "blocks"),
        (lambda m, r: m.pool.touch([4, 4]), "blocks"),
        (lambda m, r: m.pool.touch([1.0]), "blocks"),
        (lambda m, r: m.pool.touch([1] * 20), "blocks"),
        (lambda m, r: m.pool.free([1, 2, 1]), "blocks"),
        (lambda m, r: m.pool.free([1, 2, 7]), "blocks"),
        (lambda m, r: m.pool.cache([1], [b"x"]), "cached"),
        (lambda m, r: m.pool.cache([7], [b"x"]), "blocks"),
        (lambda m, r: m.pool.cache([3], [b"x", b"y"]), "hashes"),
        (lambda m, r: m.table(r).take([1]), "table"),
    ],
)
def test_refuses_and_changes_nothing(
    manager: BlockManager, wrong: Callable[[BlockManager, Request], object], cause: str
) -> None:
    request = begun(manager, "0", list(range(10)))
    before = seen(manager)
    with pytest.raises(UsageError) as caught:
        wrong(manager, request)
    assert caught.value.cause == cause
    assert seen(manager) == before
    assert manager.check_integrity() == []


def test_a_window_that_reaches_beyond_the_beginning_lets_nothing_go(manager: BlockManager) -> None:
    request = begun(manager, "0", list(range(20)))
    before = seen(manager)
    manager.table(request).let_go(len(request) - 26)
    assert seen(manager) == before


def test_who_has_blocks_hits_nothing(manager: BlockManager) -> None:
    request = begun(manager, "0", list(range(10)))
    manager.rewind(request, 0)
    manager.free(begun(manager, "1", list(range(10))))
    hit = manager.get_computed_blocks(request)
    assert hit == NO_HIT
    assert manager.allocate_slots(request, 10, hit=hit) is not None
    assert manager.check_integrity() == []


def test_a_hit_that_was_handed_out_meanwhile_is_refused(manager: BlockManager) -> None:
    manager.free(begun(manager, "0", list(range(10))))
    request = manager.request("1", list(range(10)))
    hit = manager.get_computed_blocks(request)
    begun(manager, "2", list(range(50, 82)))
    with pytest.raises(UsageError, match="other KV"):
        manager.allocate_slots(request, 2, hit=hit)


def test_another_thread_is_refused_while_one_is_inside(manager: BlockManager) -> None:
    request = begun(manager, "0", list(range(10)))
    before, refused = seen(manager), []

    def meanwhile() -> None:
        for wrong in (lambda: manager.free(request), lambda: manager.fork(request, "1")):
            with pytest.raises(UsageError, match="two threads at once in BlockManager"):
                wrong()
            refused.append(seen(manager) == before)

    with manager._turn:
        thread = Thread(target=meanwhile)
        thread.start()
        thread.join()
    assert refused == [True, True]
    thread = Thread(target=manager.free, args=(request,))  # one after the other is right
    thread.start()
    thread.join()
    assert manager.pool.used_blocks == 0


def test_salt_keeps_tenants_apart(manager: BlockManager) -> None:
    begun(manager, "0", list(range(10)))
    salted = manager.request("1", list(range(10)), Extras("salt"))
    assert manager.get_computed_blocks(salted) == NO_HIT


def test_a_table_grows_beyond_its_first_room() -> None:
    pool = BlockPool(1000)
    table = BlockTable(pool, 4)
    for tokens in (3, 100, 101, 3000):
        assert table.grow(tokens) is not None
        assert table.check_integrity() == []
    assert table.blocks.tolist() == list(range(1, 751))
    assert table.grow(5000) is None
    table.shorten(5)
    assert pool.line()[-1] == 3
    assert table.blocks.tolist() == [1, 2]

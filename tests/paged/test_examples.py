"""Known courses of events: whose blocks, and in which order they are handed out."""

from __future__ import annotations

import numpy as np
import pytest

from kvferry.paged import (
    AllBlocksCleared,
    BlockManager,
    BlockRemoved,
    BlockStored,
    PrefixHash,
    Request,
)

LETTERS = {letter: 1000 + place for place, letter in enumerate("ABCDEFGHI")}
PROMPT = list(range(100, 117))


def served(manager: BlockManager, request: Request) -> list[int]:
    """Give it all blocks it needs: which it has then, counted without the null block."""
    hit = manager.get_computed_blocks(request)
    allocated = manager.allocate_slots(
        request, len(request) - request.computed - hit.tokens, hit=hit
    )
    assert allocated is not None
    assert manager.check_integrity() == []
    return blocks(manager, request)


def blocks(manager: BlockManager, request: Request) -> list[int]:
    return [block - 1 for block in manager.table(request).blocks.tolist()]


def line(manager: BlockManager) -> list[int]:
    return [block - 1 for block in manager.pool.line().tolist()]


def found(manager: BlockManager) -> list[int]:
    """Blocks that have a hash."""
    held = manager.prefixes.holds(np.arange(manager.pool.blocks)).tolist()
    return [block - 1 for block, named in enumerate(held) if named]


def test_the_golden_example() -> None:
    """vLLM, docs/design/prefix_caching.md: 10 blocks of 4 tokens."""
    manager = BlockManager(1 + 10, PrefixHash(4))
    first = manager.request("0", PROMPT[:15])
    assert served(manager, first) == [0, 1, 2, 3]  # time 1
    assert (found(manager), line(manager)) == ([0, 1, 2], [4, 5, 6, 7, 8, 9])

    first.append(PROMPT[15:])
    assert served(manager, first) == [0, 1, 2, 3, 4]  # time 3
    assert (found(manager), line(manager)) == ([0, 1, 2, 3], [5, 6, 7, 8, 9])

    second = manager.request("1", [*PROMPT[:10], 1, 2, 3, 4])
    assert manager.get_computed_blocks(second).tokens == 8
    assert served(manager, second) == [0, 1, 5, 6]  # time 4
    assert line(manager) == [7, 8, 9]

    manager.free(first)  # time 5
    assert line(manager) == [7, 8, 9, 4, 3, 2]
    manager.free(second)  # time 6
    assert line(manager) == [7, 8, 9, 4, 3, 2, 6, 5, 1, 0]

    third = manager.request("2", [*PROMPT[:12], *range(17)])
    hit = manager.get_computed_blocks(third)
    assert (hit.blocks - 1).tolist() == [0, 1, 2]
    assert served(manager, third) == [0, 1, 2, 7, 8, 9, 4, 3]  # time 7
    assert line(manager) == [6, 5]


def test_the_duplicate_example() -> None:
    """A table only grows at its end: a block whose twin is there already stays."""
    manager = BlockManager(1 + 10, PrefixHash(4), events=True)
    first = manager.request("1", [LETTERS[letter] for letter in "ABCDEF"])
    assert served(manager, first) == [0, 1]
    first.append([LETTERS[letter] for letter in "GHI"])
    assert served(manager, first) == [0, 1, 2]
    assert found(manager) == [0, 1]

    again = manager.request("2", [LETTERS[letter] for letter in "ABCDEF"])
    assert served(manager, again) == [0, 3]
    again.append([LETTERS[letter] for letter in "GH"])
    assert served(manager, again) == [0, 3]
    assert found(manager) == [0, 1, 3]
    assert len(manager.prefixes) == 2
    third = manager.request("3", [LETTERS[letter] for letter in "ABCDEFGHI"])
    assert (manager.get_computed_blocks(third).blocks - 1).tolist() == [0, 1]

    for request in (first, again):
        manager.free(request)
    manager.take_events()
    assert manager.pool.allocate(8) is not None  # all but 3 and 0
    assert found(manager) == [0, 3]
    assert (manager.get_computed_blocks(third).blocks - 1).tolist() == [0, 3]
    assert manager.take_events() == []  # the hash is still there
    assert manager.pool.allocate(2) is not None
    gone = [event for event in manager.take_events() if isinstance(event, BlockRemoved)]
    assert [len(event.block_hashes) for event in gone] == [2]


def test_events_say_what_is_found() -> None:
    manager = BlockManager(1 + 4, PrefixHash(4), events=True)
    request = manager.request("0", PROMPT[:9])
    served(manager, request)
    hashes = PrefixHash(4).chain(PROMPT[:12])
    assert manager.take_events() == [BlockStored(hashes[:2], None, PROMPT[:8], 4)]
    request.append(PROMPT[9:12])
    served(manager, request)
    assert manager.take_events() == [BlockStored(hashes[2:], hashes[1], PROMPT[8:12], 4)]
    assert not manager.reset_prefix_cache()
    manager.free(request)
    other = manager.request("1", [1, 2, 3, 4, 5])
    served(manager, other)  # blocks 3 and 2
    stored, removed = manager.take_events()[::-1]
    assert removed == BlockRemoved(hashes[2:])
    assert isinstance(stored, BlockStored)
    manager.free(other)
    assert manager.reset_prefix_cache()
    assert manager.take_events() == [AllBlocksCleared()]
    assert found(manager) == []
    assert manager.get_computed_blocks(request).tokens == 0


def test_a_block_that_is_full_is_found_by_the_next_request_of_the_same_step() -> None:
    manager = BlockManager(1 + 10, PrefixHash(4))
    served(manager, manager.request("0", PROMPT[:9]))
    assert served(manager, manager.request("1", PROMPT[:9])) == [0, 1, 3]


@pytest.mark.parametrize(("tokens", "hit"), [(8, 4), (9, 8), (12, 8), (13, 12)])
def test_the_last_token_is_always_computed(tokens: int, hit: int) -> None:
    manager = BlockManager(1 + 10, PrefixHash(4))
    served(manager, manager.request("0", PROMPT[:16]))
    assert manager.get_computed_blocks(manager.request("1", PROMPT[:tokens])).tokens == hit

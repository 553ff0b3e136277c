from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.bench import verify
from kvferry.bench.layouts import Layout, Part, plain
from kvferry.bench.verify import Landing, Words, check, fill, poison
from kvferry.bench.walk import Move, Walk

SEED = 5


def transfer(layout: Layout, slots: int, steps: int, rest: int) -> tuple[Words, list[Landing]]:
    """A destination as a correct write leaves it, made word by word."""
    words = layout.slot_bytes * slots // 8 + rest
    source, side = np.empty(words, np.uint64), np.empty(words, np.uint64)
    fill(source, SEED)
    poison(side)
    moves = Walk(layout, slots).moves(np.arange(steps))
    for move in moves:
        for ours, theirs in zip(move.local, move.remote, strict=True):
            for word in range(move.block // 8):
                first = move.base // 8 + word
                length = move.block // 8
                side[first + int(theirs) * length] = source[first + int(ours) * length]
    return side, [landing(move) for move in moves]


def landing(move: Move) -> Landing:
    return Landing(move.base, move.block, move.total, move.remote.tobytes(), move.local.tobytes())


layouts = st.lists(
    st.builds(Part, st.integers(1, 9).map(lambda words: 8 * words), st.integers(1, 3)),
    min_size=1,
    max_size=3,
).map(lambda parts: Layout(None, tuple(parts)))


@given(st.data())
def test_sees_any_changed_word_and_only_those(data: st.DataObject) -> None:
    layout, slots = data.draw(layouts), data.draw(st.integers(2, 9))
    side, landings = transfer(layout, slots, data.draw(st.integers(1, slots)), rest=3)
    verdict = check(side, landings, SEED)
    assert verdict.good
    assert verdict.blocks == sum(len(each.to) // 8 for each in landings)
    at = data.draw(st.integers(0, len(side) - 1))
    side[at] ^= np.uint64(1 << data.draw(st.integers(0, 63)))
    verdict = check(side, landings, SEED)
    assert (verdict.wrong, verdict.stray) in ((1, 0), (0, 1))
    assert not verdict.good


def test_sees_blocks_that_changed_places() -> None:
    side, landings = transfer(plain(64), 8, 4, rest=0)
    to = np.frombuffer(landings[0].to, np.int64)
    grid = side.reshape(8, 8)
    grid[to[[0, 1]]] = grid[to[[1, 0]]]
    assert check(side, landings, SEED).wrong == 2


def test_sees_blocks_of_an_older_fill_and_blocks_that_never_came() -> None:
    side, landings = transfer(plain(64), 8, 4, rest=0)
    assert check(side, landings, SEED + 1).wrong == 4
    poison(side)
    assert check(side, landings, SEED).wrong == 4


def test_nothing_moved_is_not_good() -> None:
    side = np.empty(8, np.uint64)
    poison(side)
    assert not check(side, [Landing(0, 8, 8, b"", b"")], SEED).good


@pytest.mark.parametrize("block", [8, 1 << 10, 1 << 20])
def test_blocks_longer_than_a_window_are_seen_to_their_last_word(block: int) -> None:
    slots = (4 << 20) // block
    words = slots * block // 8
    source, side = np.empty(words, np.uint64), np.empty(words, np.uint64)
    fill(source, SEED)
    poison(side)
    (move,) = Walk(plain(block), slots).moves(np.arange(slots // 2))
    side.reshape(slots, -1)[move.remote] = source.reshape(slots, -1)[move.local]
    assert check(side, [landing(move)], SEED).good
    side.reshape(slots, -1)[move.remote[-1], -1] = 0
    assert check(side, [landing(move)], SEED).wrong == 1


def test_a_pattern_has_no_word_twice() -> None:
    side = np.empty(3 * verify.WINDOW + 5, np.uint64)
    fill(side, SEED)
    assert len(np.unique(side)) == len(side)

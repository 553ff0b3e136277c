from __future__ import annotations

from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvferry.bench.layouts import Layout, Part, model, plain
from kvferry.bench.walk import (
    PASS_BATCHES,
    PASS_BYTES,
    PASS_PIECES,
    Walk,
    cap_batch,
    join,
    pass_batches,
    trace_passes,
    walk_passes,
)


@given(st.integers(2, 200), st.integers(0, 1000))
def test_one_round_of_the_walk_visits_every_slot_of_both_sides_once(slots: int, start: int) -> None:
    (move,) = Walk(plain(8), slots).moves(np.arange(start, start + slots))
    assert sorted(move.local) == list(range(slots))
    assert sorted(move.remote) == list(range(slots))
    assert (move.local != move.remote).all()


@given(st.integers(2, 50), st.integers(1, 10), st.integers(1, 10))
def test_passes_go_on_where_the_last_one_ended(slots: int, batch: int, batches: int) -> None:
    passes = list(islice(walk_passes(batch, batches), 3))
    assert [len(steps) for each in passes for steps in each] == 3 * batches * [batch]
    assert list(np.concatenate([join(each) for each in passes])) == list(range(3 * batch * batches))


def test_a_slot_of_a_model_moves_with_all_its_pieces() -> None:
    layout = Layout("two", (Part(16, 2), Part(128, 3)))
    walk = Walk(layout, 10)
    rope, latent = walk.moves(np.array([4, 5]))
    assert (rope.base, rope.block, rope.total, len(rope.local)) == (0, 16, 20, 4)
    assert (latent.base, latent.block, latent.total, len(latent.local)) == (320, 128, 30, 6)
    (plain_move,) = Walk(plain(8), 10).moves(np.array([4, 5]))
    assert sorted(set(rope.local % 10)) == sorted(plain_move.local)
    assert sorted(set(latent.remote % 10)) == sorted(plain_move.remote)


@given(
    st.sampled_from([plain(1 << shift) for shift in range(3, 28)] + [model("deepseek-r1")]),
    st.integers(1, 1 << 20),
    st.integers(2, 1 << 20),
    st.integers(1, 64),
)
def test_a_pass_has_its_bounds(layout: Layout, batch: int, slots: int, threads: int) -> None:
    slots = max(slots, threads)
    capped = cap_batch(batch, layout, slots, threads)
    batches = pass_batches(layout, capped, slots, threads)
    assert 1 <= capped <= max(1, min(batch, slots // 2))
    assert threads <= batches <= PASS_BATCHES
    assert batches % threads == 0
    # every thread has a batch, be it of one large block
    assert capped == 1 or capped * batches * layout.slot_bytes <= PASS_BYTES
    assert capped == 1 or capped * batches * layout.pieces <= PASS_PIECES
    assert capped * batches <= slots


def test_a_batch_is_cut_to_half_a_side_and_to_a_pass() -> None:
    assert cap_batch(128, plain(1 << 20), 1024) == 128
    assert cap_batch(128, plain(1 << 20), 64) == 32
    assert cap_batch(128, plain(16 << 20), 64) == 16


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), max_size=9))
def test_a_trace_is_moved_in_its_order_and_each_pass_comes_twice(requests: list[list[int]]) -> None:
    passes = list(trace_passes([np.array(ids) for ids in requests], 4, 3))
    assert [list(join(each)) for each in passes[::2]] == [list(join(e)) for e in passes[1::2]]
    moved = [int(step) for each in passes[::2] for steps in each for step in steps]
    assert moved == [step for ids in requests for step in ids]
    assert all(len(steps) <= 4 for each in passes for steps in each)

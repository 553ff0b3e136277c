from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry import UsageError
from kvferry.bench.layouts import MODELS, Layout, Part, model, plain, spread

KIB = 1 << 10


def test_models_have_their_published_shapes() -> None:
    assert model("deepseek-r1").parts == (Part(16 * KIB, 61), Part(128 * KIB, 61))
    assert model("deepseek-r1").slot_bytes == 8784 * KIB
    assert model("llama-3-8b").parts == (Part(32 * KIB, 64),)
    assert model("qwen3-8b").slot_bytes == 16 * 147456
    assert model("smollm2-135m").slot_bytes == 16 * 23040


def test_an_unknown_model_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        model("gpt")
    assert all(name in str(caught.value) for name in MODELS)


def test_a_plain_block_is_one_piece() -> None:
    assert plain(4096).slot_bytes == 4096
    assert plain(4096).pieces == 1


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=3),
    st.integers(1, 6),
)
def test_the_pieces_of_all_slots_tile_the_side(parts: list[tuple[int, int]], slots: int) -> None:
    layout = Layout(None, tuple(Part(8 * words, pieces) for words, pieces in parts))
    used = np.zeros(layout.slot_bytes * slots, int)
    for slot in range(slots):
        for part, base in zip(layout.parts, layout.bases(slots), strict=True):
            for number in spread(part, slots, np.array([slot])):
                begin = base + int(number) * part.block
                used[begin : begin + part.block] += 1
    assert (used == 1).all()

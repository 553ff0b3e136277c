"""Repacked bytes against arrays that NumPy transposes and cuts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry.paged import LayoutRecord, Refusal, Repack, compatible
from kvferry.paged.layouts import Runs

TOKENS = 26


def record(**wanted: Any) -> LayoutRecord:
    return replace(LayoutRecord("m", "r", 4, 4, 2, "float16", 4), **wanted)


def whole(layout: LayoutRecord) -> Any:
    """[layers, k and v, tokens, heads, dimensions]: every number another one."""
    kinds = layout.extents["k"]
    shape = (layout.layers, kinds, TOKENS, layout.heads, layout.head_dim)
    return np.arange(np.prod(shape), dtype=np.uint16).reshape(shape)


def pages(layout: LayoutRecord, shard: int, kv: Any) -> Any:
    """[blocks, bytes] of one shard; behind the last token there is 0xFF."""
    own = replace(layout, tp_rank=shard % layout.tp, pp_rank=shard // layout.tp)
    part = kv[own.layer_range.start : own.layer_range.stop]
    part = part[:, :, :, own.head_range.start : own.head_range.stop]
    size = layout.block_tokens
    blocks = -(-TOKENS // size)
    padded = np.full((*part.shape[:2], blocks * size, *part.shape[3:]), 0xFFFF, np.uint16)
    padded[:, :, :TOKENS] = part
    cut = padded.reshape(*part.shape[:2], blocks, size, *part.shape[3:])
    axes = ["lk.th".index(axis) for axis in layout.order]
    page = np.ascontiguousarray(cut.transpose(2, *axes, 5))
    return page.reshape(blocks, -1).view(np.uint8)


def moved(runs: Runs, layout: LayoutRecord, theirs: Any, blocks: int) -> Any:
    out = np.full((blocks, layout.page_bytes), 0xFF, np.uint8)
    for shard, block, offset, our_block, our_offset, length in zip(
        *map(np.ndarray.tolist, runs), strict=True
    ):
        piece = theirs[shard][block, offset : offset + length]
        assert len(piece) == length
        out[our_block, our_offset : our_offset + length] = piece
    return out


def check(ours: LayoutRecord, theirs: LayoutRecord, within: int = 0) -> Runs:
    plan = compatible(ours, theirs)
    assert isinstance(plan, Repack)
    kv = whole(ours)
    given_ = [pages(theirs, shard, kv) for shard in range(theirs.shards)]
    expected = pages(ours, ours.shard, kv)
    runs = plan.runs(0, TOKENS, within=within)
    np.testing.assert_array_equal(moved(runs, ours, given_, len(expected)), expected)
    return runs


ORDERS = ["lkth", "lkht", "klth", "tlkh", "hltk"]


def test_another_order() -> None:
    for order, other in [*product(ORDERS[:3], ORDERS), ("hltk", "lkth")]:
        check(record(order=order), record(order=other))


def test_other_blocks() -> None:
    for size, other in [(4, 8), (8, 4), (4, 6), (1, 16), (16, 1), (5, 7)]:
        check(record(block_tokens=size), record(block_tokens=other))


@pytest.mark.parametrize(("tp", "other"), [(1, 2), (2, 1), (4, 2), (2, 8), (8, 4)])
def test_another_split(tp: int, other: int) -> None:
    for pp, further in [(1, 1), (1, 4), (4, 2)]:
        theirs = record(tp=other, pp=further)
        for shard in range(tp * pp):
            check(record(tp=tp, pp=pp, tp_rank=shard % tp, pp_rank=shard // tp), theirs)


def test_a_latent_is_whole_in_every_shard() -> None:
    ours = record(heads=1, kind="latent", tp=2, tp_rank=1, block_tokens=8)
    runs = check(ours, record(heads=1, kind="latent", tp=4, pp=2))
    assert sorted(set(runs.shard.tolist())) == [0, 4]


LAYOUTS = st.builds(
    record,
    order=st.permutations("lkth").map("".join),
    block_tokens=st.integers(1, 9),
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 4]),
)


@given(ours=LAYOUTS, theirs=LAYOUTS, data=st.data())
@settings(max_examples=25, deadline=None)
def test_anything_at_once(ours: LayoutRecord, theirs: LayoutRecord, data: st.DataObject) -> None:
    shard = data.draw(st.integers(0, ours.shards - 1))
    ours = replace(ours, tp_rank=shard % ours.tp, pp_rank=shard // ours.tp)
    outer = data.draw(st.integers(0, 3))
    part = ours.page_bytes // int(np.prod(list(ours.extents.values())[:outer], dtype=int))
    runs = check(ours, theirs, part)
    assert (runs.our_offset // part == (runs.our_offset + runs.length - 1) // part).all()


def test_runs_are_as_long_as_can_be() -> None:
    same = check(record(), record())
    assert same.length.tolist()[:6] == [record().page_bytes] * 6
    doubled = check(record(order="tlkh", block_tokens=8), record(order="tlkh", block_tokens=4))
    assert len(doubled.length) == 7
    halves = check(record(), record(tp=2))
    assert set(halves.length.tolist()) == {8}  # two heads


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "x"),
        ("revision", "x"),
        ("layers", 8),
        ("heads", 8),
        ("head_dim", 4),
        ("dtype", "bfloat16"),
    ],
)
def test_the_rest_is_refused_by_name(field: str, value: Any) -> None:
    theirs = record(**{field: value}, block_tokens=8)
    refusal = compatible(record(), theirs)
    assert refusal == Refusal(field, getattr(record(), field), value)
    assert str(refusal).startswith(f"{field} is ")

"""Layout records: what is one, what it says, and what is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvferry.errors import UsageError
from kvferry.paged import LayoutRecord

RECORD = LayoutRecord("smol", "1", 30, 3, 64, "bfloat16", 16)


def test_bytes_of_a_known_model() -> None:
    assert RECORD.page_bytes == 368_640
    assert RECORD.page_shape == (30, 2, 16, 3, 64)
    assert replace(RECORD, dtype="float32", block_tokens=32).page_bytes == 1_474_560
    latent = LayoutRecord("mla", "1", 2, 1, 576, "float16", 64, kind="latent", tp=8, tp_rank=7)
    assert latent.page_shape == (2, 1, 64, 1, 576)


@pytest.mark.parametrize(("heads", "tp"), [(8, 1), (8, 4), (2, 8), (1, 4), (3, 3)])
@pytest.mark.parametrize("pp", [1, 3])
def test_shards_have_all_layers_and_heads(heads: int, tp: int, pp: int) -> None:
    whole = LayoutRecord("m", "r", 6, heads, 4, "int8", 4, tp=tp, pp=pp)
    seen = set()
    for rank in range(whole.shards):
        shard = replace(whole, tp_rank=rank % tp, pp_rank=rank // tp)
        assert shard.shard == rank
        assert shard.identity == whole.identity
        seen |= {(layer, head) for layer in shard.layer_range for head in shard.head_range}
        for layer, head in [
            (layer, head) for layer in shard.layer_range for head in shard.head_range
        ]:
            first = int(whole.shards_of(np.array(layer), np.array(head)))
            holder = replace(whole, tp_rank=first % tp, pp_rank=first // tp)
            assert first <= rank
            assert layer in holder.layer_range
            assert head in holder.head_range
    assert seen == {(layer, head) for layer in range(6) for head in range(heads)}


def test_goes_through_bytes() -> None:
    record = replace(RECORD, order="klth", tp=3, tp_rank=2)
    assert LayoutRecord.decode(record.encode()) == record
    identities = {replace(RECORD, **{name: value}).identity for name, value in CHANGES.items()}
    assert len(identities | {RECORD.identity}) == len(CHANGES) + 1


CHANGES: dict[str, Any] = {
    "model": "other",
    "revision": "2",
    "layers": 60,
    "heads": 6,
    "head_dim": 128,
    "dtype": "float16",
    "block_tokens": 32,
    "order": "lkht",
    "tp": 3,
    "pp": 2,
}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"layers": 0}, "layers"),
        ({"heads": True}, "heads"),
        ({"head_dim": 1 << 30}, "head_dim"),
        ({"dtype": "float12"}, "dtype"),
        ({"kind": "k"}, "kind"),
        ({"kind": "latent"}, "heads"),
        ({"order": "lkt"}, "order"),
        ({"order": "lktt"}, "order"),
        ({"block_tokens": 10_000}, "block_tokens"),
        ({"tp": 2}, "tp"),
        ({"pp": 4}, "pp"),
        ({"tp": 3 << 15}, "shards"),
        ({"tp": 3, "tp_rank": 3}, "tp_rank"),
        ({"pp_rank": -1}, "pp_rank"),
        ({"tp": 3, "tp_rank": 1.0}, "tp_rank"),
        ({"model": 3}, "model"),
        ({"revision": "\ud800"}, "revision"),
        ({"dtype": ["int8"]}, "dtype"),
        ({"layers": 1 << 20, "heads": 1 << 20}, "page"),
    ],
)
def test_refuses_naming_the_field(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        replace(RECORD, **changed)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"\xff" * 9,
        b'{"model": 1}',
        RECORD.encode().replace(b"30", b'"30"'),
        RECORD.encode().replace(b"30", b"0"),
    ],
)
def test_refuses_bytes_that_are_none(raw: bytes) -> None:
    with pytest.raises(UsageError):
        LayoutRecord.decode(raw)

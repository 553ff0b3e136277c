"""Attention over blocks against attention over all keys at once."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from kvferry.errors import UsageError
from kvferry.paged import attention, dense_attention, paged_attention, paged_latent_attention

SIZE, BLOCKS = 4, 110


def laid(rows: Any, blocks: Any) -> Any:
    """Tokens in the blocks of a table; the rest of the pool is nothing."""
    pool = np.full((BLOCKS, SIZE, *rows.shape[1:]), np.nan, rows.dtype)
    padded = np.full((len(blocks) * SIZE, *rows.shape[1:]), np.nan, rows.dtype)
    padded[: len(rows)] = rows
    pool[blocks] = padded.reshape(len(blocks), SIZE, *rows.shape[1:])
    return pool


HEADS = [(1, 1), (3, 9), (2, 2)]


@pytest.mark.parametrize(("tokens", "count"), [(1, 1), (13, 13), (300, 1), (300, 7), (150, 150)])
def test_equals_dense_attention(tokens: int, count: int) -> None:
    for (heads, query_heads), window in product(HEADS, [None, 1, 5, 64]):
        check(tokens, count, heads, query_heads, window)


def check(tokens: int, count: int, heads: int, query_heads: int, window: int | None) -> None:
    random = np.random.default_rng(tokens)
    queries = 3 * random.standard_normal((count, query_heads, 16), np.float32)
    keys, values = (random.standard_normal((tokens, heads, d), np.float32) for d in (16, 8))
    blocks = random.permutation(BLOCKS)[: -(-tokens // SIZE)]
    row = blocks.copy()
    if window is not None:
        row[: max(0, tokens - count - window + 1) // SIZE] = 0  # let go
    pools = laid(keys, blocks), laid(values, blocks)
    out = paged_attention(queries, *pools, row, tokens, window=window)
    assert out.shape == (count, query_heads, 8)
    np.testing.assert_allclose(
        out, dense_attention(queries, keys, values, window=window), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("window", [None, 9])
def test_a_latent_equals_the_keys_and_values_that_are_made_of_it(window: int | None) -> None:
    random = np.random.default_rng(1)
    tokens, heads, wide, part, rank, value = 50, 4, 12, 6, 10, 8
    queries = random.standard_normal((5, heads, wide), np.float32)
    rotated = random.standard_normal((5, heads, part), np.float32)
    latents = random.standard_normal((tokens, rank + part), np.float32)
    up_keys = random.standard_normal((heads, wide, rank), np.float32) / rank
    up_values = random.standard_normal((heads, value, rank), np.float32) / rank
    own = np.einsum("tr,hdr->thd", latents[:, :rank], up_keys)
    shared = np.repeat(latents[:, None, rank:], heads, axis=1)
    expected = dense_attention(
        np.concatenate((queries, rotated), axis=2),
        np.concatenate((own, shared), axis=2),
        np.einsum("tr,hvr->thv", latents[:, :rank], up_values),
        window=window,
    )
    blocks = random.permutation(BLOCKS)[:13]
    pool = laid(latents, blocks)
    out = paged_latent_attention(
        queries, rotated, pool, up_keys, up_values, blocks, tokens, window=window
    )
    np.testing.assert_allclose(out, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("wrong", [(3, 4, 5), (3, 4), (2, 4, 6), (1, 4, 5)])
def test_refuses_what_does_not_make_keys(wrong: tuple[int, ...]) -> None:
    shapes = [(1, 2, 4), (1, 2, 3), (4, SIZE, 8), (2, 4, 5), (2, 6, 5)]
    right: list[Any] = [*map(np.zeros, shapes), [1], 3]
    paged_latent_attention(*right)
    for at in (3, 4):
        given = [*right[:at], np.zeros(wrong), *right[at + 1 :]]
        with pytest.raises(UsageError):
            paged_latent_attention(*given)


@pytest.mark.parametrize("window", [None, 1, 100, 300])
def test_many_queries_over_many_blocks(window: int | None) -> None:
    """More of both than look, or are looked at, together."""
    tokens, count = attention.LOT * SIZE + 37, 2 * attention.ROWS + 5
    random = np.random.default_rng(3)
    keys, values = (random.standard_normal((tokens, 2, 8), np.float32) for _ in range(2))
    queries = random.standard_normal((count, 4, 8), np.float32)
    blocks = random.permutation(-(-tokens // SIZE))
    out = paged_attention(
        queries, laid(keys, blocks), laid(values, blocks), blocks, tokens, window=window
    )
    expected = dense_attention(queries, keys, values, window=window)
    np.testing.assert_allclose(out, expected, atol=1e-5, rtol=0)


def test_large_scores_and_half_numbers() -> None:
    random = np.random.default_rng(2)
    keys, values = (random.standard_normal((400, 1, 8)).astype(np.float16) for _ in range(2))
    queries = (100 * random.standard_normal((3, 2, 8))).astype(np.float16)
    blocks = np.arange(100)
    out = paged_attention(queries, laid(keys, blocks), laid(values, blocks), blocks, 400, scale=1.0)
    expected = dense_attention(queries, keys, values, scale=1.0)
    np.testing.assert_allclose(out, expected, atol=1e-5, rtol=0)
    assert attention.LOT < 100


@pytest.mark.parametrize(
    "changed",
    [
        {"queries": np.zeros((1, 3, 8))},
        {"queries": np.zeros((1, 2, 7))},
        {"queries": np.zeros((0, 2, 8))},
        {"values": np.zeros((3, SIZE, 1, 8))},
        {"blocks": [0, 1]},
        {"blocks": [0, 1, 9]},
        {"tokens": 13},
        {"window": 0},
    ],
)
def test_refuses_what_does_not_fit(changed: dict[str, Any]) -> None:
    right = {
        "queries": np.zeros((1, 2, 8)),
        "keys": np.zeros((4, SIZE, 2, 8)),
        "values": np.zeros((4, SIZE, 2, 8)),
        "blocks": [0, 1, 2],
        "tokens": 12,
    }
    paged_attention(**right)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        paged_attention(**{**right, **changed})

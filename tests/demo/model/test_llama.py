"""The forward pass, against the formulas in float64, written down once more."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from kvferry.demo.model import Llama, generate, load_model
from kvferry.demo.model.llama import Array
from kvferry.errors import UsageError
from kvferry.paged import dense_attention
from tests.demo.tiny import (
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    LAYERS,
    Tensors,
    tiny_fields,
    tiny_tensors,
    write,
    write_tiny,
)

Wide = NDArray[np.float64]
TOKENS = np.random.default_rng(5).integers(0, 300, 40)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    return load_model(write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


class Kept:
    """Keys and values of one request, as they came; attention by the definition."""

    def __init__(self) -> None:
        self.keys: dict[int, Array] = {}
        self.values: dict[int, Array] = {}

    def attend(self, layer: int, queries: Array, keys: Array, values: Array) -> Array:
        for kept, came in ((self.keys, keys), (self.values, values)):
            kept[layer] = np.concatenate([kept[layer], came]) if layer in kept else came.copy()
        mixed = dense_attention(queries, self.keys[layer], self.values[layer])
        return mixed.astype(np.float32)


def logits_of(tensors: Tensors, tokens: NDArray[np.int64]) -> tuple[Wide, list[Wide]]:
    """Of all rows, and the keys of every layer as Hugging Face has them."""
    wide = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    rows, keys = wide["token_embd.weight"][tokens], []
    for layer in range(LAYERS):
        own = {name: wide[f"blk.{layer}.{name}.weight"] for name in WEIGHTS}
        x = normed(rows, own["attn_norm"])
        q = turned(x @ in_order(own["attn_q"], HEADS).T, HEADS)
        k = turned(x @ in_order(own["attn_k"], KV_HEADS).T, KV_HEADS)
        v = (x @ own["attn_v"].T).reshape(len(x), KV_HEADS, HEAD_DIM)
        keys.append(k)
        out = np.empty_like(q)
        for head in range(HEADS):
            of = head * KV_HEADS // HEADS
            for row in range(len(x)):
                scores = k[: row + 1, of] @ q[row, head] / np.sqrt(HEAD_DIM)
                weights = np.exp(scores - scores.max())
                out[row, head] = weights @ v[: row + 1, of] / weights.sum()
        rows = rows + out.reshape(len(x), -1) @ own["attn_output"].T
        x = normed(rows, own["ffn_norm"])
        gate = x @ own["ffn_gate"].T
        rows = rows + (gate / (1 + np.exp(-gate)) * (x @ own["ffn_up"].T)) @ own["ffn_down"].T
    last = wide.get("output.weight", wide["token_embd.weight"])
    return normed(rows, wide["output_norm.weight"]) @ last.T, keys


WEIGHTS = [
    *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
    *("ffn_norm", "ffn_gate", "ffn_up", "ffn_down"),
]


def normed(rows: Wide, weight: Wide) -> Wide:
    out: Wide = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-5) * weight
    return out


def in_order(weight: Wide, heads: int) -> Wide:
    """Row i of a head is row 2 i of the file, row i + d / 2 is row 2 i + 1."""
    rows = [
        head * HEAD_DIM + 2 * (row % (HEAD_DIM // 2)) + row // (HEAD_DIM // 2)
        for head in range(heads)
        for row in range(HEAD_DIM)
    ]
    return weight[rows]


def turned(x: Wide, heads: int) -> Wide:
    half = HEAD_DIM // 2
    x = x.reshape(len(x), heads, HEAD_DIM)
    angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = (np.tile(each, 2)[:, None] for each in (np.cos(angle), np.sin(angle)))
    rotated = np.concatenate([-x[..., half:], x[..., :half]], axis=2)
    out: Wide = x * cos + rotated * sin
    return out


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.Q8_0, Kind.Q4_1], ids=lambda k: k.name)
@pytest.mark.parametrize("tied", [True, False])
def test_logits_and_keys(tmp_path: Path, kind: Kind, tied: bool) -> None:
    tensors = tiny_tensors(1)
    if not tied:
        tensors["output.weight"] = tensors["token_embd.weight"][::-1].copy()
    model = load_model(write(tmp_path / "a.gguf", tiny_fields(), tensors, kind))
    kept = Kept()
    logits = model.forward(TOKENS, np.arange(40), kept.attend, range(40))
    wanted, keys = logits_of({name: stored(each, kind) for name, each in tensors.items()}, TOKENS)
    np.testing.assert_allclose(logits, wanted, atol=2e-4)
    for layer in range(LAYERS):
        np.testing.assert_allclose(kept.keys[layer], keys[layer], atol=2e-4)


def stored(tensor: NDArray[np.float32], kind: Kind) -> NDArray[np.float32]:
    """What is left of it in a file."""
    if tensor.ndim == 1:
        return tensor
    left: NDArray[np.float32] = gguf.quants.dequantize(gguf.quants.quantize(tensor, kind), kind)
    return left


def test_a_prompt_in_pieces_gives_the_same(model: Llama) -> None:
    whole = model.forward(TOKENS, np.arange(40), Kept().attend, range(40))
    kept, pieces = Kept(), []
    for begin, end in ((0, 17), (17, 18), (18, 40)):
        span = np.arange(begin, end)
        pieces.append(model.forward(TOKENS[span], span, kept.attend, range(end - begin)))
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-4)


def test_rows_of_several_requests(model: Llama) -> None:
    """Ten tokens of one, and behind them eight of another."""
    one, other = Kept(), Kept()

    def attend(layer: int, queries: Array, keys: Array, values: Array) -> Array:
        first = one.attend(layer, queries[:10], keys[:10], values[:10])
        second = other.attend(layer, queries[10:], keys[10:], values[10:])
        return np.concatenate([first, second])

    positions = np.concatenate([np.arange(10), np.arange(8)])
    both = model.forward(TOKENS[:18], positions, attend, [9, 17])
    for row, span in ((0, slice(0, 10)), (1, slice(10, 18))):
        count = span.stop - span.start
        alone = model.forward(TOKENS[span], np.arange(count), Kept().attend, [count - 1])
        np.testing.assert_allclose(both[row], alone[0], atol=1e-4)


def test_no_row_wanted(model: Llama) -> None:
    assert model.forward(TOKENS[:3], np.arange(3), Kept().attend, []).shape == (0, 300)


@pytest.mark.parametrize(
    ("tokens", "positions", "wanted", "cause"),
    [
        ([1, 300], [0, 1], [1], "tokens"),
        ([-1, 3], [0, 1], [1], "tokens"),
        ([1, 2], [0, 2048], [1], "positions"),
        ([1, 2], [0, 1], [2], "wanted"),
        ([1, 2], [0], [0], "tokens"),
        ([[1, 2]], [[0, 1]], [0], "tokens"),
    ],
)
def test_what_cannot_be_computed(
    model: Llama, tokens: list[int], positions: list[int], wanted: list[int], cause: str
) -> None:
    with pytest.raises(UsageError) as caught:
        model.forward(np.array(tokens), np.array(positions), Kept().attend, wanted)
    assert caught.value.cause == cause


def test_greedy_generation(model: Llama) -> None:
    """More tokens than are looked at together; each is the likeliest after all before it."""
    prompt = np.random.default_rng(8).integers(0, 300, 150)
    made = list(generate(model, prompt, 6))
    whole = np.concatenate([prompt, made])
    logits = model.forward(whole, np.arange(156), Kept().attend, range(149, 155))
    assert logits.argmax(axis=1).tolist() == made
    stop = made[3]
    assert list(generate(model, prompt, 6, frozenset([stop]))) == made[: made.index(stop)]
    assert list(generate(model, prompt, 0)) == []


@pytest.mark.parametrize(("count", "most"), [(0, 1), (2000, 49), (3, -1)])
def test_generation_without_room(model: Llama, count: int, most: int) -> None:
    with pytest.raises(UsageError, match="in a context of 2048"):
        generate(model, [1] * count, most)

"""How one slot of KV cache lies in a side: plain blocks, or the block shapes of real models.

A slot is what one block of tokens needs in all layers. Each layer keeps its pages in an array of
its own, so a slot is scattered over the side, a piece in every array:

    side   |layer 0: slot 0, 1, 2 .. |layer 1: slot 0, 1, 2 .. | .. |  rest, never touched  |

Arrays whose pieces are equally long follow each other and form a part: piece (layer, slot) of a
part is its block number layer * slots + slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from .sizes import format_size

__all__ = ["MODELS", "Ids", "Layout", "Part", "model", "plain", "spread"]

Ids = npt.NDArray[np.int64]

HALF = 2  # bytes of a 16-bit float, which all models here keep their KV in


class Part(NamedTuple):
    """What lies together: in every slot so many pieces of `block` bytes."""

    block: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Layout:
    """name    of the model; None for plain blocks
    parts   in the order in which they lie in the side
    """

    name: str | None
    parts: tuple[Part, ...]

    @property
    def slot_bytes(self) -> int:
        return sum(part.block * part.pieces for part in self.parts)

    @property
    def pieces(self) -> int:
        """Of one slot."""
        return sum(part.pieces for part in self.parts)

    def bases(self, slots: int) -> list[int]:
        """Where each part begins in a side of so many slots, in bytes."""
        sizes = [part.block * part.pieces * slots for part in self.parts]
        return [sum(sizes[:index]) for index in range(len(sizes))]

    def __str__(self) -> str:
        return self.name or format_size(self.slot_bytes)


def spread(part: Part, slots: int, ids: Ids) -> Ids:
    """Block numbers within the part of every piece of the slots `ids`, layer by layer."""
    layers = np.arange(part.pieces, dtype=np.int64)
    return np.ravel(layers[:, None] * slots + ids[None, :])


def plain(block: int) -> Layout:
    return Layout(None, (Part(block, 1),))


def attention(layers: int, kv_heads: int, head_dim: int, tokens: int = 16) -> tuple[Part, ...]:
    """Keys and values of multi-head or grouped-query attention: K and V apart in every layer."""
    return (Part(tokens * kv_heads * head_dim * HALF, 2 * layers),)


def latent_attention(layers: int, rope: int, latent: int, tokens: int) -> tuple[Part, ...]:
    """Multi-head latent attention: a rope key and a compressed vector, so many numbers each."""
    return Part(tokens * rope * HALF, layers), Part(tokens * latent * HALF, layers)


MODELS = {
    name: Layout(name, parts)
    for name, parts in {
        "deepseek-r1": latent_attention(layers=61, rope=64, latent=512, tokens=128),
        "llama-3-8b": attention(layers=32, kv_heads=8, head_dim=128),
        "qwen3-8b": attention(layers=36, kv_heads=8, head_dim=128),
        "smollm2-135m": attention(layers=30, kv_heads=3, head_dim=64),
    }.items()
}


def model(name: str) -> Layout:
    """Raises UsageError that lists the known ones."""
    if name not in MODELS:
        raise UsageError(f"unknown layout {name!r}: know {', '.join(MODELS)}", cause="layout")
    return MODELS[name]

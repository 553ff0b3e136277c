"""What routers are told of a pool: which prefixes it has.

A router that keeps a set of hashes has at every time the hashes by which something is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["AllBlocksCleared", "BlockRemoved", "BlockStored", "Event"]


@dataclass(frozen=True)
class BlockStored:
    """Blocks of one request, one behind the other; some may have been there before.

    block_hashes       of each
    parent_block_hash  of the block before the first; None: there is none
    token_ids          of all of them
    block_size         tokens of a block
    lora_name          of the adapter
    """

    block_hashes: list[bytes]
    parent_block_hash: bytes | None
    token_ids: list[int]
    block_size: int
    lora_name: str | None = None


@dataclass(frozen=True)
class BlockRemoved:
    """No block has these hashes any more."""

    block_hashes: list[bytes]


@dataclass(frozen=True)
class AllBlocksCleared:
    """No block has a hash any more."""


Event: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared

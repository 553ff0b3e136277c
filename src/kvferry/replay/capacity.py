"""Capacities as people write them: blocks (5860, 10k) or bytes (8GiB)."""

from __future__ import annotations

import re

from ..errors import UsageError
from ..store.user.addresses import bytes_in

__all__ = ["Block", "blocks_in"]

THOUSANDS = {"": 1, "k": 1000, "m": 1_000_000}
MOST = 1 << 30  # blocks


class Block:
    """Bytes of one block, if it is known.

    size       such as "2MiB"
    per_token  bytes of KV for each token, instead; a block has `tokens`
    """

    def __init__(self, size: str | None, per_token: str | None, tokens: int) -> None:
        if size is not None and per_token is not None:
            raise UsageError(
                "--block-bytes and --kv-bytes-per-token exclude one another", cause="block_bytes"
            )
        told = size if per_token is None else per_token
        self.bytes = None if told is None else bytes_in(told) * (tokens if size is None else 1)
        if self.bytes == 0:
            raise UsageError("blocks of 0 bytes are none", cause="block_bytes")


def blocks_in(text: str, block: Block) -> int:
    """How many blocks a capacity is. Raises UsageError: none at all (capacity), or bytes where it
    is not known how many a block has (block_bytes)."""
    found = re.fullmatch(r"([0-9]{1,12})\s*([km]?)", text.strip(), re.IGNORECASE)
    count = _of_bytes(text, block) if found is None else int(found[1]) * THOUSANDS[found[2].lower()]
    if not 0 < count <= MOST:
        raise UsageError(
            f"a capacity of {text} is {count} blocks: 1 to {MOST} are", cause="capacity"
        )
    return count


def _of_bytes(text: str, block: Block) -> int:
    try:
        size = bytes_in(text.strip())
    except UsageError:
        raise UsageError(
            f"{text!r} is no capacity: blocks, such as 5860 or 10k, or bytes, such as 8GiB",
            cause="capacity",
        ) from None
    if block.bytes is None:
        raise UsageError(
            f"a capacity of {text}: say what a block takes by --block-bytes or "
            "--kv-bytes-per-token",
            cause="block_bytes",
        )
    return size // block.bytes

"""Capacities in blocks and in bytes."""

from __future__ import annotations

import pytest

from kvferry.errors import UsageError
from kvferry.replay import Block, blocks_in

UNKNOWN = Block(None, None, 512)


@pytest.mark.parametrize(
    ("text", "block", "blocks"),
    [
        ("5860", UNKNOWN, 5860),
        ("10k", UNKNOWN, 10_000),
        ("2M", UNKNOWN, 2_000_000),
        ("8GiB", Block("2MiB", None, 512), 4096),
        ("8GiB", Block(None, "4KiB", 512), 4096),
        ("3MiB", Block("2MiB", None, 512), 1),
    ],
)
def test_is_understood(text: str, block: Block, blocks: int) -> None:
    assert blocks_in(text, block) == blocks


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("0", "capacity"),
        ("0k", "capacity"),
        ("-5", "capacity"),
        ("many", "capacity"),
        ("", "capacity"),
        ("9999m", "capacity"),
        ("1.5k", "capacity"),
        ("8GiB", "block_bytes"),
    ],
)
def test_is_refused(text: str, cause: str) -> None:
    with pytest.raises(UsageError) as refused:
        blocks_in(text, UNKNOWN)
    assert refused.value.cause == cause


def test_less_than_a_block_is_refused() -> None:
    with pytest.raises(UsageError, match="is 0 blocks"):
        blocks_in("1MiB", Block("2MiB", None, 512))


@pytest.mark.parametrize("block", [("0", None), (None, "0"), ("1", "1"), ("x", None)])
def test_bad_blocks_are_refused(block: tuple[str | None, str | None]) -> None:
    with pytest.raises(UsageError):
        Block(*block, 512)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry import UsageError
from kvferry.bench.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("4KiB", 4096), ("64k", 65536), ("1 MiB", 1 << 20), ("2GiB", 2 << 30)],
)
def test_reads(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-4KiB", "4.5KiB", "4KB", "4TiB", "12", "KiB", "٤KiB"])
def test_refuses_and_quotes(text: str) -> None:
    with pytest.raises(UsageError, match="bad size") as caught:
        parse_size(text)
    assert repr(text) in str(caught.value)


@given(st.integers(1, 1 << 40).map(lambda words: words * 8))
def test_reads_what_it_writes(size: int) -> None:
    assert parse_size(format_size(size)) == size

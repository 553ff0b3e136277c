from __future__ import annotations

import pytest

from kvferry.errors import UsageError
from kvferry.submit import PoolSpec

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "count", "size"),
    [("4:8", 4, 8), ("0:0", 0, 0), ("1:1", 1, 1), ("64:1024", 64, 1024), ("007:02", 7, 2)],
)
def test_reads_what_it_is_told(text: str, count: int, size: int) -> None:
    assert PoolSpec.parse(text) == PoolSpec(count, size * MIB)


@pytest.mark.parametrize("spec", [PoolSpec(), PoolSpec(0, 0), PoolSpec(64, 1024 * MIB)])
def test_prints_what_it_reads(spec: PoolSpec) -> None:
    assert PoolSpec.parse(str(spec)) == spec


def test_the_default() -> None:
    assert str(PoolSpec()) == "4:8"


@pytest.mark.parametrize(
    "text",
    ["", "4", "4:", ":8", "4:8:1", "65:8", "4:1025", "0:8", "4:0", "-1:8", "4:-8", "4.0:8", " 4:8",
     "4:8\n", "٤:8", "1e1:8", "9999999999:1", "four:8"],
)  # fmt: skip
def test_junk_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(UsageError, match=r"1 to 64.*1 to 1024") as caught:
        PoolSpec.parse(text)
    assert caught.value.cause == "pool"

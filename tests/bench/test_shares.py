from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry import UsageError
from kvferry.bench.shares import Pattern, Share, extents, parse_pattern, shares

MIB = 1 << 20


def test_without_a_pattern_all_of_both_sides_is_moved() -> None:
    assert shares(None, 1, 5 * MIB + 8) == [Share(0, 0, 5 * MIB + 8)]


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        (Pattern.PAIRWISE, [Share(0, 0, MIB), Share(1, 1, MIB)]),
        (Pattern.ONE_TO_MANY, [Share(0, 0, MIB), Share(0, 1, MIB, local_at=MIB)]),
        (Pattern.MANY_TO_ONE, [Share(0, 0, MIB), Share(1, 0, MIB, remote_at=MIB)]),
    ],
)
def test_who_moves_what(pattern: Pattern, wanted: list[Share]) -> None:
    assert shares(pattern, 2, 2 * MIB) == wanted


@given(st.sampled_from(Pattern), st.integers(1, 16), st.integers(1 << 16, 1 << 40))
def test_slices_tile_the_regions_and_add_up_to_a_side(
    pattern: Pattern, peers: int, size: int
) -> None:
    cut = shares(pattern, peers, size)
    sizes = [share.size for share in cut]
    for numbers, begins in (
        ([share.initiator for share in cut], [share.local_at for share in cut]),
        ([share.target for share in cut], [share.remote_at for share in cut]),
    ):
        regions = extents(numbers, sizes)
        assert size - peers * 4096 < sum(regions) <= size
        slices = sorted(zip(numbers, begins, sizes, strict=True))
        for number, length in enumerate(regions):
            end = 0
            for _, begin, each in (s for s in slices if s[0] == number):
                assert begin == end
                end = begin + each
            assert end == length


def test_refuses_what_is_no_pattern_and_what_is_too_small() -> None:
    with pytest.raises(UsageError, match="know pairwise, one-to-many, many-to-one"):
        parse_pattern("ring")
    assert parse_pattern("pairwise") is Pattern.PAIRWISE
    with pytest.raises(UsageError, match="less than a page"):
        shares(Pattern.PAIRWISE, 16, 4096)

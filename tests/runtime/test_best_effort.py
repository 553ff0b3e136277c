"""What is asked for when less will do, and what comes of it."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kvferry.errors import NoMemory, UsageError
from kvferry.runtime.best_effort import STEP, attempts, obtain

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SMALL, HUGE = 4 * KIB, 2 * MIB
PAGES = (SMALL, HUGE)

shares = st.one_of(
    st.integers(1, 100).map(lambda percent: percent / 100), st.floats(1e-3, 1.0, exclude_min=True)
)
sizes = st.one_of(st.integers(1, 4 * GIB), st.integers(1, 2000).map(lambda n: n * GIB))
pages = st.sets(st.sampled_from([SMALL, 64 * KIB, HUGE, GIB]), min_size=1).map(sorted)


@given(sizes, shares, pages, st.booleans(), st.data())
def test_of_every_plan(
    size: int, at_least: float, pages: list[int], strict: bool, data: st.DataObject
) -> None:
    page = data.draw(st.sampled_from([0, *pages]))
    plan = list(attempts(size, at_least, pages, strict, page))
    used = [each for _, each in plan]
    assert plan[0][0] == size
    assert len(set(plan)) == len(plan)
    assert used == sorted(used, reverse=True)
    if page or strict:
        assert set(used) <= set(pages)
        assert not page or max(used) == page
    else:
        assert set(used) == {0}
    if strict or at_least == 1:
        assert len(set(used)) == 1
    for each in set(used):
        sizes = [some for some, one in plan if one == each]
        assert sizes[0] == size
        assert sizes == sorted(sizes, reverse=True)
        step = max(each or pages[0], STEP if size >= STEP else 0)
        assert all(some % step == 0 for some in sizes[1:])
        least = size * Fraction(at_least).limit_denominator(1_000_000)
        assert all(some >= least for some in sizes)
        assert sizes[-1] - step < least  # no less would have done


def test_tenths_of_ten_gib() -> None:
    plan = attempts(10 * GIB, 0.5, PAGES, False)
    assert list(plan) == [(n * GIB, 0) for n in (10, 9, 8, 7, 6, 5)]


def test_nine_tenths_are_nine_tenths() -> None:
    assert list(attempts(10 * GIB, 0.9, PAGES, False)) == [(10 * GIB, 0), (9 * GIB, 0)]


def test_a_size_between_steps_never_falls_below_its_share() -> None:
    size = 2 * GIB + 100 * MIB
    assert list(attempts(size, 0.5, PAGES, False)) == [(size, 0), (2 * GIB, 0)]


def test_less_first_then_smaller_pages() -> None:
    size = 10 * HUGE
    wanted = [(n * HUGE, HUGE) for n in (10, 9, 8)]
    small = [(size, SMALL), (size * 9 // 10, SMALL), (size * 8 // 10, SMALL)]
    assert list(attempts(size, 0.8, PAGES, False, HUGE)) == wanted + small
    assert list(attempts(size, 0.8, PAGES, True, HUGE)) == wanted
    assert list(attempts(size, 0.8, PAGES, False, SMALL)) == small


@pytest.mark.parametrize("page", [0, SMALL, HUGE])
def test_all_or_an_error_is_one_attempt(page: int) -> None:
    assert list(attempts(10 * HUGE, 1.0, PAGES, False, page)) == [(10 * HUGE, page)]


@pytest.mark.parametrize(("size", "page"), [(HUGE - 1, SMALL), (HUGE, HUGE), (1, SMALL)])
def test_strict_without_a_page_means_the_largest_that_fits(size: int, page: int) -> None:
    assert list(attempts(size, 1.0, PAGES, True)) == [(size, page)]


@pytest.mark.parametrize("at_least", [0, -0.5, 1.0001, 50, float("nan"), float("inf")])
def test_no_share(at_least: float) -> None:
    with pytest.raises(UsageError) as caught:
        attempts(GIB, at_least, PAGES, False)
    assert caught.value.cause == "bad_at_least"


@pytest.mark.parametrize("page", [-1, 1, 64 * KIB, GIB])
def test_no_such_page(page: int) -> None:
    with pytest.raises(UsageError, match=f"no pages of {page} bytes: know 4096, 2097152"):
        attempts(GIB, 0.5, PAGES, False, page)


def refuse(size: int, page: int) -> str:
    if size > 4 or page == 2:
        raise NoMemory(f"{size} is too much", cause="no_memory")
    return f"{size} in {page}"


def test_the_first_that_succeeds_and_why_others_did_not() -> None:
    got, failed = obtain([(5, 2), (4, 2), (5, 0), (4, 0), (3, 0)], refuse)
    assert got == "4 in 0"
    assert failed == (
        "not 5 bytes in pages of 2: 5 is too much [no_memory]",
        "not 4 bytes in pages of 2: 4 is too much [no_memory]",
        "not 5 bytes: 5 is too much [no_memory]",
    )


def test_the_only_attempt_fails_as_it_does() -> None:
    with pytest.raises(NoMemory) as caught:
        obtain([(5, 0)], refuse)
    assert str(caught.value) == "5 is too much [no_memory]"


def test_when_all_fail_the_error_tells_of_each() -> None:
    with pytest.raises(NoMemory, match=r"2 attempts failed: not 6 bytes: 6 .*; not 5 bytes: 5 "):
        obtain([(6, 0), (5, 0)], refuse)


def test_other_errors_end_it() -> None:
    def wrong(size: int, page: int) -> str:
        raise UsageError("wrong", cause="wrong")

    with pytest.raises(UsageError):
        obtain([(6, 0), (5, 0)], wrong)

"""What to ask a runtime for when less than asked, or smaller pages, will do. Decided here, done
elsewhere.

    page as asked    100 %, 90 %, 80 % ... at least
    smaller pages    100 %, 90 %, 80 % ... at least
    ...

No page asked leaves the page to the runtime in every attempt: then bytes count more than pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TypeVar

from ..errors import NoMemory, UsageError

__all__ = ["STEP", "attempts", "obtain"]

# From this size on attempts differ by multiples of it.
STEP = 1 << 30

T = TypeVar("T")


def attempts(
    size: int, at_least: float, pages: Sequence[int], strict: bool, page: int = 0
) -> Iterator[tuple[int, int]]:
    """(bytes, page) to try, in this order; page 0 leaves it to the runtime.

    size      bytes; the first attempt of every page, also where it is not whole pages
    at_least  the share of it that will do; no attempt is below. 1: there is one attempt
    pages     bytes of the pages there are, smallest first
    strict    no page smaller than `page`, or than the largest that fits the size
    page      bytes of a page; 0: any

    Raises UsageError before the first attempt for a share outside 0 < x <= 1 and for a page that
    there is not.
    """
    if not 0 < at_least <= 1:
        raise UsageError(f"at_least is {at_least}, not above 0 and at most 1", cause="bad_at_least")
    if page and page not in pages:
        known = ", ".join(map(str, pages))
        raise UsageError(f"no pages of {page} bytes: know {known}", cause="bad_page")
    if strict and not page:
        page = max((each for each in pages if each <= size), default=pages[0])
    whole = strict or at_least == 1 or not page
    wanted = [page] if whole else [each for each in reversed(pages) if each <= page]
    return ((some, each) for each in wanted for some in _sizes(size, at_least, each or pages[0]))


def obtain(
    plan: Iterable[tuple[int, int]], attempt: Callable[[int, int], T]
) -> tuple[T, tuple[str, ...]]:
    """What the first attempt returned that did not raise NoMemory, and why those before it failed.

    `attempt` has undone its steps when it raises. When all fail: the error of the only attempt, or
    a NoMemory that tells of each, with the cause of the last.
    """
    *earlier, final = plan
    failed: list[str] = []
    for size, page in earlier:
        try:
            return attempt(size, page), tuple(failed)
        except NoMemory as error:
            failed.append(_note(size, page, error))
    try:
        return attempt(*final), tuple(failed)
    except NoMemory as error:
        if not failed:
            raise
        notes = "; ".join([*failed, _note(*final, error)])
        raise NoMemory(f"{len(failed) + 1} attempts failed: {notes}", cause=error.cause) from error


def _note(size: int, page: int, error: NoMemory) -> str:
    pages = f" in pages of {page}" if page else ""
    return f"not {size} bytes{pages}: {error}"


def _sizes(size: int, at_least: float, page: int) -> Iterator[int]:
    """`size`, then 90 per cent of it and so on in whole steps, down to the least that will do."""
    step = max(page, STEP) if size >= STEP else page
    share = Fraction(float(at_least)).limit_denominator(1_000_000)  # 0.9 means nine tenths
    least = max(1, -(-math.ceil(size * share) // step)) * step
    yield size
    last = size
    for percent in range(90, -1, -10):
        some = max(least, size * percent // 100 // step * step)
        if some < last:
            yield some
            last = some

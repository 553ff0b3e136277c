"""A summary as text, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .speech import readable
from .summary import Difference, Moved, Summary

__all__ = ["compared", "figures"]

MAPPED = ("fabric",)  # of a store's ways


def figures(summary: Summary) -> Iterator[tuple[str, str]]:
    """What is measured, and how it went."""
    yield "time to first token", _sooner(summary)
    yield "", f"of the second conversation, by one worker with {_threads(summary.threads)}"
    yield (
        "from the store",
        (
            f"{summary.hit_tokens:,} of {summary.prompt_tokens:,} tokens of the prompt, "
            f"{summary.hit_blocks} of {summary.full_blocks} full blocks"
            f"{_share(summary.hit_blocks, summary.full_blocks)}"
        ),
    )
    yield "loaded", f"{_moved(summary.loaded)}{_ways(summary.loaded.ways, _store_way)}"
    yield "handed over", f"{_moved(summary.handed_over)}{_ways(summary.handed_over.ways, str)}"
    if summary.handed_over.bytes:
        yield (
            "",
            (
                f"{100 * summary.before_the_end:.0f} % of it had arrived when the last layer's KV "
                "was computed"
            ),
        )
        yield "", f"first token of the first conversation after {summary.first:.2f} s"
    if summary.tokens_per_second:
        rate = f"{summary.tokens_per_second:.1f} tokens a second"
        yield "decode", f"{rate}, one conversation at a time"


def compared(summary: Summary, decode: Callable[[Sequence[int]], str]) -> Iterator[str]:
    """Is what was served what is computed?"""
    if not summary.differences:
        yield f"identical: {summary.compared} tokens served, {summary.compared} computed plainly"
    for each in summary.differences:
        yield _different(each, decode)


def _sooner(summary: Summary) -> str:
    if not (summary.with_reuse and summary.without_reuse):
        return "there is none: the answer is empty"
    if not summary.hit_tokens:
        return f"{summary.with_reuse:.2f} s; nothing was reused"
    times = f"{summary.with_reuse:.2f} s with reuse, {summary.without_reuse:.2f} s without"
    return f"{times}: {summary.ratio:.1f} times sooner" if summary.ratio > 1 else times


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _share(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.1f} %)" if whole else ""


def _moved(moved: Moved) -> str:
    if not moved.bytes:
        return "nothing"
    mega, milli = moved.bytes / 1e6, moved.seconds * 1e3
    return f"{mega:.1f} MB in {milli:.1f} ms, {moved.gbps:.1f} GB/s"


def _ways(ways: Sequence[str], told: Callable[[str], str]) -> str:
    return f", {', '.join(map(told, ways))}" if ways else ""


def _store_way(way: str) -> str:
    return f"{way} (mapped memory of the node)" if way in MAPPED else way


def _different(each: Difference, decode: Callable[[Sequence[int]], str]) -> str:
    def told(token: int | None) -> str:
        return "the end" if token is None else f"{token} ({readable(decode([token]))!r})"

    return (
        f"DIFFERENT: {each.name}, token {each.position}: served {told(each.served)}, "
        f"computed plainly {told(each.plain)}"
    )

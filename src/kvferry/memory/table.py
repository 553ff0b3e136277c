"""Regions by name and by address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from .._core import Span, SpanTable
from ..errors import UsageError

__all__ = ["RegionTable"]


class Named(Protocol):
    """What both kinds of region have."""

    @property
    def name(self) -> str: ...
    @property
    def span(self) -> Span: ...


R = TypeVar("R", bound=Named)


class RegionTable(Mapping[str, R], Generic[R]):
    """A mapping from names to regions, with the native table of their spans.

    Changed under its owner's lock, read from any thread.
    """

    def __init__(self) -> None:
        self._regions: dict[str, R] = {}
        self.spans = SpanTable()

    def add(self, region: R) -> None:
        """Raises UsageError when the name is taken or the range overlaps a region in the table."""
        if region.name in self._regions:
            raise UsageError(f"region {region.name!r} exists already", cause="name_taken")
        for other in self.overlapping(region.span.base, region.span.length):
            raise UsageError(
                f"region {region.name!r} overlaps region {other.name!r} of {other.span.length} "
                f"bytes at {other.span.base:#x}",
                cause="overlap",
                range=(region.span.base, region.span.length),
            )
        self._regions = {**self._regions, region.name: region}
        self.spans.add(region.span)

    def remove(self, region: R) -> None:
        """Take it out; nothing when it is not in."""
        self._regions = {k: v for k, v in self._regions.items() if v is not region}
        self.spans.discard(region.span)

    def overlapping(self, base: int, length: int) -> list[R]:
        spans = self.spans.overlapping(base, length)
        return [region for region in self._regions.values() if region.span in spans]

    def __getitem__(self, name: str) -> R:
        return self._regions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._regions)

    def __len__(self) -> int:
        return len(self._regions)

    def __repr__(self) -> str:
        return f"RegionTable({list(self._regions.values())})"

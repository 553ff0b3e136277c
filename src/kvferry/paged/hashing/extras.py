"""What a block's KV depends on beside its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ...errors import UsageError

__all__ = ["TAGS", "Adapter", "Extra", "Extras", "Media", "is_text"]

# Of one block: tuples that begin with a tag.
Extra: TypeAlias = tuple[Any, ...]

TAGS = frozenset({"lora", "mm", "cache_salt"})


class Adapter(NamedTuple):
    """A LoRA adapter: its name, and where its weights are."""

    name: str
    path: str = ""


class Media(NamedTuple):
    """Something other than text: what identifies it, and which tokens stand for it."""

    identifier: str
    offset: int
    length: int


@dataclass(frozen=True)
class Extras:
    """Of one request.

    salt     who does not know it finds nothing; goes into the first block, and by it into all
    adapter  goes into every block
    media    in order of their offsets; each goes into the blocks that it touches

    Raises UsageError (extras) for what is of other types, or out of order.
    """

    salt: str | None = None
    adapter: Adapter | None = None
    media: tuple[Media, ...] = ()

    def __post_init__(self) -> None:
        texts = [self.salt or "", *(self.adapter or ()), *(each.identifier for each in self.media)]
        spans = [(each.offset, each.length) for each in self.media]
        numbers = [number for span in spans for number in span]
        if not all(map(is_text, texts)):
            raise UsageError("salt, adapter and media are named by text", cause="extras")
        if not all(isinstance(number, int) and 0 <= number < 1 << 31 for number in numbers):
            raise UsageError("media lie at tokens", cause="extras")
        ends = [offset + length for offset, length in spans]
        if any(end > offset for end, (offset, _) in zip(ends, spans[1:], strict=False)):
            raise UsageError("media overlap, or are out of order", cause="extras")

    @property
    def plain(self) -> bool:
        """There is nothing."""
        return not (self.salt or self.adapter or self.media)

    def of(self, start: int, stop: int) -> Extra | None:
        """Of the block of the tokens from `start` to `stop`."""
        return tuple(self._keys(start, stop)) or None

    def _keys(self, start: int, stop: int) -> Iterator[Extra]:
        if self.adapter is not None:
            yield ("lora", *self.adapter)
        for name, offset, length in self.media:
            if offset < stop and start < offset + length:
                yield ("mm", name, offset - start)
        if self.salt and not start:
            yield ("cache_salt", self.salt)


def is_text(thing: object) -> bool:
    """That can be written as UTF-8."""
    try:
        return isinstance(thing, str) and thing.encode() is not None
    except UnicodeEncodeError:
        return False

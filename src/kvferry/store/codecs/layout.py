"""Where the channels of a KV block lie. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from operator import index

from ..._core import BF16, F16, F32, MOST_AXES
from ...errors import UsageError

__all__ = ["Layout"]

ELEMENTS = {"float16": (F16, 2), "bfloat16": (BF16, 2), "float32": (F32, 4)}
LARGEST = 1 << 40  # elements


@dataclass(frozen=True)
class Layout:
    """Values as contiguous arrays, the last axis fastest, of little-endian numbers.

    dtype         "float16", "bfloat16" or "float32"
    shape         of a whole value, 1 to 8 axes. One of fewer tokens, or of none, is shorter in its
                  token axis: its length in bytes tells
    token_axis    which axis that is
    channel_axes  axes whose every index has a scale of its own; by default all but the token axis.
                  Fewer scales are fewer bytes, and one large element costs more of the others

        [tokens, heads, dim]       Layout("float16", (16, 8, 128))
        [k and v, heads, tokens, dim]  Layout("float16", (2, 8, 16, 128), token_axis=2)
        a scale a head alone       Layout("float16", (16, 8, 128), channel_axes=(1,))

    Raises UsageError (layout) for what is none.
    """

    dtype: str
    shape: tuple[int, ...]
    token_axis: int = 0
    channel_axes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        try:
            shape = tuple(map(index, self.shape))
            token = _axis(self.token_axis, len(shape))
            given = self.channel_axes
            others = [axis for axis in range(len(shape)) if axis != token]
            channels = others if given is None else [_axis(each, len(shape)) for each in given]
        except (TypeError, IndexError) as error:
            raise _mistake(str(error)) from None
        if self.dtype not in ELEMENTS:
            raise _mistake(f"no elements of {self.dtype!r}, but of {', '.join(ELEMENTS)}")
        if not 0 < len(shape) <= MOST_AXES or min(shape) < 1 or prod(shape) > LARGEST:
            raise _mistake(f"{shape} is not the shape of a value")
        if token in channels or len(set(channels)) < len(channels):
            raise _mistake(f"{given} are not channels beside token axis {token}")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "token_axis", token)
        object.__setattr__(self, "channel_axes", tuple(sorted(channels)))

    @property
    def element(self) -> int:
        """As the native core names it."""
        return ELEMENTS[self.dtype][0]

    @property
    def token_bytes(self) -> int:
        """Of one token."""
        return prod(self.shape) // self.shape[self.token_axis] * ELEMENTS[self.dtype][1]

    @property
    def channels(self) -> int:
        """How many scales a value has."""
        return prod(self.shape[axis] for axis in self.channel_axes or ())

    def tokens(self, length: int) -> int | None:
        """Of a value of so many bytes. None: no value has so many."""
        tokens, rest = divmod(length, self.token_bytes)
        return None if rest or tokens > self.shape[self.token_axis] else tokens

    def axes(self, tokens: int) -> list[tuple[int, int]]:
        """(extent, stride in channels) of a value of so many tokens, one at least: as few axes as
        lead the same way, the innermost with a stride of one channel, or of none."""
        merged: list[tuple[int, int]] = []
        step = 1
        for axis in reversed(range(len(self.shape))):
            extent = tokens if axis == self.token_axis else self.shape[axis]
            stride = step if axis in (self.channel_axes or ()) else 0
            step *= extent if stride else 1
            if extent == 1:
                continue
            if merged and bool(stride) == bool(merged[-1][1]):
                inner, leads = merged.pop()
                merged.append((inner * extent, leads))
            else:
                merged.append((extent, stride))
        return merged[::-1] or [(1, 0)]

    def parameters(self) -> tuple[tuple[str, str], ...]:
        """All of it, by name."""
        return tuple((name, repr(value)) for name, value in vars(self).items())


def _axis(axis: int, count: int) -> int:
    return range(count)[index(axis)]


def _mistake(said: str) -> UsageError:
    return UsageError(said, cause="layout")

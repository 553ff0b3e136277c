"""KV cache as codes of one byte, with a scale for each channel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ... import _core
from ...errors import UsageError
from .codec import Codec
from .header import HEADER
from .layout import Layout

__all__ = ["Fp8", "Int8"]


@dataclass(frozen=True)
class Quantised(Codec):
    """What both have in common. The payload is drawn in quant.h."""

    layout: Layout
    code: ClassVar[int]

    def parameters(self) -> tuple[tuple[str, str], ...]:
        return self.layout.parameters()

    def check(self, length: int) -> None:
        if self.layout.tokens(length) is None:
            raise UsageError(f"{length} bytes are no tokens of {self.layout}", cause="layout")

    def fits(self, length: int, payload: int) -> bool:
        tokens = self.layout.tokens(length)
        return bool(tokens) and self._of(length).encoded_bytes == payload

    def pack(self, value: memoryview) -> bytearray:
        native = self._of(value.nbytes)
        stored = bytearray(HEADER + native.encoded_bytes)
        if native.encode(value, memoryview(stored)[HEADER:]) != _core.QUANTISED:
            raise UsageError("a value with infinities, or with no numbers", cause="not_finite")
        return stored

    def unpack(self, payload: memoryview, target: memoryview) -> bool:
        return self._of(target.nbytes).decode(payload, target) == _core.QUANTISED

    @cached_property
    def _whole(self) -> _core.Quantiser:
        return self._native(self.layout.shape[self.layout.token_axis])

    def _of(self, length: int) -> _core.Quantiser:
        """For values of so many bytes, one token at least."""
        whole = self._whole
        if length == whole.raw_bytes:
            return whole
        return self._native(length // self.layout.token_bytes)

    def _native(self, tokens: int) -> _core.Quantiser:
        layout = self.layout
        return _core.Quantiser(layout.element, self.code, layout.axes(tokens), layout.channels)


@dataclass(frozen=True)
class Int8(Quantised):
    """Each element as one of 255 multiples of its channel's scale.

    Of an element x, and amax, the greatest magnitude of its channel in the value, what is read is
    x' with |x - x'| <= amax / 254 * (1 + 2^-15), and half a unit of the last place of x' in the
    element's type; never less than 2^-127. A channel of zeros is read as it was, but for the sign.
    Raises UsageError (not_finite) for values with infinities or NaN, before anything is stored.
    """

    number: ClassVar[int] = 2
    code: ClassVar[int] = _core.INT8


@dataclass(frozen=True)
class Fp8(Quantised):
    """Each element as an E4M3 number times its channel's scale, amax / 448.

    Of an element x what is read is x' with |x - x'| <= max(|x| / 16, amax / 448 * 2^-10) *
    (1 + 2^-15), and half a unit of the last place of x' in the element's type; never less than
    2^-135. Zeros keep their sign. Raises UsageError (not_finite) as Int8 does.
    """

    number: ClassVar[int] = 3
    code: ClassVar[int] = _core.FP8

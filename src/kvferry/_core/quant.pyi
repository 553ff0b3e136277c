"""Codes for elements of KV cache. A part of the contract of core."""

from collections.abc import Sequence
from typing import final

from typing_extensions import Buffer

F16: int
BF16: int
F32: int
INT8: int
FP8: int
QUANTISED: int
NOT_FINITE: int
BAD_SCALE: int
MOST_AXES: int

def quant_variants() -> list[str]:
    """The kernels that this processor runs; the later ones are faster."""

@final
class Quantiser:
    """Elements to codes of one byte and back, with a scale for each channel. Immutable, and so
    thread-safe; the GIL is released.

    element   F16, BF16 or F32; code: INT8 or FP8
    axes      (extent, stride in channels) each, the outermost first; the innermost has a stride of
              1 or of 0, no extent is 0
    variant   which kernels; by default the fastest

    Raises ValueError for axes that are none, or lead out of the channels.
    """

    def __init__(
        self,
        element: int,
        code: int,
        axes: Sequence[tuple[int, int]],
        channels: int,
        variant: int = ...,
    ) -> None: ...
    @property
    def raw_bytes(self) -> int: ...
    @property
    def encoded_bytes(self) -> int: ...
    def encode(self, raw: Buffer, encoded: Buffer) -> int:
        """QUANTISED, or NOT_FINITE: what `encoded` holds is unspecified. Raises ValueError unless
        both buffers are as long as they must be."""

    def decode(self, encoded: Buffer, raw: Buffer) -> int:
        """QUANTISED, or BAD_SCALE: nothing was written. Raises ValueError as encode does."""

"""Values compressed, without loss, by the library of RFC 8878."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ...errors import UsageError
from .codec import Codec
from .header import HEADER

__all__ = ["Zstd"]


@dataclass(frozen=True)
class Zstd(Codec):
    """The same bytes again, of whatever kind.

    level    from -131072, the fastest, to 22
    largest  bytes of a value; what says that it is longer is not believed

    KV cache in itself gives little: its mantissas are noise. Raises UsageError: no_zstd where the
    library is not installed, level, and at a put too_large.
    """

    level: int = 3
    largest: int = 1 << 30
    number: ClassVar[int] = 1

    def __post_init__(self) -> None:
        least, most = self._library.CompressionParameter.compression_level.bounds()
        if not least <= self.level <= most:
            raise UsageError(f"level {self.level} is not one of {least} to {most}", cause="level")

    def parameters(self) -> tuple[tuple[str, str], ...]:
        return ("level", repr(self.level)), ("largest", repr(self.largest))

    def check(self, length: int) -> None:
        if length > self.largest:
            raise UsageError(f"{length} bytes, more than {self.largest}", cause="too_large")

    def fits(self, length: int, payload: int) -> bool:
        return length <= self.largest and payload > 0

    def pack(self, value: memoryview) -> bytearray:
        frame = self._library.compress(value, self.level)
        stored = bytearray(HEADER + len(frame))
        stored[HEADER:] = frame
        return stored

    def unpack(self, payload: memoryview, target: memoryview) -> bool:
        library = self._library
        try:
            if library.get_frame_info(payload).decompressed_size != target.nbytes:
                return False
            frame = library.ZstdDecompressor()
            value = frame.decompress(payload, max_length=target.nbytes + 1)
        except library.ZstdError:
            return False
        if len(value) != target.nbytes or not frame.eof or frame.unused_data:
            return False
        target[:] = value
        return True

    @cached_property
    def _library(self) -> Any:
        try:
            if sys.version_info >= (3, 14):
                from compression import zstd
            else:
                from backports import zstd
        except ImportError:
            raise UsageError(
                "Zstd needs a library: pip install 'kvferry[zstd]'", cause="no_zstd"
            ) from None
        return zstd

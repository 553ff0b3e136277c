"""Codecs: what is stored of a value in place of its bytes.

codec      what all have in common, and the header that each stored value begins with
identity   digests over named fields
layout     where the channels of a KV block lie
quantised  Int8 and Fp8: codes of one byte with a scale for each channel, within stated bounds
zstd       Zstd: the same bytes again
"""

from .codec import Codec
from .layout import Layout
from .quantised import Fp8, Int8
from .zstd import Zstd

__all__ = ["Codec", "Fp8", "Int8", "Layout", "Zstd"]

"""What stored KV is: of which model, and in which order its bytes are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ..hashing.extras import is_text
from ..hashing.prefix_hash import BLOCK_TOKENS_MOST

__all__ = ["DTYPES", "LayoutRecord"]

Numbers: TypeAlias = NDArray[np.int64]

DTYPES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}
KINDS = {"kv": 2, "latent": 1}
COUNTS = ("layers", "heads", "head_dim", "block_tokens", "tp", "pp")
MOST = 1 << 20
LARGEST = 1 << 40  # bytes of a page


@dataclass(frozen=True)
class LayoutRecord:
    """A page: the KV of one block, of the layers and heads of one shard, as one row of bytes.

    model, revision  whose KV it is, and of which weights
    layers, heads, head_dim  of the whole model; heads are those of K and V. Of a latent: one head,
                     whose dimensions are the latent and the part with positions
    dtype            of a number: see DTYPES
    block_tokens     tokens of a block
    kind             "kv", or "latent": one vector a token, for keys and values alike
    order            of the axes of a page, the slowest first: l layers, k keys and values, t
                     tokens, h heads; the dimensions of a head come last.  "lkth" | "lkht" | "klth"
    tp, pp           into how many shards heads and layers are split. With more shards than heads
                     each head is in tp / heads of them; of a latent all shards of a layer have it
    tp_rank, pp_rank of this shard

    Raises UsageError (layout) for what is no layout.
    """

    model: str
    revision: str
    layers: int
    heads: int
    head_dim: int
    dtype: str
    block_tokens: int
    kind: str = "kv"
    order: str = "lkth"
    tp: int = 1
    pp: int = 1
    tp_rank: int = 0
    pp_rank: int = 0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def shards(self) -> int:
        return self.tp * self.pp

    @property
    def shard(self) -> int:
        """The number of this one: those of one range of layers follow each other."""
        return self.pp_rank * self.tp + self.tp_rank

    @property
    def layer_range(self) -> range:
        count = self.layers // self.pp
        return range(self.pp_rank * count, (self.pp_rank + 1) * count)

    @property
    def head_range(self) -> range:
        start = self.tp_rank * self.heads // self.tp
        return range(start, start + max(1, self.heads // self.tp))

    @property
    def extents(self) -> dict[str, int]:
        """Of the axes of a page, in their order."""
        sizes = {
            "l": len(self.layer_range),
            "k": KINDS[self.kind],
            "t": self.block_tokens,
            "h": len(self.head_range),
        }
        return {axis: sizes[axis] for axis in self.order}

    @property
    def vector_bytes(self) -> int:
        """Of one head of one token, in one layer: the bytes that are never taken apart."""
        return self.head_dim * DTYPES[self.dtype]

    @property
    def page_shape(self) -> tuple[int, ...]:
        """Of a page as an array of numbers."""
        return (*self.extents.values(), self.head_dim)

    @property
    def page_bytes(self) -> int:
        return prod(self.extents.values()) * self.vector_bytes

    @property
    def identity(self) -> bytes:
        """All of it but which shard this is: what hashes of prefixes contain."""
        whole = replace(self, tp_rank=0, pp_rank=0)
        return hashlib.sha256(whole.encode()).digest()

    def strides(self) -> dict[str, int]:
        """Bytes from one index of an axis to the next."""
        strides, step = {}, self.vector_bytes
        for axis, extent in reversed(self.extents.items()):
            strides[axis] = step
            step *= extent
        return strides

    def shards_of(self, layers: Numbers, heads: Numbers) -> Numbers:
        """The first shard that has each of these."""
        return layers // (self.layers // self.pp) * self.tp + heads * self.tp // self.heads

    def encode(self) -> bytes:
        """As JSON, to be kept beside what it is about."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, raw: bytes) -> LayoutRecord:
        """Raises UsageError (layout) for what is none."""
        try:
            return msgspec.json.decode(raw, type=cls)
        except msgspec.DecodeError as error:  # of other types, too
            raise UsageError(f"not a layout: {error}", cause="layout") from None


def _check(record: LayoutRecord) -> None:
    for name in COUNTS:
        count = getattr(record, name)
        if not _is_number(count) or not 0 < count <= MOST:
            raise _mistake(f"{name} is {count!r}")
    for name in ("model", "revision", "dtype", "kind", "order"):
        if not is_text(getattr(record, name)):
            raise _mistake(f"{name} is {getattr(record, name)!r}, which is no text")
    for name, known in (("dtype", DTYPES), ("kind", KINDS)):
        if getattr(record, name) not in known:
            raise _mistake(f"{name} is {getattr(record, name)!r}, not one of {', '.join(known)}")
    if sorted(record.order) != sorted("lkth"):
        raise _mistake(f"order is {record.order!r}, not lkth in some order")
    if record.block_tokens > BLOCK_TOKENS_MOST:
        raise _mistake(f"block_tokens is {record.block_tokens}")
    _check_split(record)


def _check_split(record: LayoutRecord) -> None:
    for name, count in (("tp_rank", record.tp), ("pp_rank", record.pp)):
        if not _is_number(getattr(record, name)) or getattr(record, name) not in range(count):
            raise _mistake(f"{name} is {getattr(record, name)!r} of {count}")
    if record.kind == "latent" and record.heads != 1:
        raise _mistake(f"heads is {record.heads} of a latent, which has one")
    if record.layers % record.pp:
        raise _mistake(f"pp is {record.pp} for {record.layers} layers")
    if record.heads % record.tp and record.tp % record.heads:
        raise _mistake(f"tp is {record.tp} for {record.heads} heads")
    if record.shards >= 1 << 16:
        raise _mistake(f"tp is {record.tp} and pp {record.pp}: too many shards")
    if record.page_bytes > LARGEST:
        raise _mistake(f"a page of {record.page_bytes} bytes")


def _is_number(thing: object) -> bool:
    return isinstance(thing, int) and not isinstance(thing, bool)


def _mistake(said: str) -> UsageError:
    return UsageError(f"layout: {said}", cause="layout")

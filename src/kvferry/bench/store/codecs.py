"""What codecs make of KV blocks: how much smaller, how fast beside a copy, how far off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...store.codecs import Codec, Fp8, Int8, Layout, Zstd
from ..machine import read_machine
from ..result import describe

__all__ = ["CodecResult", "CodecRow", "measure_codecs"]

TOKENS, HEADS, DIM = 16, 8, 128
BLOCKS = 32  # a pass, so that caches are met as in a batch
OUTLIERS = 31  # every such channel is large
ROUNDS = 5


class CodecRow(msgspec.Struct, frozen=True):
    """One codec with blocks of one kind. Speeds are of the values' bytes.

    copy_gbps   of copying the same blocks in turns with it
    max_error   greatest |x - x'| in any channel, of the greatest magnitude there
    mean_error  mean |x - x'|, of mean |x|
    """

    codec: str
    blocks: str
    bytes: int
    ratio: float
    encode_gbps: float
    decode_gbps: float
    copy_gbps: float
    max_error: float
    mean_error: float
    verified: bool


class CodecResult(msgspec.Struct, frozen=True):
    """A whole run."""

    machine: dict[str, Any]
    rows: list[CodecRow]

    @property
    def verified(self) -> bool:
        return all(row.verified for row in self.rows)


class Kind(NamedTuple):
    """Blocks of one kind. dtype: of their elements; None: they are bytes."""

    name: str
    dtype: str | None
    blocks: list[memoryview]

    def values(self, block: memoryview) -> NDArray[np.float64]:
        """(tokens, channels)."""
        if self.dtype == "bfloat16":
            bits = np.frombuffer(block, np.uint16).astype(np.uint32) << 16
            found = bits.view(np.float32).astype(np.float64)
        else:
            found = np.frombuffer(block, self.dtype or np.uint8).astype(np.float64)
        return found.reshape(TOKENS, -1)


def measure_codecs(seconds: float) -> CodecResult:
    """A row for each codec and kind of blocks. Blocks for about `seconds` each. Raises UsageError
    where the library of Zstd is not installed."""
    rows = [_measure(codec, kind, seconds) for kind in _kinds() for codec in _codecs(kind)]
    return CodecResult(describe(read_machine(), {}), rows)


def _codecs(kind: Kind) -> Iterator[Codec]:
    yield Zstd(1)
    yield Zstd(3)
    if kind.dtype is not None:
        for axes in (None, (1,)):
            layout = Layout(kind.dtype, (TOKENS, HEADS, DIM), channel_axes=axes)
            yield Int8(layout)
            yield Fp8(layout)


def _kinds() -> Iterator[Kind]:
    values = [_kv(np.random.default_rng(seed)) for seed in range(BLOCKS)]
    yield Kind("kv f16", "float16", [_bytes_of(each.astype(np.float16)) for each in values])
    halves = [(each.view(np.uint32) >> 16).astype(np.uint16) for each in values]
    yield Kind("kv bf16", "bfloat16", [_bytes_of(each) for each in halves])
    yield Kind("text", None, [_text()] * BLOCKS)


def _kv(random: np.random.Generator) -> NDArray[np.float32]:
    """Channels about a mean of their own, tokens like those before, a few channels much larger."""
    block = random.normal(0, 0.3, (TOKENS, HEADS, DIM))
    for token in range(1, TOKENS):
        block[token] += 0.9 * block[token - 1]
    block += random.normal(0, 0.5, (HEADS, DIM))
    block[:, :, ::OUTLIERS] *= 20
    return block.astype(np.float32)


def _text() -> memoryview:
    """As long as a block of KV: what this package is made of."""
    wanted, text = TOKENS * HEADS * DIM * 2, b""
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        text += file.read_bytes()
        if len(text) >= wanted:
            break
    return memoryview((text * (wanted // len(text) + 1))[:wanted])


def _bytes_of(block: NDArray[Any]) -> memoryview:
    return memoryview(block.tobytes())


def _measure(codec: Codec, kind: Kind, seconds: float) -> CodecRow:
    stored = [codec.encode(block) for block in kind.blocks]
    targets = [memoryview(bytearray(block.nbytes)) for block in kind.blocks]
    sources = [np.frombuffer(block, np.uint8) for block in kind.blocks]
    outs = [np.frombuffer(target, np.uint8) for target in targets]

    def decode() -> None:
        for each, target in zip(stored, targets, strict=True):
            opened = codec.open(each)
            if opened is not None:
                codec.decode(opened, target)

    def copy() -> None:
        for source, out in zip(sources, outs, strict=True):
            np.copyto(out, source)

    speeds = _speeds(
        [lambda: [codec.encode(block) for block in kind.blocks], copy, decode],
        sum(block.nbytes for block in kind.blocks),
        seconds,
    )
    encoding, copying, decoding = speeds
    decode()
    size = kind.blocks[0].nbytes
    errors = np.array([_errors(kind, *pair) for pair in zip(kind.blocks, targets, strict=True)])
    greatest, mean = float(errors[:, 0].max()), float(errors[:, 1].mean())
    return CodecRow(
        codec=_name(codec),
        blocks=kind.name,
        bytes=size,
        ratio=round(size * BLOCKS / sum(map(len, stored)), 3),
        encode_gbps=round(encoding, 3),
        decode_gbps=round(decoding, 3),
        copy_gbps=round(copying, 3),
        max_error=greatest,
        mean_error=mean,
        verified=greatest <= _bound(codec),
    )


def _speeds(moves: list[Callable[[], object]], size: int, seconds: float) -> list[float]:
    """GB/s of each, in turns."""
    taken: list[list[int]] = [[] for _ in moves]
    end, rounds = time.monotonic() + seconds, 0
    while rounds < ROUNDS or time.monotonic() < end:
        for times, move in zip(taken, moves, strict=True):
            begin = time.perf_counter_ns()
            move()
            times.append(time.perf_counter_ns() - begin)
        rounds += 1
    return [size / median(times) for times in taken]


def _errors(kind: Kind, block: memoryview, read: memoryview) -> tuple[float, float]:
    x, y = kind.values(block), kind.values(read)
    off = np.abs(x - y)
    amax = np.abs(x).max(axis=0 if kind.dtype else None)
    return float((off.max(axis=0) / np.maximum(amax, 1e-30)).max()), float(
        off.mean() / np.abs(x).mean()
    )


def _bound(codec: Codec) -> float:
    """Of the greatest error in a channel of its own scale; where channels share one, of none."""
    if isinstance(codec, Zstd):
        return 0.0
    if isinstance(codec, (Int8, Fp8)) and len(codec.layout.channel_axes or ()) == 2:
        element = 2**-8 if codec.layout.dtype == "bfloat16" else 2**-11
        return (1 / 254 if isinstance(codec, Int8) else 1 / 16) * (1 + 2**-15) + element
    return float("inf")


def _name(codec: Codec) -> str:
    if isinstance(codec, Zstd):
        return f"zstd {codec.level}"
    kind = "int8" if isinstance(codec, Int8) else "fp8"
    shared = isinstance(codec, (Int8, Fp8)) and len(codec.layout.channel_axes or ()) == 1
    return f"{kind}, a scale a head" if shared else kind

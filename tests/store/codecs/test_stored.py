"""What a codec stored is read by its like alone, and when nothing has happened to it."""

from __future__ import annotations

import struct
import sys
from typing import Any

import numpy as np
import pytest

from kvferry import UsageError
from kvferry._core import crc32c
from kvferry.store.codecs import Codec, Fp8, Int8, Layout, Zstd
from kvferry.store.codecs.header import HEADER
from tests.store.codecs.stored import bytes_of, read_back

LAYOUT = Layout("float16", (4, 3, 8))
CODECS = [Zstd(), Int8(LAYOUT), Fp8(LAYOUT)]
VALUE = bytes_of(np.linspace(-1, 1, 96).astype("f2"))
IDS = ["zstd", "int8", "fp8"]


def resealed(stored: bytearray) -> bytearray:
    """With the checksum of what is there now, as only somebody with bad intentions would."""
    struct.pack_into("<I", stored, 28, crc32c(stored[HEADER:], crc32c(stored[:28])))
    return stored


def changed(stored: bytearray, at: int, to: bytes) -> bytearray:
    other = bytearray(stored)
    other[at : at + len(to)] = to
    return resealed(other)


@pytest.mark.parametrize("codec", CODECS, ids=IDS)
def test_every_flipped_bit_and_every_cut(codec: Codec) -> None:
    stored = codec.encode(VALUE)
    assert read_back(codec, stored) is not None
    for bit in range(8 * len(stored)):
        stored[bit // 8] ^= 1 << bit % 8
        assert codec.open(stored) is None
        stored[bit // 8] ^= 1 << bit % 8
    for length in range(len(stored)):
        assert codec.open(stored[:length]) is None
    assert codec.open(stored + b"\0") is None
    assert codec.open(bytes(stored)) is not None


@pytest.mark.parametrize("codec", CODECS, ids=IDS)
def test_nothing_is_believed_of_its_length(codec: Codec) -> None:
    stored = codec.encode(VALUE)
    for length in (0, 1, 190, 191, 193, 198, 1 << 31, 1 << 62, (1 << 64) - 1):
        forged = changed(stored, 8, length.to_bytes(8, "little"))
        if 0 < length < 1 << 30 and isinstance(codec, Zstd):
            assert read_back(codec, forged) is None
        else:
            assert codec.open(forged) is None


@pytest.mark.parametrize("codec", CODECS, ids=IDS)
def test_others_do_not_read_it(codec: Codec) -> None:
    others = [
        Zstd(1),
        Zstd(largest=1000),
        Int8(Layout("bfloat16", (4, 3, 8))),
        Int8(Layout("float16", (4, 3, 8), channel_axes=(1,))),
        Int8(Layout("float16", (4, 8, 3))),
        Fp8(Layout("float16", (3, 4, 8), token_axis=1)),
        *(each for each in CODECS if each is not codec),
    ]
    stored = codec.encode(VALUE)
    assert [each for each in others if each.open(stored) is not None] == []
    for at, byte in ((0, b"x"), (4, b"\2"), (5, b"\0"), (6, b"\1"), (20, b"parameter")):
        assert codec.open(changed(stored, at, byte)) is None


@pytest.mark.parametrize("codec", CODECS, ids=IDS)
def test_an_equal_one_reads_it(codec: Codec) -> None:
    twin: Any = Zstd() if isinstance(codec, Zstd) else type(codec)(LAYOUT)  # type: ignore[call-arg]
    assert twin == codec
    assert read_back(twin, codec.encode(VALUE)) == read_back(codec, codec.encode(VALUE))


@pytest.mark.parametrize("codec", CODECS, ids=IDS)
def test_no_bytes(codec: Codec) -> None:
    stored = codec.encode(memoryview(b""))
    assert len(stored) == HEADER
    assert read_back(codec, stored) == b""
    assert codec.open(resealed(stored + b"x")) is None


@pytest.mark.parametrize("length", [1, 1000, 1 << 17])
def test_zstd_gives_the_same_bytes(length: int) -> None:
    for value in (bytes(length), np.random.default_rng(1).bytes(length)):
        for codec in (Zstd(), Zstd(-5), Zstd(9)):
            assert read_back(codec, codec.encode(memoryview(value))) == value


def test_a_frame_that_says_less_than_it_holds() -> None:
    """Or more, or something behind it: whatever it says, no more is unpacked than fits."""
    codec = Zstd()
    frame = bytes(codec.encode(memoryview(bytes(1 << 20))))[HEADER:]
    for length in (1, (1 << 20) - 1, (1 << 20) + 1):
        assert not codec.unpack(memoryview(frame), memoryview(bytearray(length)))
    for wrong in (frame + b"x", frame + frame, frame[:-1], frame[1:], b"", b"no frame at all"):
        assert not codec.unpack(memoryview(wrong), memoryview(bytearray(1 << 20)))
    assert codec.unpack(memoryview(frame), memoryview(bytearray(1 << 20)))


def test_zstd_is_asked_for_what_it_has_not() -> None:
    with pytest.raises(UsageError) as refused:
        Zstd(23)
    assert refused.value.cause == "level"
    with pytest.raises(UsageError) as refused:
        Zstd(largest=10).encode(memoryview(bytes(11)))
    assert refused.value.cause == "too_large"


def test_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    for package in ("backports", "compression"):
        monkeypatch.delattr(sys.modules.get(package, object), "zstd", raising=False)
    with pytest.raises(UsageError, match=r"kvferry\[zstd\]") as refused:
        Zstd()
    assert refused.value.cause == "no_zstd"

"""Digests, against published vectors and a twin written from the paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry import _core

SECRET = bytes(range(16))

# SipHash-2-4 with 16 bytes of output, of the bytes 0, 1, ... under SECRET: length -> digest.
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    63: "5150d1772f50834a503e069a973fbd7c",
}

MASK = (1 << 64) - 1


def rotated(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & MASK


def rounds(v: list[int], n: int) -> None:
    for _ in range(n):
        for one, two, first, second in (
            (0, 1, 13, 32),
            (2, 3, 16, 0),
            (0, 3, 21, 0),
            (2, 1, 17, 32),
        ):
            v[one] = (v[one] + v[two]) & MASK
            v[two] = rotated(v[two], first) ^ v[one]
            v[one] = rotated(v[one], second) if second else v[one]


def twin(key: bytes, secret: bytes) -> list[int]:
    k = [int.from_bytes(secret[i : i + 8], "little") for i in (0, 8)]
    v = [
        k[i % 2] ^ int.from_bytes(b"somepseudorandomlygeneratedbytes"[8 * i :][:8], "big")
        for i in range(4)
    ]
    v[1] ^= 0xEE
    padded = key + bytes(7 - len(key) % 8) + bytes([len(key) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    halves = []
    for place, constant in ((2, 0xEE), (1, 0xDD)):
        v[place] ^= constant
        rounds(v, 4)
        halves.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return halves


@pytest.mark.parametrize("length", VECTORS)
def test_published_vectors(length: int) -> None:
    key, published = bytes(range(length)), bytes.fromhex(VECTORS[length])
    assert _core.digest([key], SECRET).astype("<u8").tobytes() == published
    assert np.array([twin(key, SECRET)], "<u8").tobytes() == published


@given(st.lists(st.binary(max_size=300), max_size=8), st.binary(min_size=16, max_size=16))
def test_twin(keys: list[bytes], secret: bytes) -> None:
    found = _core.digest(keys, secret)
    assert found.shape == (len(keys), 2)
    assert found.tolist() == [twin(key, secret) for key in keys]


def test_text_is_its_utf8() -> None:
    text = ["", "key", "schlüssel", "键", "\0"]
    assert (_core.digest(text, SECRET) == _core.digest([t.encode() for t in text], SECRET)).all()


@pytest.mark.parametrize("key", [1, None, bytearray(b"key"), ("a",)])
def test_other_keys_are_refused(key: object) -> None:
    with pytest.raises(TypeError, match="a key is str or bytes"):
        _core.digest(["first", key], SECRET)  # type: ignore[list-item]


def test_what_is_no_text_or_no_secret() -> None:
    with pytest.raises(UnicodeEncodeError):
        _core.digest(["\ud800"], SECRET)
    with pytest.raises(ValueError, match="16 bytes"):
        _core.digest([], SECRET[:-1])

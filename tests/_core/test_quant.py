"""Codes of one byte against plain arithmetic; the C program beside holds them to their bounds."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry import _core

VARIANTS = range(len(_core.quant_variants()))
ELEMENTS = {_core.F16: "<f2", _core.BF16: "<u2", _core.F32: "<f4"}
CODES = {_core.INT8: 127.0, _core.FP8: 448.0}

# axes, channels, and the channel of each element
FORMS = {
    "rows of channels": ([(5, 0), (300, 1)], 300),
    "rows of one": ([(37, 1), (9, 0)], 37),
    "both": ([(2, 16), (3, 0), (16, 1)], 32),
    "nested": ([(2, 3), (3, 0), (3, 1), (700, 0)], 6),
}


def floats(element: int, raw: NDArray[np.generic]) -> NDArray[np.float32]:
    if element == _core.BF16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32)


def raw_of(element: int, values: NDArray[np.float32]) -> NDArray[np.generic]:
    if element == _core.BF16:
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    return values.astype(ELEMENTS[element])


def fp8_values() -> NDArray[np.float32]:
    codes = np.arange(127)
    exponents, mantissas = codes >> 3, codes & 7
    normal = np.ldexp(1 + mantissas / 8, exponents - 7)
    return np.where(exponents == 0, mantissas / 512, normal).astype(np.float32)


def nearest(code: int, scaled: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a code stands for, of the codes that are nearest the one whose last bit is not set."""
    if code == _core.INT8:
        return np.rint(scaled)
    table = fp8_values()
    size = np.abs(scaled).astype(np.float64)
    above = np.clip(np.searchsorted(table, size), 1, 126)
    low, high = table[above - 1].astype(np.float64), table[above].astype(np.float64)
    up = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    return np.copysign(np.where(up, high, low), scaled).astype(np.float32)


def channels_of(axes: list[tuple[int, int]]) -> NDArray[np.int64]:
    steps = [np.arange(extent) * stride for extent, stride in axes]
    return np.sum(np.meshgrid(*steps, indexing="ij"), axis=0).ravel()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_says_what_plain_arithmetic_says(variant: int, element: int, code: int, form: str) -> None:
    axes, channels = FORMS[form]
    channel = channels_of(axes)
    random = np.random.default_rng(element)
    values = random.normal(0, 1, len(channel)).astype(np.float32)
    values *= np.exp2(random.integers(-14, 6, channels)).astype(np.float32)[channel]
    values[random.random(len(values)) < 0.1] = 0
    raw = raw_of(element, values)
    x = floats(element, raw)
    amax = np.zeros(channels, np.float32)
    np.maximum.at(amax, channel, np.abs(x))
    least = np.finfo(np.float32).tiny
    scales = np.maximum(amax / np.float32(CODES[code]), least).astype(np.float32)
    expected = raw_of(element, nearest(code, x / scales[channel]) * scales[channel])

    native = _core.Quantiser(element, code, axes, channels, variant)
    assert native.raw_bytes == raw.nbytes
    encoded, back = bytearray(native.encoded_bytes), np.empty_like(raw)
    assert native.encode(raw, encoded) == _core.QUANTISED
    assert np.array_equal(np.frombuffer(encoded, "<f4", channels), scales)
    assert native.decode(encoded, back) == _core.QUANTISED
    assert np.array_equal(floats(element, back), floats(element, expected))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_says_when_numbers_are_none(element: int, variant: int) -> None:
    native = _core.Quantiser(element, _core.INT8, [(3, 0), (40, 1)], 40, variant)
    for wrong in (np.inf, -np.inf, np.nan):
        values = np.ones(120, np.float32)
        values[77] = wrong
        if element == _core.BF16:
            raw: NDArray[np.generic] = (values.view(np.uint32) >> 16).astype("<u2")
        else:
            raw = values.astype(ELEMENTS[element])
        assert native.encode(raw, bytearray(native.encoded_bytes)) == _core.NOT_FINITE


def test_scales_that_are_none_are_not_used() -> None:
    native = _core.Quantiser(_core.F32, _core.FP8, [(3, 1)], 3)
    for wrong in (np.inf, np.nan, -1.0, 0.0, 1e-40):
        encoded = np.array([1, 2, wrong], "<f4").tobytes() + bytes(3)
        target = bytearray(b"x" * 12)
        assert native.decode(encoded, target) == _core.BAD_SCALE
        assert target == b"x" * 12


def test_buffers_have_to_fit() -> None:
    native = _core.Quantiser(_core.F16, _core.INT8, [(4, 1)], 4)
    assert (native.raw_bytes, native.encoded_bytes) == (8, 20)
    for raw, encoded in ((7, 20), (9, 20), (8, 19), (8, 21)):
        with pytest.raises(ValueError, match="from"):
            native.encode(bytes(raw), bytearray(encoded))
        with pytest.raises(ValueError, match="from"):
            native.decode(bytes(encoded), bytearray(raw))
    with pytest.raises(BufferError):
        native.encode(bytes(8), bytes(20))


@pytest.mark.parametrize(
    ("axes", "channels"),
    [([], 1), ([(1, 0)] * 9, 1), ([(0, 0)], 1), ([(4, 2)], 9), ([(4, 1)], 3), ([(1, 0)], 0)],
)
def test_axes_that_are_none(axes: list[tuple[int, int]], channels: int) -> None:
    with pytest.raises(ValueError, match=r"ax[ei]s"):
        _core.Quantiser(_core.F16, _core.INT8, axes, channels)


def test_many_threads() -> None:
    axes, channels = FORMS["both"]
    native = _core.Quantiser(_core.F32, _core.INT8, axes, channels)
    wrong: list[int] = []

    def work(seed: int) -> None:
        raw = np.random.default_rng(seed).normal(0, 1, 96).astype("<f4")
        first = bytearray(native.encoded_bytes)
        native.encode(raw, first)
        for _ in range(200):
            again = bytearray(native.encoded_bytes)
            native.encode(raw, again)
            if again != first:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []

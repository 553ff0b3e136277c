"""Int8 and Fp8 keep the bounds that they state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from kvferry import UsageError
from kvferry.store.codecs import Fp8, Int8, Layout
from kvferry.store.codecs.quantised import Quantised
from tests.store.codecs.stored import bf16, bytes_of, floats, read_back

DTYPES = ("float16", "bfloat16", "float32")
HALF_UNITS = {
    "float16": (2**-11, 2**-25),
    "bfloat16": (2**-8, 2**-134),
    "float32": (2**-24, 2**-150),
}
LAYOUTS = {
    "tokens first": ((4, 2, 5), 0, None),
    "heads first": ((2, 4, 5), 1, None),
    "tokens last": ((2, 5, 4), 2, None),
    "a scale a head": ((4, 2, 5), 0, (1,)),
    "one scale": ((4, 2, 5), 0, ()),
}

# Bits of any finite number, of all sizes down to those below the least normal.
BITS = {
    "float16": (np.uint16, 0x7C00),
    "bfloat16": (np.uint16, 0x7F80),
    "float32": (np.uint32, 0x7F800000),
}


def numbers(dtype: str) -> st.SearchStrategy[NDArray[np.generic]]:
    kind, infinite = BITS[dtype]
    sign = (np.iinfo(kind).max >> 1) + 1
    number = st.integers(0, infinite - 1) | st.integers(sign, sign + infinite - 1)
    return arrays(kind, 40, elements=number | st.sampled_from([0, sign, infinite - 1, 1]))


def bound(
    codec: Quantised, x: NDArray[np.float64], amax: NDArray[np.float64]
) -> NDArray[np.float64]:
    """As the docstrings state it, without what the element's type adds."""
    if isinstance(codec, Int8):
        return np.maximum(amax / 254 * (1 + 2**-15), 2.0**-127)
    return np.maximum(np.maximum(np.abs(x) / 16, amax / 448 * 2.0**-10) * (1 + 2**-15), 2.0**-135)


def check(codec: Quantised, raw: bytes) -> None:
    layout = codec.layout
    back = read_back(codec, codec.encode(memoryview(raw)))
    assert back is not None
    x = floats(layout.dtype, raw).reshape(layout.shape)
    y = floats(layout.dtype, back).reshape(layout.shape)
    reduced = tuple(set(range(x.ndim)) - set(layout.channel_axes or ()))
    amax = np.broadcast_to(np.abs(x).max(axis=reduced, keepdims=True), x.shape)
    relative, absolute = HALF_UNITS[layout.dtype]
    rounding = np.maximum(np.abs(y) * relative, absolute)
    assert np.isfinite(y).all()
    assert (np.abs(x - y) <= bound(codec, x, amax) + rounding).all()
    if isinstance(codec, Fp8):
        assert (np.signbit(x) == np.signbit(y)).all()
    assert (y[amax == 0] == 0).all()


@pytest.mark.parametrize("kind", [Int8, Fp8])
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25, deadline=None)
@given(form=st.sampled_from(sorted(LAYOUTS)), data=st.data())
def test_bounds(kind: type[Int8] | type[Fp8], dtype: str, form: str, data: st.DataObject) -> None:
    shape, token_axis, channel_axes = LAYOUTS[form]
    codec = kind(Layout(dtype, shape, token_axis, channel_axes))
    check(codec, data.draw(numbers(dtype)).tobytes())


@pytest.mark.parametrize("kind", [Int8, Fp8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_of_what_looks_like_kv(kind: type[Int8] | type[Fp8], dtype: str) -> None:
    random = np.random.default_rng(3)
    values = random.normal(0, 1, (16, 8, 128)).astype(np.float32)
    values[:, :, ::31] *= 60
    raw = bf16(values) if dtype == "bfloat16" else values.astype(dtype)
    codec = kind(Layout(dtype, (16, 8, 128)))
    check(codec, raw.tobytes())
    assert len(codec.encode(bytes_of(raw))) == 32 + 4 * 1024 + 16 * 1024


@pytest.mark.parametrize("kind", [Int8, Fp8])
def test_fewer_tokens(kind: type[Int8] | type[Fp8]) -> None:
    codec = kind(Layout("float32", (3, 4, 5), token_axis=1))
    for tokens in (0, 1, 3, 4):
        value = np.full((3, tokens, 5), 2.0, "f4")
        stored = codec.encode(bytes_of(value))
        assert len(stored) == 32 + (15 * 4 + 15 * tokens if tokens else 0)
        assert read_back(codec, stored) == value.tobytes()


@pytest.mark.parametrize("kind", [Int8, Fp8])
def test_no_whole_tokens(kind: type[Int8] | type[Fp8]) -> None:
    codec = kind(Layout("float16", (4, 3)))
    for length in (1, 5, 7, 30):
        with pytest.raises(UsageError) as refused:
            codec.encode(memoryview(bytes(length)))
        assert refused.value.cause == "layout"


@pytest.mark.parametrize("kind", [Int8, Fp8])
@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite(kind: type[Int8] | type[Fp8], wrong: float) -> None:
    value = np.ones((4, 3), "f2")
    value[2, 1] = wrong
    with pytest.raises(UsageError) as refused:
        kind(Layout("float16", (4, 3))).encode(bytes_of(value))
    assert refused.value.cause == "not_finite"

"""Where channels lie."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from kvferry import UsageError
from kvferry.store.codecs import Layout

CASES = [
    ({"shape": (16, 8, 128)}, [(16, 0), (1024, 1)]),
    ({"shape": (8, 16, 128), "token_axis": 1}, [(8, 128), (16, 0), (128, 1)]),
    ({"shape": (8, 128, 16), "token_axis": -1}, [(1024, 1), (16, 0)]),
    ({"shape": (2, 16, 8, 128), "token_axis": 1}, [(2, 1024), (16, 0), (1024, 1)]),
    ({"shape": (16, 8, 128), "channel_axes": (1,)}, [(16, 0), (8, 1), (128, 0)]),
    ({"shape": (16, 8, 128), "channel_axes": (2,)}, [(128, 0), (128, 1)]),
    ({"shape": (16, 8, 128), "channel_axes": ()}, [(16384, 0)]),
    ({"shape": (16, 1, 128), "channel_axes": (1,)}, [(2048, 0)]),
    ({"shape": (1,)}, [(1, 0)]),
    ({"shape": (2, 3, 4, 5), "token_axis": 1, "channel_axes": (0, 3)}, [(2, 5), (12, 0), (5, 1)]),
]


@pytest.mark.parametrize(("made", "axes"), CASES)
def test_axes(made: dict[str, Any], axes: list[tuple[int, int]]) -> None:
    layout = Layout("float16", **made)
    assert layout.axes(layout.shape[layout.token_axis]) == axes
    assert prod(extent for extent, _ in axes) == prod(layout.shape)


@pytest.mark.parametrize(("made", "_axes"), CASES)
def test_each_element_has_the_channel_of_its_indices(made: dict[str, Any], _axes: Any) -> None:
    layout = Layout("float32", **made)
    for tokens in {1, layout.shape[layout.token_axis]}:
        shape = list(layout.shape)
        shape[layout.token_axis] = tokens
        axes = layout.channel_axes or ()
        of_channels = [shape[axis] for axis in axes]
        where = [index for axis, index in enumerate(np.indices(shape)) if axis in axes]
        expected = np.zeros(shape, np.int64)
        if axes:
            expected = np.ravel_multi_index(where, of_channels)
        steps = [np.arange(extent) * stride for extent, stride in layout.axes(tokens)]
        told = np.sum(np.meshgrid(*steps, indexing="ij"), axis=0)
        assert np.array_equal(told.ravel(), expected.ravel())
        assert layout.channels == prod(of_channels)


def test_how_many_tokens() -> None:
    layout = Layout("bfloat16", (16, 8, 4))
    assert layout.token_bytes == 64
    assert [layout.tokens(n) for n in (0, 64, 1024, 1025, 63, 1088)] == [0, 1, 16, None, None, None]


def test_the_same_said_otherwise_is_the_same() -> None:
    one = Layout("float16", (4, 2, 3))
    assert one == Layout("float16", (4, 2, 3), token_axis=-3, channel_axes=(-1, 1))
    assert one != Layout("float16", (4, 2, 3), channel_axes=(1,))
    assert hash(one) == hash(Layout("float16", (np.int64(4), 2, 3), channel_axes=(2, 1)))


@pytest.mark.parametrize(
    "made",
    [
        {"shape": ()},
        {"shape": (1,) * 9},
        {"shape": (4, 0)},
        {"shape": (4, -1)},
        {"shape": (1 << 30, 1 << 30)},
        {"shape": (4, 2.5)},
        {"shape": (4, 2), "token_axis": 2},
        {"shape": (4, 2), "channel_axes": (0,)},
        {"shape": (4, 2), "channel_axes": (1, -1)},
        {"shape": (4, 2), "channel_axes": (5,)},
        {"shape": (4, 2), "dtype": "float64"},
    ],
)
def test_what_is_no_layout(made: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        Layout(**{"dtype": "float16", **made})
    assert refused.value.cause == "layout"

"""Many buffers, each to its place: all of them or none."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np
import pytest

from kvferry import _core
from tests._core.tables import aligned, words

ROOM = 1 << 18


def write(sources: list[Any], room: int = ROOM) -> tuple[list[int], list[bytes]]:
    """Lengths, and what is in the places; nothing beyond a source was touched."""
    pool = aligned(len(sources) * room)
    pool[:] = 0xEE
    places = pool.reshape(len(sources), room)
    addresses = pool.ctypes.data + np.arange(len(sources), dtype=np.uint64) * np.uint64(room)
    lengths = _core.write_all(addresses, np.full(len(sources), room, np.uint64), sources).tolist()
    for place, length in zip(places, lengths, strict=True):
        assert (place[length:] == 0xEE).all()
    return lengths, [
        place[:length].tobytes() for place, length in zip(places, lengths, strict=True)
    ]


def test_any_contiguous_buffer() -> None:
    big = np.random.default_rng(1).integers(0, 256, 200_001, np.uint8)
    frozen = np.arange(6.0).reshape(2, 3)
    frozen.flags.writeable = False
    sources: list[Any] = [
        b"bytes",
        bytearray(b"more bytes"),
        b"",
        np.zeros((0, 4)),
        memoryview(b"a part of it")[2:6],
        frozen,
        np.array(["2026-01-01"], "M8[D]"),
        array.array("d", [1, 2, 3]),
        (ctypes.c_int * 3)(7, 8, 9),
        big,
        big[1:],
        b"last",
    ]
    expected = [
        each.tobytes() if isinstance(each, np.ndarray) else bytes(memoryview(each).cast("B"))
        for each in sources
        if not isinstance(each, ctypes.Array)
    ]
    expected.insert(8, bytes(sources[8]))
    lengths, found = write(sources)
    assert found == expected
    assert lengths == [len(each) for each in expected]


def test_many() -> None:
    sources = [bytes([index % 256]) * (index * 3) for index in range(700)]
    assert write(sources, 2100)[1] == sources


def test_none() -> None:
    assert write([]) == ([], [])


def test_exactly_the_room() -> None:
    assert write([b"x" * ROOM, b""]) == ([ROOM, 0], [b"x" * ROOM, b""])


REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    "text": ("text", TypeError),
    "number": (5, TypeError),
    "nothing": (None, TypeError),
    "strided": (np.arange(10)[::2], BufferError),
    "columns": (np.zeros((3, 4), order="F"), BufferError),
    "strided view": (memoryview(b"abcdef")[::-1], BufferError),
    "too long": (b"123456789", ValueError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_is_copied(case: str) -> None:
    refused, error = REFUSED[case]
    target, first = bytearray(b"\xee" * 8), bytearray(b"first")
    address = ctypes.addressof(ctypes.c_char.from_buffer(target))
    with pytest.raises(error):
        _core.write_all(words(address, address), words(8, 8), [first, refused])
    assert target == b"\xee" * 8
    first += b" can grow again: nobody holds it"


def test_lengths() -> None:
    sources: list[Any] = [b"", b"abc", np.zeros((3, 4), np.float32), memoryview(b"12")]
    assert _core.lengths_of(sources).tolist() == [0, 3, 48, 2]
    assert _core.lengths_of([]).tolist() == []


NO_BYTES = {case: refused for case, refused in REFUSED.items() if case != "too long"} | {
    "objects": (np.array([object()]), BufferError),
    "days": (np.array(["2020-01-01"], "M8[D]"), ValueError),
}


@pytest.mark.parametrize("case", NO_BYTES)
def test_lengths_refuses(case: str) -> None:
    refused, error = NO_BYTES[case]
    first = bytearray(b"first")
    with pytest.raises(error):
        _core.lengths_of([first, refused])
    first += b" can grow again: nobody holds it"


def test_the_columns_have_one_length() -> None:
    with pytest.raises(ValueError, match="one length"):
        _core.write_all(words(0), words(0), [b"", b""])
    with pytest.raises(ValueError, match="one length"):
        _core.write_all(words(0, 0), words(0), [b"", b""])


def test_a_source_is_not_resized_meanwhile() -> None:
    source = bytearray(b"held")
    assert write([source])[1] == [b"held"]
    source += b" no more"
    assert source == b"held no more"

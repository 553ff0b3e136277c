"""The bytes before a tensor, and beside its parts: the layout, and what is believed of them."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

NONE = b"\xff" * 8


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def test_the_header_of_a_whole_tensor() -> None:
    from mooncake.tensor_header import Header, dtype_of

    shape = numbers(2, 3) + NONE * 6
    expected = b"NOOM" + struct.pack("<HHiiIIQQ", 1, 304, 12, 2, 0, 0, 304, 12) + shape + shape
    header = Header(dtype_of("bfloat16"), (2, 3), (2, 3))
    assert header.encode() == expected.ljust(304, b"\0")
    assert Header.decode(memoryview(header.encode() + b"x" * 12), 316) == header


def test_the_header_of_a_part() -> None:
    from mooncake.parallelism import Axis
    from mooncake.tensor_header import Header, dtype_of

    axes = (Axis(3, 1, 2, None, 9), Axis(1, 1, 3, 1))
    header = Header(dtype_of("uint8"), (2, 6), (2, 2), axes)
    stored = header.encode()
    assert stored[16:20] == b"\1\0\0\0"
    assert stored[40:56] + stored[104:120] == numbers(2, 6, 2, 2)
    assert stored[168:176] == struct.pack("<II", 2, 0)
    assert stored[176:240] == struct.pack("<6iq6iq", 3, 0, 1, 2, -1, 9, 0, 1, 1, 1, 3, 1, 0, 2)
    assert not any(stored[240:])
    assert Header.decode(memoryview(stored + b"1234"), 308) == header


def test_a_manifest() -> None:
    from mooncake.tensor_header import dtype_of
    from mooncake.tensor_manifest import Manifest

    manifest = Manifest(dtype_of("float32"), (4, 6), 1, 3)
    head = struct.pack("<IHHiiiiQ", 1464680782, 1, 96, 0, 2, 1, 3, 0)
    assert manifest.encode() == head + numbers(4, 6) + NONE * 6
    assert Manifest.decode(memoryview(manifest.encode())) == manifest


@pytest.mark.parametrize(
    ("offset", "field", "value"),
    [
        (0, "I", 1),
        (4, "H", 2),
        (6, "H", 560),
        (8, "i", 99),
        (8, "i", -1),
        (8, "i", 1),
        (12, "i", 9),
        (12, "i", -1),
        (12, "i", 1),
        (16, "I", 1),
        (24, "Q", 312),
        (24, "Q", 0),
        (24, "Q", (1 << 64) - 1),
        (32, "Q", 97),
        (40, "q", 1 << 40),
        (104, "q", 1 << 62),
        (104, "q", -1),
        (120, "q", 1),
        (168, "I", 1),
        (168, "I", 1 << 31),
    ],
)
def test_what_is_no_header(offset: int, field: str, value: int) -> None:
    from mooncake.tensor_header import Header, dtype_of

    stored = bytearray(Header(dtype_of("float32"), (4, 6), (4, 6)).encode() + bytes(96))
    Header.decode(memoryview(stored), 400)
    struct.pack_into(f"<{field}", stored, offset, value)
    with pytest.raises(ValueError, match=r"."):
        Header.decode(memoryview(stored), 400)


@given(
    cut=st.integers(0, 400),
    changes=st.lists(
        st.tuples(st.integers(0, 303), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF])), max_size=6
    ),
)
@settings(max_examples=40, deadline=None)
def test_nothing_is_believed_that_the_length_does_not_say(
    cut: int, changes: list[tuple[int, int]]
) -> None:
    from mooncake.parallelism import tp
    from mooncake.tensor_header import Header, dtype_of
    from mooncake.tensor_stored import Stored

    header = Header(dtype_of("float32"), (8, 6), (4, 6), (tp(1, 2, 0),))
    stored = bytearray(header.encode() + bytes(range(96)))
    for at, value in changes:
        stored[at] = value
    try:
        found = Stored.read(memoryview(stored)[:cut])
    except ValueError:
        return
    assert found.header.begin + found.elements.nbytes == cut
    assert found.elements.tobytes() == bytes(stored[found.header.begin :])


@given(st.binary(min_size=96, max_size=96), st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_a_manifest_names_no_more_parts_than_there_can_be(noise: bytes, kept: int) -> None:
    from mooncake.tensor_header import dtype_of
    from mooncake.tensor_manifest import Manifest

    good = Manifest(dtype_of("int8"), (4,), 0, 2).encode()
    try:
        found = Manifest.decode(memoryview(good[:kept] + noise[kept:]))
    except ValueError:
        return
    assert found.parts <= 1 << 16
    assert len(found.whole) <= 8


def axis(kind: str, rank: Any = 0, size: Any = 2, **more: Any) -> Any:
    from mooncake.parallelism import ParallelAxis

    return ParallelAxis(kind, rank, size, **more)


def test_the_keys_of_parts() -> None:
    from mooncake.parallelism import TensorParallelism, axes_of, shard_key, tp, writer_key

    def key(*axes: Any) -> str:
        return shard_key("k", axes_of(TensorParallelism(list(axes))))

    assert key(axis("tp", 1, split_dim=0)) == "k_tp_1"
    assert key(axis("DP", 1)) == "k__dp_1of2"
    assert key(axis("ep", 0, 4, expert_id=7)) == "k__ep_0of4_eid7"
    several = [
        axis("pp", 1, stage_id=3),
        axis("ep", expert_id=7),
        axis("tp", 1, split_dim=1),
        axis("dp"),
    ]
    assert key(*several) == "k__dp_0of2__tp_1of2_sd1__ep_0of2_eid7__pp_1of2_sid3"
    assert writer_key("k", tp(1, 3, 2)) == "k__writer_1of3_sd2"


@pytest.mark.parametrize(
    "axes",
    [
        [],
        [("xp", {})],
        [("", {})],
        [("tp", {})],
        [("tp", {"split_dim": -1})],
        [("tp", {"split_dim": 0, "rank": 2})],
        [("tp", {"split_dim": 0, "size": 0})],
        [("tp", {"split_dim": 0, "size": 1 << 20})],
        [("tp", {"split_dim": 0, "rank": "0"})],
        [("dp", {"split_dim": 0})],
        [("dp", {"rank": -1})],
        [("ep", {})],
        [("pp", {"stage_id": 1 << 40})],
        [("dp", {}), ("dp", {})],
        [("dp", {}), ("tp", {"split_dim": 0}), ("ep", {"expert_id": 0}), ("pp", {"stage_id": 0})]
        * 2,
    ],
)
def test_what_is_no_parallelism(axes: list[tuple[str, dict[str, Any]]]) -> None:
    from mooncake.parallelism import axes_of

    said = SimpleNamespace(axes=[axis(kind, **how) for kind, how in axes])
    with pytest.raises(ValueError, match=r"."):
        axes_of(said)


def test_a_target_knows_its_modes() -> None:
    from mooncake.parallelism import ReadTarget

    target = ReadTarget()
    assert (target.mode, target.parallelism) == ("as_stored", None)
    target.mode = "FULL"
    assert target.mode == "full"
    with pytest.raises(RuntimeError, match="Unsupported ReadTarget mode"):
        target.mode = "half"
    assert target.mode == "full"

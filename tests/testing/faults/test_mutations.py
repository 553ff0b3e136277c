"""Mutations: the same for the same seed, and what they promise for any bytes."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.engine import messages
from kvferry.rpc.wire import HEADER_SIZE, Kind, encode
from kvferry.testing.faults.mutations import (
    LOADED,
    MUTATIONS,
    PICKLE,
    End,
    Late,
    Pause,
    mutate,
)

frames = st.builds(encode, st.sampled_from(Kind), st.integers(0, 1 << 60), st.binary(max_size=80))
places = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 99)), min_size=1, max_size=5)


def request(places: list[tuple[int, int]]) -> bytes:
    head = struct.pack("<4sIQIIQ", b"KVFQ", 0, 7, 1, len(places), sum(n for _, n in places))
    return head + b"".join(struct.pack("<QQ", *place) for place in places)


requests = st.builds(request, places)
units = st.binary(max_size=200) | frames | requests
seeds = st.integers(0, 1 << 32)


def sent(name: str, unit: bytes, seed: int) -> bytes:
    return b"".join(step for step in mutate(name, unit, seed) if isinstance(step, bytes))


@given(unit=units, seed=seeds, name=st.sampled_from(sorted(MUTATIONS)))
def test_any_unit_becomes_steps_and_always_the_same(unit: bytes, seed: int, name: str) -> None:
    steps = mutate(name, unit, seed)
    assert steps == mutate(name, unit, seed)
    for step in steps:
        assert isinstance(step, bytes | Pause | Late | End)
    assert len(sent(name, unit, seed)) <= 2 * len(unit) + 300


@given(unit=units, seed=seeds)
def test_a_delay_loses_nothing(unit: bytes, seed: int) -> None:
    assert sent("delay", unit, seed) == unit


@given(unit=units, seed=seeds)
def test_what_is_reordered_is_all_there(unit: bytes, seed: int) -> None:
    assert mutate("reorder", unit, seed) == [Late(unit)]
    assert sorted(sent("reorder_bytes", unit, seed)) == sorted(unit)


@given(unit=units, seed=seeds)
def test_what_ends_a_stream_sends_its_beginning(unit: bytes, seed: int) -> None:
    for name, end in (("half_close", End.HALF), ("drop_connection", End.BOTH)):
        assert mutate(name, unit, seed)[-1] is end
        assert unit.startswith(sent(name, unit, seed))


@given(unit=units, seed=seeds)
def test_garbage_in_place_and_flipped_bits_keep_the_length(unit: bytes, seed: int) -> None:
    for name in ("garbage_in_place", "flip_bits", "huge_length", "wrong_tag", "wrong_place"):
        assert len(sent(name, unit, seed)) == len(unit)


@given(unit=frames, seed=seeds)
def test_a_huge_length_is_the_frames(unit: bytes, seed: int) -> None:
    changed = sent("huge_length", unit, seed)
    assert changed[4:] == unit[4:]


@given(unit=requests, seed=seeds)
def test_a_wrong_place_changes_one_address_alone(unit: bytes, seed: int) -> None:
    changed = sent("wrong_place", unit, seed)
    at = {index // 8 for index, (a, b) in enumerate(zip(unit, changed, strict=True)) if a != b}
    assert len(at) <= 1
    assert all(word >= 4 and word % 2 == 0 for word in at)


def test_a_wrong_message_is_whole_and_another() -> None:
    hello = messages.encode(messages.Hello(1, "control", 5, b"n" * 32))
    unit = encode(Kind.REQUEST, 1, hello)
    seen = set()
    for seed in range(60):
        changed = sent("wrong_message", unit, seed)
        assert struct.unpack_from("<I", changed)[0] == len(changed) - HEADER_SIZE
        seen.add(changed)
    assert len(seen) > 5


def test_who_loads_the_pickle_makes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(PICKLE).close()  # noqa: S301
    assert (tmp_path / LOADED).exists()

"""Frames: round trips, arbitrary splits, hostile bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.errors import PeerError
from kvferry.rpc.wire import HEADER_SIZE, MAX_FDS, Decoder, Frame, Kind, encode

LIMIT = 4096

frames = st.builds(
    lambda kind, call, fds, body: Frame(kind, call, fds, body),
    st.sampled_from(Kind),
    st.integers(0, 2**64 - 1),
    st.integers(0, MAX_FDS),
    st.binary(max_size=300),
)


def as_bytes(frame: Frame) -> bytes:
    return encode(frame.kind, frame.call, frame.body, frame.fds)


def test_layout() -> None:
    assert encode(Kind.REPLY, 0x0102030405060708, b"body", 3) == bytes.fromhex(
        "04000000 02 03 0000 0807060504030201" + b"body".hex()
    )


@given(st.lists(frames, max_size=8), st.lists(st.integers(0, 400), max_size=60))
def test_any_split_decodes_to_the_same_frames(sent: list[Frame], cuts: list[int]) -> None:
    stream = b"".join(map(as_bytes, sent))
    decoder = Decoder(LIMIT)
    received = []
    at = 0
    for size in [*cuts, len(stream)]:
        received += decoder.feed(stream[at : at + size])
        at += size
    assert received == sent
    assert not decoder.amid
    assert decoder.claim == 0


def rejected(decoder: Decoder, noise: bytes, step: int) -> PeerError | None:
    """Why `noise` was refused, or None when all of it was taken."""
    for at in range(0, len(noise), step):
        try:
            decoder.feed(noise[at : at + step])
        except PeerError as error:
            return error
        assert len(decoder._rest) < HEADER_SIZE + LIMIT
    return None


@given(st.binary(max_size=2000), st.integers(1, 64))
def test_random_bytes_end_in_an_error_and_keep_little(noise: bytes, step: int) -> None:
    error = rejected(Decoder(LIMIT), noise, step)
    if error is not None:
        assert error.cause == "protocol"
    else:
        # What was not refused began at least like a frame.
        assert len(noise) < HEADER_SIZE or noise[4] in list(Kind)


@given(st.lists(frames, max_size=3), st.binary(min_size=HEADER_SIZE, max_size=100))
def test_frames_before_the_violation_do_not_hide_it(sent: list[Frame], noise: bytes) -> None:
    broken = noise[:4] + b"\0" + noise[5:]
    stream = b"".join(map(as_bytes, sent)) + broken
    assert rejected(Decoder(LIMIT), stream, len(stream)) is not None


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ((LIMIT + 1, 1, 0, 0, 1), "limit"),
        ((2**32 - 1, 1, 0, 0, 1), "limit"),
        ((0, 0, 0, 0, 1), "kind 0"),
        ((0, 9, 0, 0, 1), "kind 9"),
        ((0, 1, MAX_FDS + 1, 0, 1), "17 descriptors"),
        ((0, 1, 0, 7, 1), "0x7"),
    ],
)
def test_a_bad_header_is_refused_before_its_body(header: tuple[int, ...], says: str) -> None:
    with pytest.raises(PeerError, match=says) as caught:
        Decoder(LIMIT).feed(struct.pack("<IBBHQ", *header))
    assert caught.value.cause == "protocol"


def test_the_limit_itself_is_allowed_and_can_be_raised() -> None:
    decoder = Decoder(LIMIT)
    assert decoder.feed(encode(Kind.REQUEST, 1, bytes(LIMIT)))[0].body == bytes(LIMIT)
    decoder.limit *= 2
    assert decoder.feed(encode(Kind.REQUEST, 2, bytes(2 * LIMIT)))[0].call == 2


def test_claim_follows_the_unfinished_frame() -> None:
    data = encode(Kind.REQUEST, 1, b"abc", 5)
    decoder = Decoder(LIMIT)
    claims = []
    for at in range(len(data)):
        decoder.feed(data[at : at + 1])
        claims.append(decoder.claim)
    assert claims == [MAX_FDS] * (HEADER_SIZE - 1) + [5] * 3 + [0]

"""Handing over between two engines: each block of each layer once, nothing of another layout."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

import kvferry as kf
from kvferry.demo.serving.messages import Arrived
from kvferry.demo.serving.pages import Pages, pages_of
from kvferry.demo.serving.push import NOTIFICATION, Push
from kvferry.errors import Error, PeerError, UsageError
from kvferry.paged import LayoutRecord
from tests.demo.serving.late import LateChannel

RECORD = LayoutRecord("m", "r", layers=3, heads=2, head_dim=4, dtype="float32", block_tokens=4)


@pytest.mark.parametrize("chunk", [1, 3, 4, 7, 30])
@pytest.mark.parametrize("start", [0, 8])
def test_what_is_computed_in_chunks_arrives_whole(chunk: int, start: int) -> None:
    prompt = 30
    random = np.random.default_rng(chunk)
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        here, there = Pages(ours, RECORD, 20), Pages(theirs, RECORD, 16)
        channel = ours.connect(theirs.addresses[0])
        our_blocks, their_blocks = random.permutation(20)[:8], random.permutation(16)[:8]
        push = Push(channel, here.memory, pages_of(channel), their_blocks, start, prompt)
        kv = random.standard_normal(here.layers[:, our_blocks].shape, np.float32)
        here.layers[:, our_blocks[: start // 4]] = kv[:, : start // 4]
        for begin in range(start, prompt, chunk):
            stop = min(begin + chunk, prompt)
            for layer in range(3):
                for token in range(begin, stop):
                    block, offset = divmod(token, 4)
                    here.layers[layer, our_blocks[block], :, offset] = kv[layer, block, :, offset]
                push.written(layer, our_blocks, stop)
        hops = push.finish("a", 17)
        (said,) = theirs.notifications(timeout=5)
        assert said.name == NOTIFICATION
        assert msgspec.json.decode(said.message, type=Arrived) == Arrived("a", 17)
        got, first = there.layers[:, their_blocks], start // 4
        np.testing.assert_array_equal(got[:, first:7], kv[:, first:7])
        np.testing.assert_array_equal(got[:, 7, :, :2], kv[:, 7, :, :2])
        assert sum(hop.bytes for hop in hops) == (8 - first) * RECORD.page_bytes
        del got, here, there


@pytest.mark.parametrize(
    ("field", "value"), [("revision", "s"), ("dtype", "int8"), ("heads", 1), ("block_tokens", 2)]
)
def test_refuses_another_layout(field: str, value: object) -> None:
    other = replace(RECORD, **{field: value})
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        region = theirs.allocate("kv", 1 << 16)
        said = msgspec.json.encode((4, msgspec.Raw(other.encode())))
        theirs.serve("kv layout", lambda _: said)
        here = Pages(ours, RECORD, 4)
        channel = ours.connect(theirs.addresses[0])
        with pytest.raises(UsageError, match=field):
            Push(channel, here.memory, pages_of(channel), np.array([1]), 0, 4)
        del here, region


@pytest.mark.parametrize("said", [b"", b"{}", b"[4]", b'["4", {}]'])
def test_refuses_what_says_no_layout(said: bytes) -> None:
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        theirs.serve("kv layout", lambda _: said)
        with pytest.raises(UsageError, match="layout"):
            pages_of(ours.connect(theirs.addresses[0]))


def test_a_layer_arrives_before_the_next_one_is_computed() -> None:
    """And nobody waits for it here: the bytes move by themselves."""
    blocks = np.array([1, 2])
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        here, there = Pages(ours, RECORD, 4), Pages(theirs, RECORD, 4)
        channel = ours.connect(theirs.addresses[0])
        push = Push(channel, here.memory, pages_of(channel), blocks, 0, 8)
        for layer in range(3):
            here.layers[layer] = layer + 1.0
            push.written(layer, blocks, 8)
            end = time.monotonic() + 10
            while not (there.layers[layer, blocks] == layer + 1.0).all():
                assert time.monotonic() < end
                time.sleep(0.001)
            assert not there.layers[layer + 1 :].any()
        push.finish("a", 1)
        del here, there, push


def test_refuses_blocks_that_are_not_there() -> None:
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        there, here = Pages(theirs, RECORD, 4), Pages(ours, RECORD, 4)
        channel = ours.connect(theirs.addresses[0])
        with pytest.raises(UsageError, match="4"):
            Push(channel, here.memory, pages_of(channel), np.array([1, 4]), 0, 8)
        del here, there


def test_a_peer_that_is_gone_is_told_at_the_end() -> None:
    with kf.Engine() as ours:
        here = Pages(ours, RECORD, 4)
        with kf.Engine("127.0.0.1:0") as theirs:
            there = Pages(theirs, RECORD, 4)
            channel = ours.connect(theirs.addresses[0])
            push = Push(channel, here.memory, pages_of(channel), np.array([1, 2]), 0, 8)
            push.written(0, np.array([1, 2]), 8)
            del there
        for layer in (1, 2):
            push.written(layer, np.array([1, 2]), 8)
        with pytest.raises(Error):
            push.finish("a", 1)
        del here


class Second:
    """The second of all transfers fails."""

    def __init__(self) -> None:
        self.asked = 0

    def strikes(self, share: float = 1.0) -> bool:
        self.asked += 1
        return self.asked == 4  # each transfer asks twice: is it taken, does it fail


def test_what_fails_leaves_nothing_under_way() -> None:
    """Other layers are there before it is said that one is not: nothing lands afterwards."""
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        there, here = Pages(theirs, RECORD, 4), Pages(ours, RECORD, 4)
        late: Any = LateChannel(ours.connect(theirs.addresses[0]), Second())
        again: list[int] = []
        blocks = np.array([1, 2])
        push = Push(
            late, here.memory, pages_of(late.channel), blocks, 0, 8, lambda: again.append(1)
        )
        here.layers[:] = 1.0
        for layer in range(3):
            push.written(layer, blocks, 8)
        assert not there.layers.any()
        with pytest.raises(PeerError, match="half"):
            push.finish("a", 1)
        assert again == [1]
        assert [bool(there.layers[layer, blocks].all()) for layer in range(3)] == [
            True,
            False,
            True,
        ]
        here.layers[:] = 2.0
        for _ in range(3):
            late.land_one()
        assert there.layers.max() == 1.0
        assert theirs.notifications() == []
        del here, there, push

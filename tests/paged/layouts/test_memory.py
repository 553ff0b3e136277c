"""From numbers of blocks to bytes: pages gathered for a store, and moved by an engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kvferry as kf
from kvferry.errors import UsageError
from kvferry.paged import LayoutRecord, PagedMemory, layouts

BLOCKS = 6
KV = LayoutRecord("m", "r", 3, 2, 4, "float16", 4)
KEYS_FIRST = LayoutRecord("m", "r", 3, 2, 4, "float16", 4, order="klth")
LATENT = LayoutRecord("m", "r", 3, 1, 6, "float16", 4, kind="latent")


def numbered(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.uint16).reshape(shape)


def layer_first() -> tuple[PagedMemory, Any]:
    whole = numbered(3, BLOCKS, 2, 4, 2, 4)
    return layouts.layer_first(KV, BLOCKS, list(whole)), whole.transpose(1, 0, 2, 3, 4, 5)


def one_buffer() -> tuple[PagedMemory, Any]:
    whole = numbered(3, BLOCKS, 2, 4, 2, 4)
    return layouts.layer_first(KV, BLOCKS, [whole]), whole.transpose(1, 0, 2, 3, 4, 5)


def block_first() -> tuple[PagedMemory, Any]:
    whole = numbered(BLOCKS, 3, 2, 4, 2, 4)
    return layouts.block_first(KV, BLOCKS, [whole]), whole


def split() -> tuple[PagedMemory, Any]:
    whole = numbered(3, 2, BLOCKS, 4, 2, 4)
    parts = [part for layer in whole for part in layer]
    return layouts.split(KV, BLOCKS, parts), whole.transpose(2, 0, 1, 3, 4, 5)


def keys_first() -> tuple[PagedMemory, Any]:
    whole = numbered(2, 3, BLOCKS, 4, 2, 4)
    return layouts.split(KEYS_FIRST, BLOCKS, list(whole)), whole.transpose(2, 0, 1, 3, 4, 5)


def latent() -> tuple[PagedMemory, Any]:
    whole = numbered(3, BLOCKS, 4, 6)
    return layouts.latent(LATENT, BLOCKS, list(whole)), whole.transpose(1, 0, 2, 3)


@pytest.mark.parametrize("made", [layer_first, one_buffer, block_first, split, keys_first, latent])
def test_a_page_is_gathered_in_its_order(made: Any) -> None:
    memory, pages = made()
    ids = [4, 0, 5, 4]
    pieces = memory.pieces(ids)
    assert len(pieces) == len(ids)
    with kf.Store(size="1MiB") as store:
        store.put_batch([f"{at}" for at in range(4)], pieces)
        for at, block in enumerate(ids):
            assert store.get(f"{at}") == pages[block].tobytes()
        store.get_batch_into([f"{at}" for at in range(4)], memory.pieces([1, 2, 3, 1]))
    np.testing.assert_array_equal(pages[[1, 2, 3]], pages[[4, 0, 5]])


@pytest.fixture
def engines() -> Iterator[tuple[kf.Engine, kf.Engine]]:
    with kf.Engine() as ours, kf.Engine("127.0.0.1:0") as theirs:
        yield ours, theirs


BYTES = KV.page_bytes * BLOCKS


@pytest.mark.parametrize("outer", [0, 1, 2])
def test_pages_move_between_engines(engines: tuple[kf.Engine, kf.Engine], outer: int) -> None:
    ours, theirs = engines
    here = np.zeros((3, BLOCKS, 2, 4, 2, 4), np.uint16)
    region = theirs.allocate(f"kv {outer}", BYTES)
    np.frombuffer(memoryview(region), np.uint16)[:] = numbered(BYTES // 2)
    source = PagedMemory(KV, BLOCKS, [region], outer)
    with ours.connect(theirs.addresses[0]) as peer:
        remote = PagedMemory(KV, BLOCKS, [peer.regions[f"kv {outer}"]], outer)
        local = layouts.layer_first(KV, BLOCKS, [here])
        peer.read(layouts.batch(local, [5, 1], remote, [0, 3]))
        expected = np.concatenate([_page(source, block) for block in (0, 3)])
        assert here[:, [5, 1]].transpose(1, 0, 2, 3, 4, 5).tobytes() == expected.tobytes()
        here[:] = 0
        peer.read(layouts.batch(local, [5, 1], remote, [0, 3], layers=[2, 0]))
        assert not here[1].any()
        pages = expected.reshape(2, 3, -1)
        assert here[2, [5, 1]].tobytes() == pages[:, 2].tobytes()
        assert here[0, [5, 1]].tobytes() == pages[:, 0].tobytes()
        with pytest.raises(UsageError, match="not of this process"):
            remote.pieces([1])
    theirs.unregister(region)


def _page(memory: PagedMemory, block: int) -> Any:
    with kf.Store(size="1MiB") as store:
        store.put_batch(["page"], memory.pieces([block]))
        return np.frombuffer(store.get("page") or b"", np.uint16)


def test_layers_in_regions_of_their_own(engines: tuple[kf.Engine, kf.Engine]) -> None:
    ours, theirs = engines
    size = BYTES // 3
    here = [ours.allocate(f"layer {at}", size) for at in range(3)]
    there = [theirs.allocate(f"layer {at}", size) for at in range(3)]
    for at, region in enumerate(there):
        np.frombuffer(memoryview(region), np.uint16)[:] = numbered(size // 2) + 1000 * at
    with ours.connect(theirs.addresses[0]) as peer:
        remote = layouts.layer_first(KV, BLOCKS, [peer.regions[f"layer {at}"] for at in range(3)])
        local = layouts.layer_first(KV, BLOCKS, here)
        peer.read(layouts.batch(local, range(BLOCKS), remote, range(BLOCKS)))
        assert all(mine.load() == his.load() for mine, his in zip(here, there, strict=True))
    for engine, regions in ((ours, here), (theirs, there)):
        for region in regions:
            engine.unregister(region)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: PagedMemory(KV, BLOCKS, [bytes(BYTES - 1)]), "buffer 0 has"),
        (lambda: PagedMemory(KV, BLOCKS, []), "0 buffers"),
        (lambda: PagedMemory(KV, BLOCKS, [bytes(BYTES), bytes(BYTES)]), "2 buffers"),
        (lambda: PagedMemory(KV, BLOCKS, [bytearray(BYTES)] * 3), "given twice"),
        (lambda: PagedMemory(KV, BLOCKS, [np.zeros(BYTES, np.float32)]), "dtype of buffer 0"),
        (lambda: PagedMemory(KV, BLOCKS, [bytes(BYTES)], 4), "4 axes"),
        (lambda: PagedMemory(KV, 0, [bytes(BYTES)]), "0 blocks"),
        (lambda: PagedMemory(KV, BLOCKS, [3]), "not a buffer"),
        (lambda: layouts.layer_first(KEYS_FIRST, BLOCKS, [bytes(BYTES)]), "begin with layers"),
        (lambda: layouts.latent(KV, BLOCKS, [bytes(BYTES)]), "kind is kv"),
        (lambda: layouts.split(LATENT, BLOCKS, [bytes(BYTES)]), "latent"),
        (lambda: block_first()[0].pieces([BLOCKS]), "block 6 of 6"),
        (lambda: layouts.batch(split()[0], [1], keys_first()[0], [1]), "order is 'lkth' here"),
        (lambda: layouts.batch(split()[0], [1], split()[0], [1, 2]), "1 blocks and 2"),
        (lambda: layouts.batch(split()[0], [1], split()[0], [1], layers=[3]), "layer 3 of 3"),
    ],
)
def test_refuses(wrong: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wrong()

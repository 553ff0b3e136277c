"""Two processes, each with an engine whose bytes another implementation of `hixl` moves: the
project's own, which is kvferry again."""

from __future__ import annotations

import os
import signal
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvferry as kf
from kvferry.testing import Child, Parent

PACKAGE = str(Path(kf.__file__).parent / "compat" / "hixl")
SIZE = 4 << 20
BLOCK = 64 << 10


def options() -> kf.Options:
    return kf.Options(token_file=kf.config.from_environment().token_file, hixl="1", quiet_grace=5.0)


def noise(seed: int, size: int = SIZE) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def serve(parent: Parent, package: str) -> None:
    """An engine with an allocated and a registered region; says what lies in them."""
    sys.path.insert(0, package)
    mine = noise(2)
    with kf.Engine("127.0.0.1:0", options=options()) as engine:
        own = engine.allocate("own", SIZE)
        np.frombuffer(own, np.uint8)[:] = noise(1)
        engine.register("mine", mine)
        parent.tell(engine.addresses[0])
        for verb, *arguments in parent:
            if verb == "allocate":
                engine.allocate(*arguments)
            parent.tell({each.name: zlib.crc32(each) for each in engine.regions.values()})


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    known = [each for each in sys.modules if each.split(".")[0] == "hixl"]
    for name in known:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(PACKAGE)
    yield PACKAGE
    for name in [each for each in sys.modules if each.split(".")[0] == "hixl"]:
        del sys.modules[name]


@pytest.fixture
def there(package: str, spawn: Callable[..., Child]) -> Child:
    return spawn(serve, package)


@pytest.fixture
def ours(package: str) -> Iterator[kf.Engine]:
    with ExitStack() as undo:
        yield undo.enter_context(kf.Engine(options=options()))


def test_bytes_cross_and_come_back(there: Child, ours: kf.Engine) -> None:
    pool = ours.allocate("pool", SIZE)
    here = np.frombuffer(pool, np.uint8)
    peer = ours.connect(there.hear(), path="hixl/host", timeout=10)
    random = np.random.default_rng(9)
    for number, name in enumerate(["own", "mine"]):
        count = SIZE // BLOCK
        ids = random.permutation(count)
        here[:] = noise(10 + number)
        blocks = kf.Batch.blocks(pool, np.arange(count), peer.regions[name], ids, BLOCK)
        assert peer.write(blocks, timeout=10).bytes == SIZE
        sent = np.zeros_like(here).reshape(count, BLOCK)
        sent[ids] = here.reshape(count, BLOCK)
        assert there.ask(["digest"])[name] == zlib.crc32(sent)
        back = ours.register("back", np.zeros(SIZE, np.uint8))
        peer.read_async(kf.Batch.of(back, peer.regions[name])).wait(10)
        assert bytes(back) == sent.tobytes()
        ours.unregister(back)
    there.ask(["allocate", "late", SIZE])
    peer.write(kf.Batch.of(pool, peer.regions["late"]), timeout=10)
    assert there.ask(["digest"])["late"] == zlib.crc32(here)
    del here


def test_a_peer_that_is_killed(there: Child, ours: kf.Engine) -> None:
    pool = ours.allocate("pool", SIZE)
    peer = ours.connect(there.hear(), path="hixl/host", timeout=10)
    batch = kf.Batch.of(pool, peer.regions["own"])
    peer.write(batch, timeout=10)
    os.kill(there.pid, signal.SIGKILL)
    with pytest.raises(kf.PeerError):
        write_for_ever(peer, batch)


def write_for_ever(peer: kf.Channel, batch: kf.Batch) -> None:
    """Some may still be done before it is noticed that the peer is gone."""
    while True:
        transfer = peer.write_async(batch)
        try:
            transfer.wait(10)
        except kf.Error:
            assert transfer.status is kf.Status.UNKNOWN
            raise

"""A node with a disk that is stopped, or that cannot begin."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kvferry import Engine
from kvferry.errors import Full, PeerError
from kvferry.store import Limits, Store
from kvferry.store.node import Node, Service, service
from kvferry.store.ssd import Ssd
from tests.store.ssd.tiers import MIB, Faulty, keys_of, made, until, value

ALL = Limits(high=1.0, low=1.0)
GRACE = 20.0
SIZE = 100_000


class Slow(Faulty):
    """Slower than those who put."""

    def pwrite(self, fd: int, data: Any, at: int) -> int:
        time.sleep(0.1)
        return super().pwrite(fd, data, at)


def test_a_drain_ends_though_somebody_goes_on_putting(folder: Path) -> None:
    stored: list[str] = []
    with Engine(f"unix://{folder}/node") as engine:
        node = Node(engine, 32 * MIB, ssd=Ssd(folder / "ssd", 64 * MIB, Slow()), limits=ALL)
        served = Service(node)
        with Store(f"unix://{folder}/node") as user:
            putting = threading.Thread(target=put_until_it_ends, args=(user, stored))
            putting.start()
            until(lambda: len(stored) > 50)
            began = time.monotonic()
            served.close(GRACE)
            assert time.monotonic() - began < GRACE / 2
            putting.join()
    with made(folder, 64 * MIB) as tier:
        assert tier.user.exists_batch(stored).all()


def put_until_it_ends(user: Store, stored: list[str]) -> None:
    for at in range(1 << 20):
        try:
            user.put(f"key {at}", value(f"key {at}", 20_000))
        except (Full, PeerError):
            return
        stored.append(f"key {at}")


def test_others_are_asked_for_what_lies_on_the_disk_of_a_node_that_ends(folder: Path) -> None:
    keys = keys_of(20)
    with Store(size=8 * MIB, listen=["127.0.0.1:0"]) as other:
        address = f"kv://{other.engine.addresses[0]}"
        with made(folder, peers=(address,)) as tier:
            tier.put(keys, SIZE)
            other.put_batch(keys, [value(key, SIZE) for key in keys])
            tier.node.drain()
            assert tier.user.get(keys[0]) == value(keys[0], SIZE)
            assert tier.user.get_batch(keys) == [value(key, SIZE) for key in keys]


def test_what_cannot_begin_leaves_nothing_running(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(node: Node, copier: object) -> None:
        raise RuntimeError("no more threads")

    before = set(threading.enumerate())
    with Engine(f"unix://{folder}/node") as engine:
        others = set(threading.enumerate())
        node = Node(engine, MIB, ssd=Ssd(folder / "ssd", MIB))
        with monkeypatch.context() as patch:
            patch.setattr(service, "herald_of", broken)
            with pytest.raises(RuntimeError):
                Service(node)
        assert set(threading.enumerate()) <= others
    assert set(threading.enumerate()) <= before
    with made(folder, MIB) as tier:  # whose folder it was
        tier.put(["key"], SIZE)

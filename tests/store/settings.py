"""A node with a user of it, over each way in which a user reaches one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from kvferry import Engine
from kvferry.store import Limits, Store
from kvferry.store.clock import now
from kvferry.store.node import Node

__all__ = ["WAYS", "Setting", "empty", "node_of", "over_tcp", "settings", "sound", "warm_up"]

WAYS = ("embedded", "mapped", "far")
KIB, MIB = 1 << 10, 1 << 20


class Setting(NamedTuple):
    """owner  the store in which the node is embedded
    user   the one that a test is about; with the way "embedded" it is the owner
    """

    way: str
    owner: Store
    user: Store

    @property
    def node(self) -> Node:
        return node_of(self.owner)

    def another(self, way: str | None = None) -> Store:
        """One more user of the node, to be closed by the test; at a distance, or mapped."""
        return user_of(self.owner, way or ("far" if self.way == "far" else "mapped"))


def node_of(owner: Store) -> Node:
    home: Any = owner._own.home
    node: Node = home._node
    return node


def sound(node: Node) -> list[str]:
    """What is wrong with the catalog of the node, and with what it counts."""
    with node.clerk:
        usage = node.catalog.usage()
        wrong = node.catalog.check_integrity()
    held = usage.free + usage.objects + usage.reserved + usage.quarantined + usage.deferred
    return wrong if held == usage.capacity else [*wrong, f"{usage} does not add up"]


def empty(node: Node) -> None:
    """Every object leaves, whatever keeps it."""
    with node.clerk:
        for member in node.members:
            node.catalog._evictor.leases.release_all(member.number)
        digests = np.array(node.index.scan(0, node.index.capacity)["digest"])
        node.catalog.remove(digests, now(), force=True)
        node.catalog.expire(now())
        node.catalog.evict(0, now())


def warm_up(store: Store) -> None:
    """What is made at first use is there."""
    for size in (100, 1 << 19):
        store.put(f"warm {size}", bytes(size))
        store.get(f"warm {size}")
        store.remove(f"warm {size}")
    store.put_batch(["warm 1", "warm 2"], [b"1", b"2"])  # extents for the next are ordered
    store.remove_batch(["warm 1", "warm 2"])


@contextmanager
def over_tcp() -> Iterator[None]:
    """Channels that are made meanwhile go by tcp, also where the host could do better."""
    with pytest.MonkeyPatch.context() as patch:
        connect = Engine.connect

        def by_tcp(engine: Engine, address: str, **how: Any) -> Any:
            if not address.startswith("unix:"):
                how["link"] = "tcp"
            return connect(engine, address, **how)

        patch.setattr(Engine, "connect", by_tcp)
        yield


def user_of(owner: Store, way: str) -> Store:
    unix, host = owner.engine.addresses
    if way == "mapped":
        return Store(unix)
    with over_tcp():
        return Store(f"kv://{host}")


@contextmanager
def settings(way: str, folder: Path, **wanted: Any) -> Iterator[Setting]:
    """A node of 1 MiB by default, of which nothing leaves but on demand; its catalog must be sound
    in the end."""
    wanted.setdefault("size", MIB)
    wanted.setdefault("limits", Limits(high=1.0, low=1.0))
    listen = (f"unix://{folder}/node", "127.0.0.1:0")
    with Store(listen=listen, **wanted) as owner:
        if way == "embedded":
            yield Setting(way, owner, owner)
        else:
            with user_of(owner, way) as user:
                yield Setting(way, owner, user)
        if owner._own.now is not None:  # it was not closed
            assert sound(node_of(owner)) == []

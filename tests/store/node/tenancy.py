"""A node with tenants, and holders of their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import kvferry as kf
from kvferry.engine import Channel
from kvferry.store import Limits, Store
from kvferry.store import messages as m
from kvferry.store.node import Node, Nodes, Plan
from tests.store.settings import over_tcp, sound

__all__ = ["OWN", "READER", "A", "B", "Host", "ask", "host", "options"]

KIB, MIB = 1 << 10, 1 << 20
OWN, A, B, READER = (f"the token of {name}".encode() for name in ("us", "a", "b", "a's readers"))
PLANS = {
    "a": Plan(kf.Tenant(A, READER), MIB, None, None),
    "b": Plan(kf.Tenant(B), 256 * KIB, 64, None),
}
EVERYTHING = Limits(high=1.0, low=1.0)  # nothing leaves of itself


class Host:
    """`unix` and `tcp` are where it is reached."""

    def __init__(self, engine: kf.Engine, own: Node, made: ExitStack) -> None:
        self.engine = engine
        self.nodes = {"": own, **own.tenants}
        self._made = made
        self.unix, self.tcp = engine.addresses[0], f"kv://{engine.addresses[1]}"

    def store(self, token: bytes, way: str = "mapped") -> Store:
        """A user that holds this token, until the end of the test."""
        return self._made.enter_context(self.open(token, way))

    def open(self, token: bytes, way: str = "mapped") -> Store:
        if way == "mapped":
            return Store(self.unix, options=options(token))
        with over_tcp():
            return Store(self.tcp, options=options(token))

    def channel(self, token: bytes) -> Channel:
        """By hand."""
        engine = self._made.enter_context(kf.Engine(options=options(token)))
        with over_tcp():
            return engine.connect(self.tcp)


@contextmanager
def host(folder: Path) -> Iterator[Host]:
    """With pools of 1 MiB, and b's of 256 KiB and 64 objects."""
    tenants = {name: plan.tenant for name, plan in PLANS.items()}
    addresses = f"unix://{folder}/node", "127.0.0.1:0"
    with kf.Engine(*addresses, options=options(OWN), tenants=tenants) as engine:
        own = Node(engine, MIB, limits=EVERYTHING)
        nodes = Nodes(engine, own, PLANS, limits=EVERYTHING)
        try:
            with ExitStack() as made:
                yield Host(engine, own, made)
            for node in (own, *own.tenants.values()):
                assert sound(node) == []
        finally:
            nodes.close()


def options(token: bytes) -> kf.Options:
    plain = kf.config.from_environment()
    return kf.Options(token_file=plain.token_file, token=token, quiet_grace=1.0, copy_engines=1)


def ask(channel: Channel, request: m.Request, kind: type[Any]) -> Any:
    return m.decode_reply(channel.call(m.SERVICE, m.encode(request)), kind)

"""An engine with tenants, and peers that hold their tokens: engines, or strangers by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import kvferry as kf
from kvferry.engine import messages
from kvferry.rpc import dial_abstract
from kvferry.testing.faults.stranger import Stranger

from .window import window

SIZE = 64 << 10
OWN, A, B, READER = (f"the token of {name}".encode() for name in ("us", "a", "b", "a's readers"))

Join = Callable[..., kf.Channel]


def options(token: bytes) -> kf.Options:
    plain = kf.config.from_environment()
    return kf.Options(token_file=plain.token_file, token=token, quiet_grace=1.0)


def said(tenant: str, request: bytes) -> bytes:
    return tenant.encode()


@contextmanager
def tenanted() -> Iterator[kf.Engine]:
    """Tenants a and b beside the engine's own, with a region and a service of one name each."""
    tenants = {"a": kf.Tenant(A, READER), "b": kf.Tenant(B)}
    with kf.Engine("127.0.0.1:0", options=options(OWN), tenants=tenants) as engine:
        for fill, tenant in enumerate(("", "a", "b"), 1):
            region = engine.allocate("kv", SIZE, tenant=tenant)
            window(region)[:] = fill
            engine.serve("who", partial(said, tenant), tenant=tenant)
        engine.allocate("only a's", SIZE, tenant="a")
        yield engine


@contextmanager
def joining(target: kf.Engine) -> Iterator[Join]:
    """Connects a new engine that holds this token."""
    with ExitStack() as engines:

        def join(token: bytes, **how: Any) -> kf.Channel:
            engine = engines.enter_context(kf.Engine(options=options(token)))
            return engine.connect(target.addresses[0], **how)

        yield join


def region(engine: kf.Engine, tenant: str) -> kf.Region:
    return engine.regions[f"{tenant}/kv" if tenant else "kv"]


def untouched(engine: kf.Engine) -> bool:
    return all(
        (window(region(engine, t)) == fill).all() for fill, t in enumerate(("", "a", "b"), 1)
    )


class Hands(Stranger):
    """A connection at the door, where descriptors could travel, that proved a token."""

    ticket = b""

    def __enter__(self) -> Hands:
        return self


def hands(target: kf.Engine, token: bytes, epoch: int | None = None) -> Hands:
    hands = Hands(dial_abstract(target._front._door, 10))
    hands.epoch = epoch or hands.epoch
    hands.ticket = hands.prove(token).ticket
    return hands


def wire_of(target: kf.Engine, holder: Hands, token: bytes) -> Stranger:
    """A connection for bytes, beside that of `holder`."""
    wire = Stranger.at(target.addresses[0])
    wire.epoch = holder.epoch
    wire.prove(token, messages.DATA, holder.ticket)
    return wire

"""``kvferry node`` and ``kvferry why``."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import Options, from_environment
from ..errors import UsageError

if TYPE_CHECKING:
    from ..store import Cause

__all__ = ["node", "why"]

ABSENT = 1
ENDS = {signal.SIGINT, signal.SIGTERM}
LONGEST_GRACE = 86_400.0

# What a cause means to somebody who missed a key.
_MEANS = {
    "present": "it is there",
    "never": "it was never stored there, or so long ago that it is forgotten",
    "evicted": "it had to leave a full pool, as the policy chose",
    "expired": "its time to live was over",
    "removed": "somebody removed it",
    "refused": "it was to be stored, and was refused",
    "drained": "the node was drained",
    "node_gone": "its node is not there",
    "corrupt": "its bytes were not what was stored",
    "other_tenant": "it belongs to another tenant",
}


def node(
    dram: Annotated[str, typer.Option(help="bytes of the pool")] = "1GiB",
    listen: Annotated[
        list[str] | None,
        typer.Option(
            help="unix:///path or host:port, more than once [default: unix://$XDG_RUNTIME_DIR/kvferry]",
            show_default=False,
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="address of another node that users ask, too; more than once"),
    ] = None,
    policy: Annotated[str, typer.Option(help="lru, s3fifo or prefix")] = "lru",
    objects: Annotated[
        int | None, typer.Option(help="how many at most", show_default="as many as of 8 KiB")
    ] = None,
    grace: Annotated[
        float, typer.Option(help="seconds that leases have to end when the node is stopped")
    ] = 10.0,
) -> None:
    """Keep this host's store, until SIGINT or SIGTERM; then drain it and end. A second one ends it
    at once."""
    from ..store.user.addresses import bytes_in

    if not 0 <= grace <= LONGEST_GRACE:
        raise UsageError(f"a grace of {grace} seconds is none", cause="grace")
    addresses = listen or [_default_address(from_environment())]
    wanted = {
        "size": bytes_in(dram),
        "policy": policy,
        "objects": objects,
        "peers": tuple(peer or ()),
    }
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # in the threads to come, too
    try:
        _keep(addresses, wanted, dram, grace)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _keep(addresses: list[str], wanted: dict[str, Any], dram: str, grace: float) -> None:
    """Such a node, until a signal comes, which this thread alone takes."""
    from ..engine import Engine
    from ..store.node import Node, Service

    with Engine(*addresses, options=from_environment()) as engine:
        service = Service(Node(engine, **wanted))
        try:
            print(f"kvferry node: {dram} at {', '.join(engine.addresses)}", flush=True)
            signal.sigwait(ENDS)
            for end in ENDS:  # also where a thread of some library takes it
                signal.signal(end, lambda *_: service.hurry())
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
            service.close(grace)
        finally:  # before the engine, whose memory its threads work in
            service.close()


def why(
    key: Annotated[str, typer.Argument(help="the key, as text")],
    at: Annotated[
        str | None,
        typer.Option(help="address of a node [default: this host's]", show_default=False),
    ] = None,
) -> None:
    """Tell why a key is not in the store. Exit status 0: it is there, 1: it is not."""
    from ..store import Cause, Store

    options = from_environment()
    with Store(at or _default_address(options), options=options) as store:
        found = store.why(key)
    where = "" if found.node is None else f" ({found.node})"
    print(f"{key}: {_name(found.cause)}: {_MEANS[_name(found.cause)]}{where}")
    if found.cause is not Cause.PRESENT:
        sys.exit(ABSENT)


def _name(cause: Cause) -> str:
    return cause.name.lower()


def _default_address(options: Options) -> str:
    if options.node_socket is None:
        raise UsageError(
            "XDG_RUNTIME_DIR is not set: name an address, such as unix:///run/kvferry",
            cause="address",
        )
    return f"unix://{options.node_socket}"

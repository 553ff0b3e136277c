"""``kvferry node`` and ``kvferry why``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import Options, from_environment
from ..errors import Unsupported, UsageError

if TYPE_CHECKING:
    from ..store import Cause
    from ..store.ssd import Ssd

__all__ = ["default_address", "node", "why"]

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
    "other_tenant": "that is not the tenant of your token",
    "unreadable": "the disk that holds it could not be read",
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
    directory: Annotated[
        list[str] | None,
        typer.Option(
            help="address of a directory, which users ask instead of all other nodes; more than "
            "once [default: the node itself is one, if it listens at a host:port and has no peers]",
            show_default=False,
        ),
    ] = None,
    domain: Annotated[
        str, typer.Option(help="nodes of one domain fail together", show_default="the machine")
    ] = "",
    copy_rate: Annotated[
        str, typer.Option(help="bytes a second to other nodes, when the directory wants it")
    ] = "64MiB",
    policy: Annotated[str, typer.Option(help="lru, s3fifo or prefix")] = "lru",
    objects: Annotated[
        int | None, typer.Option(help="how many at most", show_default="as many as of 8 KiB")
    ] = None,
    ssd: Annotated[
        Path | None,
        typer.Option(help="a folder of the node's own, for what does not fit into the pool"),
    ] = None,
    ssd_size: Annotated[
        str | None, typer.Option(help="bytes that it may take there, such as 100GiB")
    ] = None,
    tenants: Annotated[
        Path | None,
        typer.Option(
            help="a file that tells of tenants, each with a token and a pool of its own; --dram is "
            "of those with the node's own token"
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            help="host:port of a live page and of Prometheus' /metrics", show_default=False
        ),
    ] = None,
    grace: Annotated[
        float, typer.Option(help="seconds that leases have to end when the node is stopped")
    ] = 10.0,
) -> None:
    """Keep this host's store, until SIGINT or SIGTERM; then drain it and end. A second one ends it
    at once."""
    from ..store.directory import Directed
    from ..store.user.addresses import bytes_in

    _conceal()
    if not 0 <= grace <= LONGEST_GRACE:
        raise UsageError(f"a grace of {grace} seconds is none", cause="grace")
    addresses = listen or [default_address(from_environment())]
    wanted = {
        "size": bytes_in(dram),
        "policy": policy,
        "objects": objects,
        "peers": tuple(peer or ()),
        "directory": Directed(tuple(directory or ()), domain, bytes_in(copy_rate)).checked(),
        "ssd": _own_disk(ssd, ssd_size, tenants),
    }
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # in the threads to come, too
    try:
        _keep(addresses, wanted, tenants, ssd, dram, grace, http)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _own_disk(folder: Path | None, size: str | None, tenants: Path | None) -> Ssd | None:
    """What of it is for those with the node's own token; a folder alone can be its tenants'."""
    from ..store.ssd import ssd_of
    from ..store.user.addresses import bytes_in

    if tenants is not None and size is None:
        return None
    return ssd_of(folder, None if size is None else bytes_in(size))


def _conceal() -> None:
    """Before a secret is here: nobody of this user looks into the process."""
    from .. import _core

    code = _core.process_conceal()
    if code:
        raise Unsupported(
            f"this process cannot be kept from others: {os.strerror(code)}", cause="dumpable"
        )


def _keep(
    addresses: list[str],
    wanted: dict[str, Any],
    file: Path | None,
    ssd: Path | None,
    dram: str,
    grace: float,
    http: str | None,
) -> None:
    """Such a node, until a signal comes, which this thread alone takes."""
    from ..engine import Engine
    from ..store.directory import hosted
    from ..store.node import Node, Nodes, load
    from .shown import shown

    plans = {} if file is None else load(file)
    tenants = {name: plan.tenant for name, plan in plans.items()}
    how = {name: wanted[name] for name in ("policy", "peers")}
    with (
        Engine(*addresses, options=from_environment(), tenants=tenants) as engine,
        hosted(engine, wanted["directory"], wanted["peers"]) as directory,
    ):
        wanted = {**wanted, "directory": directory}
        own = Node(engine, **wanted)
        nodes = Nodes(engine, own, plans, ssd, **how)
        try:
            print(f"kvferry node: {dram} at {', '.join(engine.addresses)}", flush=True)
            with shown(http, engine) as own.page:
                signal.sigwait(ENDS)
            for end in ENDS:  # also where a thread of some library takes it
                signal.signal(end, lambda *_: nodes.hurry())
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
            nodes.close(grace)
        finally:  # before the engine, whose memory their threads work in
            nodes.close()


def why(
    key: Annotated[str, typer.Argument(help="the key, as text")],
    at: Annotated[
        str | None,
        typer.Option(help="address of a node [default: this host's]", show_default=False),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="whose key is meant, if not one's own")] = None,
) -> None:
    """Tell why a key is not in the store. Exit status 0: it is there, 1: it is not."""
    from ..store import Cause, Store

    options = from_environment()
    with Store(at or default_address(options), options=options) as store:
        found = store.why(key, tenant=tenant)
    where = "" if found.node is None else f" ({found.node})"
    print(f"{key}: {_name(found.cause)}: {_MEANS[_name(found.cause)]}{where}")
    if found.cause is not Cause.PRESENT:
        sys.exit(ABSENT)


def _name(cause: Cause) -> str:
    return cause.name.lower()


def default_address(options: Options) -> str:
    """Of this host's node."""
    if options.node_socket is None:
        raise UsageError(
            "XDG_RUNTIME_DIR is not set: name an address, such as unix:///run/kvferry",
            cause="address",
        )
    return f"unix://{options.node_socket}"

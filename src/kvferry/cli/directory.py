"""``kvferry directory``."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from ..config import from_environment
from ..errors import UsageError

__all__ = ["directory"]

ENDS = {signal.SIGINT, signal.SIGTERM}
ROWS = 1 << 26


def directory(
    listen: Annotated[
        list[str],
        typer.Option(help="host:port or unix:///path, more than once", show_default=False),
    ],
    keys: Annotated[int, typer.Option(help="how many it remembers at most")] = ROWS,
    names: Annotated[
        bool, typer.Option("--names", help="keep what keys are called, too, to be listed")
    ] = False,
    etcd: Annotated[
        list[str] | None,
        typer.Option(
            help="endpoint of an etcd through which several elect a leader; more than once"
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="names the directories that elect one of them")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            help="host:port of a live page and of Prometheus' /metrics", show_default=False
        ),
    ] = None,
) -> None:
    """Keep track of which nodes have which keys, until SIGINT or SIGTERM."""
    if bool(etcd) != bool(cluster):
        raise UsageError("--etcd and --cluster belong together", cause="cluster")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # in the threads to come, too
    try:
        _keep(listen, keys, names, etcd or [], cluster or "", http)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _keep(
    addresses: list[str],
    keys: int,
    names: bool,
    etcd: list[str],
    cluster: str,
    http: str | None,
) -> None:
    from ..engine import Engine
    from ..store.directory import Alone, Lead, Service
    from ..store.directory.election import Election
    from .shown import shown

    with Engine(*addresses, options=from_environment()) as engine:
        found = engine.addresses
        lead: Lead = Election(etcd, cluster, found) if etcd else Alone(found)
        service = Service(engine, lead, rows=keys, names=names)
        try:
            print(f"kvferry directory: at {', '.join(found)}", flush=True)
            with shown(http, engine) as service.page:
                signal.sigwait(ENDS)
        finally:
            service.close()

"""The tenants of one node process: each has a pool, an index, a secret and figures of its own.

    file     {"NAME": {"token": ..., "dram": "8GiB", ...}, ...}
    Plan     what the file says of one, checked
    Nodes    a Node with its Service for each, and one for those who hold the engine's own token

What a tenant may use is what its pool and its index are: when they are full its own objects leave,
and nobody else's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...engine import Engine, Tenant
from ...errors import UsageError
from ...rpc import token as tokens
from ..ssd import Ssd, ssd_of
from ..user.addresses import bytes_in
from .node import Node
from .service import Service

__all__ = ["Nodes", "Plan", "load"]

FILE_MOST = 1 << 20  # bytes
TOKEN_LEAST = 16  # characters


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One tenant, as the file tells of it."""

    dram: str
    token: str | None = None
    token_file: str | None = None
    read_only_token: str | None = None
    read_only_token_file: str | None = None
    objects: int | None = None
    ssd_size: str | None = None


class Plan(NamedTuple):
    """What one tenant is to have.

    size      bytes of its pool
    objects   how many at most; None: as many as there are of 8 KiB
    ssd_size  bytes on a disk; None: it is not said
    """

    tenant: Tenant
    size: int
    objects: int | None
    ssd_size: int | None


def load(file: Path) -> dict[str, Plan]:
    """The tenants that a file tells of, by name.

    It holds secrets: raises RightsError as for a token's file, when it is not this user's alone.
    Raises UsageError for what does not say what it has to.
    """
    content = tokens.read(file, FILE_MOST)
    if content is None:
        raise UsageError(f"there is no file {file}", cause="tenants")
    try:
        entries = msgspec.json.decode(content, type=dict[str, _Entry])
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} tells of no tenants: {error}", cause="tenants") from None
    if not entries:
        raise UsageError(f"{file} tells of no tenants", cause="tenants")
    return {name: _plan(name, entry, file.parent) for name, entry in entries.items()}


class Nodes:
    """Every node of an engine, until it is closed: before the engine, whose memory they work in.

    own    that of the holders of the engine's own token
    plans  of its tenants; those of the engine
    ssd    in which each tenant has a folder on the disk, if it is to have one
    how    what Node takes besides, the same for all

    Raises what Node raises; nothing is left running then.
    """

    def __init__(
        self,
        engine: Engine,
        own: Node,
        plans: Mapping[str, Plan],
        ssd: Path | None = None,
        **how: Any,
    ) -> None:
        self._services: list[Service] = []
        with ExitStack() as failed:
            failed.callback(self.close)
            self._services.append(Service(own))
            disks = {name: _disk(name, plan, ssd) for name, plan in plans.items()}
            for name, plan in plans.items():
                kept = {"objects": plan.objects, "ssd": disks[name], **how}
                node = Node(engine, plan.size, tenant=name, **kept)
                self._services.append(Service(node))
                own.tenants[name] = node
            failed.pop_all()

    def __iter__(self) -> Iterator[Service]:
        return iter(self._services)

    def close(self, grace: float = 0.0) -> None:
        """All at once, as Service.close. Idempotent."""
        with ThreadPoolExecutor(max(len(self._services), 1)) as threads:
            list(threads.map(lambda service: service.close(grace), self._services))

    def hurry(self) -> None:
        """Have a grace end. Takes no lock: handlers of signals may call it."""
        for service in self._services:
            service.hurry()


def _disk(name: str, plan: Plan, ssd: Path | None) -> Ssd | None:
    if plan.ssd_size is None:
        return None
    if ssd is None:
        raise UsageError(f"tenant {name!r} has an ssd_size and no disk is named", cause="ssd_size")
    return ssd_of(ssd / f"tenant.{name}", plan.ssd_size)


def _plan(name: str, entry: _Entry, folder: Path) -> Plan:
    token = _token(name, "token", entry.token, entry.token_file, folder)
    if token is None:
        raise UsageError(f"tenant {name!r} has no token and no token_file", cause="tenants")
    reading = _token(
        name, "read_only_token", entry.read_only_token, entry.read_only_token_file, folder
    )
    ssd_size = None if entry.ssd_size is None else bytes_in(entry.ssd_size)
    return Plan(Tenant(token, reading), bytes_in(entry.dram), entry.objects, ssd_size)


def _token(name: str, field: str, text: str | None, file: str | None, folder: Path) -> bytes | None:
    """The token that is told, or stands in the file that is told of."""
    if text is not None and file is not None:
        raise UsageError(f"tenant {name!r} has a {field} and a {field}_file", cause="tenants")
    if file is not None:
        found = tokens.read(folder / file)
        if found is None:
            raise UsageError(f"tenant {name!r}: there is no file {file}", cause="tenants")
    elif text is not None:
        found = text.encode()
    else:
        return None
    if len(found) < TOKEN_LEAST:
        raise UsageError(
            f"a {field} of tenant {name!r} has less than {TOKEN_LEAST} characters", cause="tenants"
        )
    return found

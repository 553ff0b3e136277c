"""How peers find each other: by their addresses, or at a metadata service.

    mooncake/[cluster/]rpc_meta/NAME   {"ip_or_host_name", "rpc_port"}      where NAME listens
    mooncake/[cluster/]ram/NAME        {"name", "protocol", "buffers", ...} what it has registered

Only the first is read here; what a peer has registered it says itself.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from kvferry.address import parse as parse_address
from kvferry.errors import PeerError, UsageError

from .metadata_client import MetadataClient
from .names import joined

__all__ = ["P2P", "Directory", "Service", "directory_of"]

P2P = "P2PHANDSHAKE"

logger = logging.getLogger("mooncake")


class RpcMeta(msgspec.Struct):
    """Where somebody listens."""

    ip_or_host_name: str
    rpc_port: int


class Directory(ABC):
    """Knows peers by name, and makes one engine known. Every call may block."""

    @abstractmethod
    def find(self, name: str) -> str:
        """The address of a peer. Raises UsageError for what cannot be a name, PeerError."""

    def announce(self, host: str, port: int, alive: Callable[[str], bool]) -> None:
        """Make ours known. Raises UsageError when somebody who is `alive` has its name."""

    def describe(self, buffers: Iterable[tuple[int, int]]) -> None:
        """Say what is registered: address and length of each."""

    def withdraw(self) -> None:
        """Make ours unknown again."""


class Addresses(Directory):
    """Names are addresses: nothing has to be known."""

    def find(self, name: str) -> str:
        parse_address(name)
        return name


class Service(Directory):
    """Names stand at a metadata service. `name` is ours."""

    def __init__(self, client: MetadataClient, cluster: str, name: str) -> None:
        self._client = client
        self._prefix = f"mooncake/{cluster.rstrip('/')}/" if cluster else "mooncake/"
        self._name = name
        self._announced: bytes | None = None  # where we listen, as it stands there

    def find(self, name: str) -> str:
        value = self._client.get(self._rpc_meta(name))
        if value is None:
            raise PeerError(
                "the metadata service knows no such peer", cause="unreachable", peer=name
            )
        return _address(value, name)

    def announce(self, host: str, port: int, alive: Callable[[str], bool]) -> None:
        value = msgspec.json.encode(RpcMeta(host, port))
        self._claim(value, joined(host, port), alive)
        self._announced = value

    def _claim(self, value: bytes, here: str, alive: Callable[[str], bool]) -> None:
        key = self._rpc_meta(self._name)
        if self._client.put(key, value):
            return
        there = self.find(self._name)
        if there != here and alive(there):
            raise UsageError(f"{self._name!r} is taken, by {there}", cause="name_taken")
        self._client.delete(key)  # left by one that ended without a word
        if not self._client.put(key, value):
            raise UsageError(f"{self._name!r} is taken", cause="name_taken")

    def describe(self, buffers: Iterable[tuple[int, int]]) -> None:
        listed = [{"name": self._name, "addr": at, "length": n} for at, n in buffers]
        segment: dict[str, Any] = {
            "name": self._name,
            "protocol": "kvferry",
            "timestamp": datetime.now().isoformat(" "),
            "buffers": listed,
        }
        self._client.put(self._ram(self._name), msgspec.json.encode(segment))

    def withdraw(self) -> None:
        key = self._rpc_meta(self._name)
        if self._announced is None or self._client.get(key) != self._announced:
            return  # whatever stands there is somebody else's
        self._client.delete(self._ram(self._name))
        self._client.delete(key)

    def _rpc_meta(self, name: str) -> str:
        return f"{self._prefix}rpc_meta/{name}"

    def _ram(self, name: str) -> str:
        return f"{self._prefix}ram/{name}"


def directory_of(metadata_server: str, cluster: str, name: str) -> Directory:
    """What `metadata_server` names, for an engine called `name`.

    A service that is not asked here (etcd, redis) is taken as a hint: peers are addresses then.
    """
    if metadata_server.startswith(("http://", "https://")):
        return Service(MetadataClient(metadata_server), cluster, name)
    if metadata_server != P2P:
        logger.warning(
            "metadata server %r is not asked: name peers by host:port, as with %s, or use "
            "http://host:port/metadata",
            metadata_server,
            P2P,
        )
    return Addresses()


def _address(value: bytes, name: str) -> str:
    try:
        meta = msgspec.json.decode(value, type=RpcMeta)
        return str(parse_address(joined(meta.ip_or_host_name, meta.rpc_port)))
    except (msgspec.MsgspecError, UsageError) as error:
        raise PeerError(
            f"the metadata service says {value[:100]!r}", cause="metadata", peer=name
        ) from error

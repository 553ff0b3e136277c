"""The store that a caller set up: a node of its own, or a user of others'."""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kvferry.errors import ClosedError, Full, UsageError
from kvferry.store import Store

from . import variables
from .inner import InnerTransferEngine
from .settings import Settings
from .slabs import Slabs
from .store_memory import Memory
from .store_nobody import Nobody, NoNode
from .store_places import Places
from .store_plan import Keeping
from .store_sessions import Sessions
from .store_settling import Settling
from .store_setup import Setup, bytes_of

__all__ = ["NO_CLIENT", "Client", "Guest", "Member"]

logger = logging.getLogger("mooncake")

PATIENCE = 5.0  # seconds in which a master that is not there yet may come
ENROLLED = 3.0  # seconds in which a master surely knows a new node
POLL = 0.01
SSD_SHARE = 0.8  # of what is free on the disk, at most
WORD = (1 << 64) - 1
FOLDERS = 256  # as many processes may share one ssd_offload_path


def _number() -> tuple[int, int]:
    number = uuid.uuid4().int
    return number >> 64, number & WORD


class Client:
    """From `setup` to `close`. Thread-safe.

    store     kvferry's; NoNode as long as there is no node
    memory    what it may read and write by address
    hostname  of its segment or, where it contributes none, as it was told
    keeping   pins and groups
    sessions  what is read and written layer by layer
    settling  is waited for when something was put or removed
    number    names this client
    active    was it set up?
    settings  what its master wants
    segments  nodes that were added to the first, by their ids
    """

    store: Any = Nobody()
    memory: Any = Nobody()
    hostname = ""
    active = False
    settings = Settings()

    def __init__(self) -> None:
        self.number = _number()
        self.segments: dict[str, Store] = {}
        self._adding = threading.Lock()
        self._over = False
        self.keeping = Keeping()
        self.sessions = Sessions()
        self.settling = Settling()

    def settle(self) -> None:
        """Everybody finds what was put, and misses what was removed, or a second is over."""
        self.settling.wait(self.store)

    def check(self) -> None:
        """Raises PeerError when nobody is there who knows where objects are."""
        self.store.stats()

    def node(self, size: int) -> Store:
        """Another node of so many bytes in this process. Raises UsageError, NoMemory and others."""
        raise UsageError("only who was set up at a master mounts segments", cause="not_member")

    def places(self, keys: Sequence[str | bytes]) -> list[list[str]]:
        """Names of the segments that have each of these. Raises PeerError where no master is."""
        return [[self.hostname] for _ in keys]

    def remove_at(self, segment: str, keys: Sequence[str | bytes]) -> list[bool]:
        """Remove these from one segment: which of them were there, without a lease. Raises as
        `places`, and UsageError for no segment."""
        raise UsageError("only who was set up at a master knows segments", cause="not_member")

    def known_segments(self) -> set[str]:
        """Names of all there are. Raises as `places`."""
        return {self.hostname}

    def add(self, name: str, node: Store) -> None:
        """Raises ClosedError when `close` was first; then the node is closed, too."""
        with self._adding:
            if not self._over:
                self.segments[name] = node
                return
        node.close()
        raise ClosedError("the store was closed meanwhile", cause="closed")

    def close(self) -> None:
        """Idempotent. What this process contributed is gone."""
        self.sessions.close()
        with self._adding:
            self._over, nodes = True, list(self.segments.values())
            self.segments.clear()
        for node in nodes:
            node.close()


NO_CLIENT = Client()


class Guest(Client):
    """A user of one node.

    pool  memory that callers take by alloc_from_mem_pool
    """

    active = True

    def __init__(self, address: str) -> None:
        """Raises Error where there is no node. Blocks."""
        super().__init__()
        self.store = Store(f"kv://{address.removeprefix('kv://')}")
        self.memory = Memory()
        self.hostname = address
        self.pool = Slabs(self.store.engine, "mooncake-dummy")

    def close(self) -> None:
        super().close()
        self.memory.close()
        self.store.close()


class Member(Client):
    """Who was set up at a master."""

    active = True

    def __init__(self, setup: Setup, lent: InnerTransferEngine | None) -> None:
        """Raises Error where there is no master, or the node cannot be. Blocks."""
        super().__init__()
        self._setup = setup
        self._directory = setup.directory()
        self.memory = Memory(lent)
        self.master = Places(self._directory)
        try:
            self.master.check_soon(PATIENCE)
            self.settings = self.master.settings()
            self._begin()
        except BaseException:
            self.close()
            raise
        if setup.http_port is not None:
            logger.info("enable_client_http_server is without effect: see kvferry node --http")

    def _begin(self) -> None:
        own = self._setup.global_segment_size
        if own:
            self.store = self.node(own)
            self.hostname = self.store.engine.addresses[0]
        else:
            self.store = NoNode(self, partial(Store, self._directory, namespace=self._setup.tenant))
            self.hostname = self._setup.local_hostname

    def check(self) -> None:
        self.master.check()

    def places(self, keys: Sequence[str | bytes]) -> list[list[str]]:
        return self.master.of(self.store, keys)

    def remove_at(self, segment: str, keys: Sequence[str | bytes]) -> list[bool]:
        return self.master.remove_at(segment, self.store, keys)

    def known_segments(self) -> set[str]:
        return self.master.segments()

    def node(self, size: int) -> Store:
        store, deadline = self._made(size), time.monotonic() + ENROLLED
        while not store.enrolled and time.monotonic() < deadline:
            time.sleep(POLL)
        return store

    def _made(self, size: int) -> Store:
        wanted = {
            "size": size,
            "namespace": self._setup.tenant,
            "directory": [self._directory],
            "limits": self.settings.limits,
        }
        first, *others = self._setup.listening()
        try:
            return self._node(listen=[first], **wanted)
        except UsageError as error:
            if error.cause != "address_in_use" or not others:
                raise
        return self._node(listen=others, **wanted)

    def _node(self, **wanted: Any) -> Store:
        if self._setup.ssd is None:
            return Store(**wanted)
        limit = variables.offload().size
        for folder in _folders(Path(self._setup.ssd)):
            room = int(shutil.disk_usage(folder).free * SSD_SHARE)
            try:
                return Store(
                    **wanted, ssd=folder, ssd_size=min(room, bytes_of(limit)) if limit else room
                )
            except UsageError as error:
                if error.cause != "ssd_in_use":
                    raise
        raise Full(f"{FOLDERS} processes use {self._setup.ssd}", cause="ssd_in_use")

    def close(self) -> None:
        super().close()
        if not isinstance(self.store, Nobody):
            self.store.close()
        self.memory.close()
        self.master.close()


def _folders(path: Path) -> Iterator[Path]:
    """One for each process of a host: such a folder belongs to one node."""
    for number in range(FOLDERS):
        folder = path / f"kvferry-{number}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield folder

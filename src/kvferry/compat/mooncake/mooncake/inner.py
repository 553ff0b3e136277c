"""What a TransferEngine and those it is lent to share: the engine, its peers, its memory."""

from __future__ import annotations

import logging
import os
import random
import weakref

from kvferry._core import Spans
from kvferry.engine import Engine
from kvferry.errors import ClosedError, Error, ForkedError, UsageError

from .directory import P2P, Directory, directory_of
from .names import Named, joined, numeric, parse, wildcard
from .peers import PROBE, Peers
from .slabs import Slabs
from .variables import Variables

__all__ = ["InnerTransferEngine", "start"]

logger = logging.getLogger("mooncake")

PORTS_TRIED = 256


class InnerTransferEngine:
    """A listening engine, until the last reference is dropped or the process ends. Thread-safe.

    engine     kvferry's
    peers      of it
    slabs      its managed buffers
    directory  where it is known
    spans      what is registered, of those that a store shares it with
    port       where it listens
    """

    def __init__(
        self, engine: Engine, directory: Directory, port: int, variables: Variables
    ) -> None:
        self.engine = engine
        self.directory = directory
        self.port = port
        link = "tcp" if variables.force_tcp else None
        self.peers = Peers(engine, directory.find, link, variables.connect_timeout)
        self.slabs = Slabs(engine, "mooncake-managed")
        self.spans = Spans()
        self.transfer_timeout = variables.transfer_timeout
        self._process = os.getpid()
        self._end = weakref.finalize(self, _end, self._process, engine, directory)

    def check_process(self) -> None:
        """Raises ForkedError in a forked child, where a lock of ours may be held for ever."""
        if os.getpid() != self._process:
            raise ForkedError("the engine belongs to the parent of this process", cause="forked")

    def close(self) -> None:
        self._end()

    def describe(self) -> None:
        """Tell the directory what is registered now. A directory that fails is only told of: peers
        ask the engine itself."""
        regions = sorted(self.engine.regions.values(), key=lambda region: region.serial)
        try:
            self.directory.describe([(each.address, each.length) for each in regions])
        except Error as error:
            logger.warning("what is registered could not be published: %s", str(error))


def start(local_hostname: str, metadata_server: str, variables: Variables) -> InnerTransferEngine:
    """Listen, and be known. Raises UsageError, RightsError or PeerError, and nothing is left."""
    named = parse(local_hostname)
    directory = directory_of(metadata_server, variables.cluster, local_hostname)
    host = variables.bind_address or named.host
    engine, port = _listen(numeric(host, variables.ipv6), _ports(named, metadata_server, variables))
    inner = InnerTransferEngine(engine, directory, port, variables)
    try:
        engine.serve(PROBE, lambda _: b"")
        told = named.host if wildcard(host) else host
        directory.announce(told, port, lambda address: _answers(engine, address))
        inner.describe()
    except BaseException:
        engine.close()
        raise
    return inner


def _ports(named: Named, metadata_server: str, variables: Variables) -> list[int]:
    """To be tried in this order."""
    if named.port is not None and variables.legacy_port and metadata_server != P2P:
        return [named.port]
    some = random.sample(variables.ports, min(len(variables.ports), PORTS_TRIED))
    return some if named.port is None else [named.port, *some]


def _listen(host: str, ports: list[int]) -> tuple[Engine, int]:
    for port in ports:
        try:
            return Engine(joined(host, port)), port
        except UsageError as error:
            if error.cause != "address_in_use":
                raise
            logger.info("%s", str(error))
    raise UsageError(f"no port of {len(ports)} is free at {host}", cause="address_in_use")


def _answers(engine: Engine, address: str) -> bool:
    """Does anybody listen there who could be one of us?"""
    try:
        engine.connect(address)
    except Error as error:
        return error.cause != "unreachable"
    return True


def _end(process: int, engine: Engine, directory: Directory) -> None:
    if os.getpid() != process:  # a forked child drops its copy of what belongs to the parent
        return
    try:
        directory.withdraw()
    except Error as error:
        logger.warning("the metadata service still names us: %s", str(error))
    try:
        engine.close()
    except ClosedError:
        pass
    except Error as error:
        logger.error("closing: %s", str(error))

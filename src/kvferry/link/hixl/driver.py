"""The half of one engine: HIXL is initialised, told of memory, and finalized."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Mapping

import msgspec

from ... import log
from ...errors import ClosedError, Error, PathRefused, UsageError
from ...memory import Region
from ...path import LinkKind, Path
from ...runtime import Access
from ...submit import Submitters
from ..base import Driver, Facts, Link, Peer, Published
from ..registered import publish_registered
from .connections import HixlConnections
from .link import HixlLink
from .memory import LocalMemory, place_of
from .module import Module, load, translate
from .requests import HixlRequests
from .session import Session

__all__ = ["HixlDriver"]

logger = log.get("kvferry.link")

ANYWHERE = "1"  # in place of a name: on loopback, at a free port
_NAME = re.compile(r"([^:\[\]]+|\[[^\[\]]+\]):[1-9][0-9]{0,4}")
FABRIC_MEM = "EnableUseFabricMem"
REASON_MOST = 300  # characters that a peer is told


class HixlDriver(Driver):
    """Holds one engine of HIXL, initialised when anybody is first told of it.

    name     of that engine: "ip:port", or "1"
    options  for HIXL, a JSON object of strings
    regions  this engine's, by name: what HIXL may be told of
    module   in place of what is installed as `hixl`
    """

    kind = LinkKind.HIXL

    def __init__(
        self, name: str, options: str, regions: Mapping[str, Region], module: Module | None = None
    ) -> None:
        if name != ANYWHERE and not _NAME.fullmatch(name):
            raise UsageError(
                f"a HIXL engine is named ip:port, or 1 for a free port, not {name!r}",
                cause="hixl_name",
            )
        self._name = name
        self._options = _parse(options)
        self._regions = regions
        self._module = module
        self._starting = threading.Lock()
        self._session: Session | None = None
        self._failed: Error | None = None

    def facts(self) -> dict[str, int | str]:
        try:
            session = self._start()
        except Error as error:
            return {"refused": str(error.args[0])[:REASON_MOST]}
        return {
            "engine": session.name,
            "version": str(getattr(session.module, "__version__", "present")),
            "fabric_mem": self._options.get(FABRIC_MEM, "0"),
        }

    @staticmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        us, them = ours.links.get(LinkKind.HIXL, {}), theirs.links.get(LinkKind.HIXL)
        if "refused" in us:
            return f"HIXL cannot be used here: {us['refused']}"
        if them is None:
            return "the peer does not offer it"
        if "refused" in them:
            return f"HIXL cannot be used at the peer: {them['refused']}"
        if not _NAME.fullmatch(str(them.get("engine"))):
            return "the peer does not tell its HIXL engine's name"
        if ours.epoch == theirs.epoch:
            return "HIXL connects two engines, and this is one"
        if us.get("fabric_mem") != them.get("fabric_mem"):
            return f"{FABRIC_MEM} must be the same at both ends"
        return None

    def publish(self, region: Region, to: Facts, most: Access = Access.WRITE) -> Published | None:
        if self._session is None or most is Access.READ:  # HIXL holds nobody to that
            return None
        try:
            self._session.memory.register(region)
        except ClosedError:
            raise
        except (Error, BufferError) as error:
            logger.warning("%r is out of reach of HIXL: %s", region, error)
            return None
        published = publish_registered(region)
        record = msgspec.structs.replace(published.record, kind=place_of(region).value)
        return published._replace(record=record)

    def retire(self, region: Region) -> None:
        if self._session is not None:
            self._session.memory.retire(region)

    def open(self, peer: Peer, path: Path, submitters: Submitters) -> Link:
        remote = str(peer.facts.links[LinkKind.HIXL]["engine"])
        try:
            session = self._start()
            session.memory.register_all()
            connection = session.connections.share(remote, peer.name, peer.facts.epoch, peer.by)
        except Error as error:
            reason = str(error.args[0])
            refusal = PathRefused(reason, peer=peer.name, rejected={str(path): reason})
            refusal.code = error.code
            raise refusal from error
        return HixlLink(peer, path, session, connection)

    def close(self) -> None:
        """Disconnect, deregister, finalize; what is under way ends as lost."""
        with self._starting:
            self._failed = self._failed or ClosedError("the engine was closed", cause="closed")
            session, self._session = self._session, None
        if session is None:
            return
        session.requests.give_up()
        session.connections.close()
        session.requests.stop()
        session.memory.close()
        session.hixl.finalize()
        session.requests.lose()
        session.memory.let_go()

    def _start(self) -> Session:
        """The session, begun by whoever needs it first. Raises why there is none."""
        with self._starting:
            if self._failed is not None:
                raise self._failed.again()
            if self._session is None:
                try:
                    self._session = self._initialize()
                except Error as error:
                    self._failed = error
                    raise
            return self._session

    def _initialize(self) -> Session:
        module = load() if self._module is None else self._module
        name = _free_name() if self._name == ANYWHERE else self._name
        hixl = module.Hixl()
        code = hixl.initialize(name, self._options)
        if code:
            raise translate(f"initialising HIXL as {name}", code)
        memory, requests = LocalMemory(module, hixl, self._regions), HixlRequests(module, hixl)
        requests.start()
        return Session(
            name, module, hixl, memory, requests, HixlConnections(hixl, memory, requests)
        )


def _free_name() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def _parse(options: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(options, type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"options for HIXL are a JSON object of strings, not {options!r}: {error}",
            cause="hixl_options",
        ) from None

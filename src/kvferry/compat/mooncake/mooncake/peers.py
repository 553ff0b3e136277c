"""Channels to peers by the names that callers know them by."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kvferry.engine import Channel, Engine
from kvferry.errors import ClosedError, UsageError

__all__ = ["PROBE", "Peers"]

logger = logging.getLogger("mooncake")

PROBE = "mooncake.probe"  # a service that answers


class Peers:
    """The peers of one engine. Thread-safe; a channel that ended is made anew when it is asked for.

    find     the address behind a name
    link     what channels must use; None: the best there is
    timeout  seconds to connect
    """

    def __init__(
        self, engine: Engine, find: Callable[[str], str], link: str | None, timeout: float
    ) -> None:
        self._engine = engine
        self._find = find
        self._link = link
        self._timeout = timeout
        self._channels: dict[str, Channel] = {}

    def channel(self, name: str) -> Channel:
        """Blocks while it connects. Raises what Engine.connect and `find` raise."""
        known = self._channels.get(name)
        if known is not None and not known.stale():
            return known
        channel = self._engine.connect(self._find(name), link=self._link, timeout=self._timeout)
        if channel is not known:
            logger.info(
                "%s is reached over %s, what it registered over %s",
                name,
                channel.path,
                channel.foreign_path,
            )
        live = {each: other for each, other in self._channels.copy().items() if not other.stale()}
        self._channels = {**live, name: channel}
        return channel

    def probe(self, name: str) -> None:
        """Ask the peer for an answer, now. Raises why there is none."""
        try:
            self._ask(name)
        except ClosedError:  # it ended between two looks
            self._ask(name)

    def _ask(self, name: str) -> None:
        try:
            self.channel(name).call(PROBE, b"", self._timeout)
        except UsageError as error:
            if error.cause != "no_service":  # an engine without this face, and alive
                raise

    def first_address(self, name: str) -> int | None:
        """Of the region that the peer has had for longest."""
        channel = self.channel(name)
        channel.known_regions.refresh(self._timeout)
        regions = channel.regions.values()
        return min(((each.record.serial, each.address) for each in regions), default=(0, None))[1]

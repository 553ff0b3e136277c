"""A peer's regions as a channel knows them: announced, asked for, revoked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..errors import Error
from ..link import Link, Published
from ..memory import RegionTable, RemoteRegion
from .control import Control
from .drain import drain
from .regions import Links

if TYPE_CHECKING:
    from .channel import Channel

__all__ = ["PeerRegions"]

# An announcement may come later than the revocation of its region, by so many revocations.
REVOKED_KEPT = 4096


class PeerRegions(RegionTable[RemoteRegion]):
    """Asks the peer before it says that there is no such region. Thread-safe.

    ways  the channel's links: to own regions and, where that is another one, to registered ones
    """

    def __init__(
        self, channel: Channel, ways: tuple[Link, ...], control: Control, quiet_grace: float
    ) -> None:
        super().__init__()
        self._channel = channel
        self._ways = ways
        self._control = control
        self._quiet_grace = quiet_grace
        self._attaching = threading.Lock()
        self._leaving: dict[int, RemoteRegion] = {}  # revoked, and a transfer may still use it
        self._revoked: dict[int, None] = {}  # oldest first

    def __getitem__(self, name: str) -> RemoteRegion:
        if name not in self._regions:
            self.refresh()
        try:
            return self._regions[name]
        except KeyError:
            raise KeyError(self._absent(name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._regions

    def refresh(self, timeout: float | None = None) -> None:
        """Ask the peer for regions we have not heard of."""
        self._channel.check_open()
        foreign = self._channel.foreign_path
        links = Links(self._channel.path.link, None if foreign is None else foreign.link)
        for published in self._control.list_regions(links, timeout):
            self.attach(published)

    def attach(self, published: Published) -> None:
        """A region of the peer was announced; taken once, however often it is heard of."""
        with self._attaching:
            serial = published.record.serial
            if self._channel.closed or serial in self._revoked or self._with_serial(serial):
                published.discard()
                return
            try:
                self._attach(published)
            except Error as error:
                error.peer = error.peer or self._channel.peer
                raise

    def revoke(self, serial: int) -> None:
        """A region of the peer goes: let transfers over it end, abort what takes long, unmap.

        Returns when nothing here can touch it. Raises NotQuiet otherwise.
        """
        with self._attaching:
            region = self._withdraw(serial)
        if region is None:
            return
        # Not under the lock: a transfer that is lost here ends the channel, which detaches all.
        drain(region.span, [self._channel], self._quiet_grace, "the peer's region was revoked")
        with self._attaching:
            self._let_go(serial)

    def drop_all(self) -> None:
        """The channel ends, and no transfer is in flight."""
        with self._attaching:
            for region in list(self._regions.values()):
                self._withdraw(region.record.serial)
            for serial in list(self._leaving):
                self._let_go(serial)

    def describe(self, *addresses: int) -> str:
        """The regions that hold these addresses of the peer, each with its path."""
        found = [region for address in addresses for region in self.overlapping(address, 1)]
        return " and ".join(f"{region.name!r} over {region.path}" for region in found)

    def _attach(self, published: Published) -> None:
        way = 0 if published.record.own else len(self._ways) - 1
        region = self._ways[way].attach(published)
        region.span.way = way
        try:
            self.add(region)
        except Error:
            self._ways[way].detach(region)
            raise

    def _withdraw(self, serial: int) -> RemoteRegion | None:
        """No new transfers over it, and its name is free. None when it is not known here."""
        self._revoked[serial] = None
        if len(self._revoked) > REVOKED_KEPT:
            del self._revoked[next(iter(self._revoked))]
        region = self._with_serial(serial)
        if region is None:
            return self._leaving.get(serial)
        region.span.close()
        self.remove(region)
        self._leaving[serial] = region
        return region

    def _let_go(self, serial: int) -> None:
        """No transfer uses it any more."""
        region = self._leaving.pop(serial, None)
        if region is not None:
            self._ways[region.span.way].detach(region)

    def _with_serial(self, serial: int) -> RemoteRegion | None:
        for region in self._regions.values():
            if region.record.serial == serial:
                return region
        return None

    def _absent(self, name: str) -> str:
        channel = self._channel
        known = ", ".join(map(repr, self._regions)) or "none"
        text = f"{channel.peer} has no region {name!r} that can be reached; known: {known}"
        if channel.foreign_path is None:
            text += f"; memory it merely registered is out of reach of {channel.path}"
        return text

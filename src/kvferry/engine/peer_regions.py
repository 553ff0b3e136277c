"""A peer's regions as a channel knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..memory import RegionTable, RemoteRegion

if TYPE_CHECKING:
    from .channel import Channel

__all__ = ["PeerRegions"]


class PeerRegions(RegionTable[RemoteRegion]):
    """Asks the peer before it says that there is no such region."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def __getitem__(self, name: str) -> RemoteRegion:
        if name not in self._regions:
            self._channel.refresh()
        try:
            return self._regions[name]
        except KeyError:
            raise KeyError(self._absent(name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._regions

    def has(self, serial: int) -> bool:
        return self.with_serial(serial) is not None

    def with_serial(self, serial: int) -> RemoteRegion | None:
        for region in self._regions.values():
            if region.record.serial == serial:
                return region
        return None

    def describe(self, *addresses: int) -> str:
        """The regions that hold these addresses of the peer, each with its path."""
        found = [region for address in addresses for region in self.overlapping(address, 1)]
        return " and ".join(f"{region.name!r} over {region.path}" for region in found)

    def _absent(self, name: str) -> str:
        channel = self._channel
        known = ", ".join(map(repr, self._regions)) or "none"
        text = f"{channel.peer} has no region {name!r} that can be reached; known: {known}"
        if channel.foreign_path is None:
            text += f"; memory it merely registered is out of reach of {channel.path}"
        return text

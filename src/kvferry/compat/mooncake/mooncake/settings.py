"""What a master has its clients do: asked for once by each, when it begins."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kvferry.engine import Channel, Engine
from kvferry.errors import PeerError, UsageError
from kvferry.store import Limits

__all__ = ["SERVICE", "Settings", "ask", "serve"]

SERVICE = "mooncake.settings"
LONGEST = 86_400.0  # seconds
DEFAULT = Limits()

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Settings(msgspec.Struct, frozen=True):
    """lease  seconds for which `is_exist` keeps what it found
    high   share of a segment above which objects leave, until it is `low`
    """

    lease: Annotated[float, msgspec.Meta(ge=0, le=LONGEST)] = 10.0
    high: Share = 0.90
    low: Share = 0.85

    @property
    def keeping(self) -> float | None:
        """The lease as `exists` takes it."""
        return self.lease or None

    @property
    def limits(self) -> Limits:
        """Of a node that does so."""
        longest = max(DEFAULT.longest_lease, int(self.lease * 1e9))
        return Limits(high=self.high, low=self.low, longest_lease=longest)


def serve(engine: Engine, settings: Settings) -> None:
    """Whoever holds the token may ask, as long as the engine is open."""
    told = msgspec.msgpack.encode(settings)
    engine.serve(SERVICE, lambda request: told, readers=True)


def ask(channel: Channel, timeout: float) -> Settings:
    """What the master there wants; the defaults where it is a directory that says nothing of it.
    Blocks. Raises PeerError and Timeout."""
    try:
        told = channel.call(SERVICE, b"", timeout)
    except UsageError as error:
        if error.cause != "no_service":
            raise
        return Settings()
    try:
        return msgspec.msgpack.decode(told, type=Settings)
    except msgspec.DecodeError as error:
        raise PeerError(f"not the settings of a master: {error}", cause="protocol") from None

"""Links: how bytes cross from this process's memory to a peer's, and back.

A driver is a link's half that lives once per engine, a link its half per channel. `DRIVERS` lists
those that every engine has; `hixl` is imported when an engine is to have it. The contract they keep
is in `base`, and is tested by one class for all of them.
"""

from .base import Driver, Facts, Link, Peer, Published
from .cma import CmaDriver
from .fabric import FabricDriver
from .loopback import LoopbackDriver
from .tcp import TcpDriver

__all__ = [
    "DRIVERS",
    "CmaDriver",
    "Driver",
    "FabricDriver",
    "Facts",
    "Link",
    "LoopbackDriver",
    "Peer",
    "Published",
    "TcpDriver",
]

DRIVERS: tuple[type[Driver], ...] = (LoopbackDriver, FabricDriver, CmaDriver, TcpDriver)

"""Links: how bytes cross from this process's memory to a peer's, and back.

A driver is a link's half that lives once per engine, a link its half per channel. `DRIVERS` lists
them; the contract they keep is in `base` and is tested by one class for all of them.
"""

from .base import Driver, Facts, Link, Published
from .fabric import FabricDriver
from .loopback import LoopbackDriver

__all__ = ["DRIVERS", "Driver", "FabricDriver", "Facts", "Link", "LoopbackDriver", "Published"]

DRIVERS: tuple[type[Driver], ...] = (LoopbackDriver, FabricDriver)

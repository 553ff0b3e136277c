"""Runtimes: what allocates, maps, shares and copies on a kind of device.

An allocation, a reservation and the mapping that binds them are three owners with one undo each;
a share handle carries an allocation to another process. `HostRuntime` serves the host's memory.
"""

from .base import (
    CallerStream,
    Caps,
    ControlStream,
    Place,
    Runtime,
    ShareHandle,
    Stream,
    StreamState,
)
from .host import HostRuntime
from .host_stream import HostControlStream, HostStream
from .owners import Access, Allocation, Grant, Mapping, Reservation

__all__ = [
    "Access",
    "Allocation",
    "CallerStream",
    "Caps",
    "ControlStream",
    "Grant",
    "HostControlStream",
    "HostRuntime",
    "HostStream",
    "Mapping",
    "Place",
    "Reservation",
    "Runtime",
    "ShareHandle",
    "Stream",
    "StreamState",
]

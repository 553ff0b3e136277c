"""Engines, channels, transfers: what users hold.

An engine owns memory and listens; a channel is a live connection to a peer engine, over one path or
two; a transfer is one submitted batch. What decides (handshake, negotiate, options) is pure; what
they say to each other stands in messages.
"""

from .caller import Caller
from .channel import Channel
from .engine import Engine, Notification
from .failure import Status
from .liveness import Liveness
from .report import Report
from .statistics import Flow
from .tenants import Tenant
from .transfer import Transfer

__all__ = [
    "Caller",
    "Channel",
    "Engine",
    "Flow",
    "Liveness",
    "Notification",
    "Report",
    "Status",
    "Tenant",
    "Transfer",
]

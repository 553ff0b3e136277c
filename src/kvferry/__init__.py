"""kvferry moves LLM KV cache between processes by one-sided transfer.

with kvferry.Engine("127.0.0.1:26000") as engine:
    pool = engine.allocate("kv", 1 << 30)
    peer = engine.connect("127.0.0.1:26001")
    batch = kvferry.Batch.blocks(pool, our_ids, peer.regions["kv"], their_ids, block_bytes)
    report = peer.write(batch)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors
from .batch import Batch, DeviceMemory
from .config import Options
from .engine import (
    Caller,
    Channel,
    Engine,
    Liveness,
    Notification,
    Report,
    Status,
    Tenant,
    Transfer,
)
from .errors import *  # noqa: F403
from .memory import Region, RemoteRegion, SubAllocator
from .path import Path
from .runtime import Place

if TYPE_CHECKING:
    from .store import Pieces, Store, codecs
    from .store.directory.following import follow

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Caller",
    "Channel",
    "DeviceMemory",
    "Engine",
    "Liveness",
    "Notification",
    "Options",
    "Path",
    "Pieces",
    "Place",
    "Region",
    "RemoteRegion",
    "Report",
    "Status",
    "Store",
    "SubAllocator",
    "Tenant",
    "Transfer",
    "codecs",
    "follow",
    *errors.__all__,
]


# What not everybody pays for, by the module that has it.
_LATER = {
    "Pieces": "store",
    "Store": "store",
    "codecs": "store",
    "follow": "store.directory.following",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)

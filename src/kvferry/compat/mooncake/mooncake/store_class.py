"""MooncakeDistributedStore: Mooncake's methods and return codes over kvferry's store."""

from __future__ import annotations

from .store_layers import Layers
from .store_ranges import Ranges
from .store_replicas import Replicas
from .store_segments import Segments
from .store_upserts import Upserts
from .tensors import Tensors

__all__ = ["MooncakeDistributedStore"]


class MooncakeDistributedStore(Upserts, Layers, Ranges, Replicas, Segments, Tensors):
    """Objects by key, in the memory of all that were set up at one master.

    Methods are thread-safe and return codes: 0 is success, below 0 are failures, whose cause goes
    to the logger `mooncake`. Only arguments of a wrong type raise. When the last reference is
    dropped it closes.
    """

    def __del__(self) -> None:
        self.close()

"""The KV memory of a worker: one region, which its peers write to."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ... import paged
from ...engine import Channel, Engine
from ...errors import UsageError
from ...paged import Copies, LayoutRecord, PagedMemory
from ..model import Config

__all__ = ["Pages", "pages_of", "record_of"]

REGION = "kv"
SERVICE = "kv layout"

Array = NDArray[np.float32]


class Pages:
    """layers  of each: [blocks, K and V, tokens, heads, dimensions]
    memory  the same for stores and peers

        | layer 0: block 0, block 1 ... | layer 1: block 0 ... | ...

    Peers of the engine are told what lies there.
    """

    def __init__(self, engine: Engine, record: LayoutRecord, blocks: int) -> None:
        self.record = record
        self.blocks = blocks
        region = engine.allocate(REGION, record.page_bytes * blocks)
        shape = (record.layers, blocks, *record.page_shape[1:])
        self.layers: Array = np.frombuffer(region, np.float32).reshape(shape)
        self.memory = paged.layouts.layer_first(record, blocks, [region])
        said = msgspec.json.encode((blocks, msgspec.Raw(record.encode())))
        engine.serve(SERVICE, lambda _: said)

    def copy(self, copies: Copies) -> None:
        """As a block manager wants it before blocks are written to."""
        self.layers[:, copies.targets] = self.layers[:, copies.sources]


def pages_of(peer: Channel) -> PagedMemory:
    """The same of a peer. Raises UsageError (layout) for what is none, PeerError, Timeout."""
    try:
        said: tuple[int, Any] = msgspec.json.decode(
            peer.call(SERVICE, b""), type=tuple[int, msgspec.Raw]
        )
    except msgspec.DecodeError as error:
        raise UsageError(f"layout: {error}", cause="layout") from None
    record = LayoutRecord.decode(bytes(said[1]))
    return paged.layouts.layer_first(record, said[0], [peer.regions[REGION]])


def record_of(config: Config, revision: str, block_tokens: int) -> LayoutRecord:
    return LayoutRecord(
        config.name,
        revision,
        layers=config.layers,
        heads=config.kv_heads,
        head_dim=config.head_dim,
        dtype="float32",
        block_tokens=block_tokens,
    )

"""Paged KV: blocks of tokens, who has them, how they are named and where they lie.

hashing/   names of prefixes: chained hashes, in the forms that engines have
layouts/   what a page is, where pages lie, how one layout becomes another
manager    which request has which blocks: over pool, prefix_cache and table
stored     pages in a store; swap: those of a request
attention  attention over blocks, in NumPy
"""

from . import layouts
from .attention import dense_attention, paged_attention, paged_latent_attention
from .events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from .hashing import FORMS, Adapter, Extras, Media, PrefixHash
from .layouts import LayoutRecord, PagedMemory, Refusal, Repack, compatible
from .manager import Allocated, BlockManager, Hit
from .pool import NULL, BlockPool
from .prefix_cache import PrefixCache
from .request import Request
from .stored import StoredBlocks
from .swap import swap_in, swap_out
from .table import BlockTable, Copies, Slots

__all__ = [
    "FORMS",
    "NULL",
    "Adapter",
    "AllBlocksCleared",
    "Allocated",
    "BlockManager",
    "BlockPool",
    "BlockRemoved",
    "BlockStored",
    "BlockTable",
    "Copies",
    "Event",
    "Extras",
    "Hit",
    "LayoutRecord",
    "Media",
    "PagedMemory",
    "PrefixCache",
    "PrefixHash",
    "Refusal",
    "Repack",
    "Request",
    "Slots",
    "StoredBlocks",
    "compatible",
    "dense_attention",
    "layouts",
    "paged_attention",
    "paged_latent_attention",
    "swap_in",
    "swap_out",
]

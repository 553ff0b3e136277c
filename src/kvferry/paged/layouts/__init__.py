"""Where KV lies: what a page is, where pages lie in memory, and how one layout becomes another."""

from .memory import PagedMemory, batch, block_first, latent, layer_first, split
from .record import DTYPES, LayoutRecord
from .repack import Refusal, Repack, Runs, compatible

__all__ = [
    "DTYPES",
    "LayoutRecord",
    "PagedMemory",
    "Refusal",
    "Repack",
    "Runs",
    "batch",
    "block_first",
    "compatible",
    "latent",
    "layer_first",
    "split",
]

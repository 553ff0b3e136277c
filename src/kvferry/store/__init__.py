"""The store: what a node decides with, and what users read and write through.

The catalog is pure. It decides over an index, the free space of a pool and an eviction policy.
"""

from .answers import Answer, Cause, Pin
from .catalog import Catalog
from .extents import Extents
from .policies import Lru, Policy, PrefixLru, S3Fifo
from .records import Evicted, Leased, Limits, Reserved, Usage

__all__ = [
    "Answer",
    "Catalog",
    "Cause",
    "Evicted",
    "Extents",
    "Leased",
    "Limits",
    "Lru",
    "Pin",
    "Policy",
    "PrefixLru",
    "Reserved",
    "S3Fifo",
    "Usage",
]

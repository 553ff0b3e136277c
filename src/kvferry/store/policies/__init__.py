"""Eviction policies: pure orders of leaving over slot numbers, by bytes, in arrays.

The same objects run in a node and in replay. The caller says who may not leave; a policy never
asks a clock, an index or a pool.
"""

from .lru import Lru
from .memory import Memory, Recent
from .policy import Held, Policy, Slots
from .prefix import PrefixLru
from .s3fifo import S3Fifo

__all__ = ["POLICIES", "Held", "Lru", "Memory", "Policy", "PrefixLru", "Recent", "S3Fifo", "Slots"]

POLICIES: dict[str, type[Policy]] = {"lru": Lru, "s3fifo": S3Fifo, "prefix": PrefixLru}

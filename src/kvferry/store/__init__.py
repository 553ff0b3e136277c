"""The store: values by key, in the memory of nodes that many processes read without asking.

user/       Store: reads by index where memory is mapped, over a channel elsewhere; puts
codecs/     what is stored in place of a value, where that is asked for
node/       what keeps the objects of a host: services on an engine, users, upkeep
catalog     decides who stays: pure, over an index, the free space of a pool, a policy
"""

from . import codecs
from .answers import Answer, Cause, Kind, Pin
from .catalog import Catalog
from .extents import Extents
from .policies import Lru, Policy, PrefixLru, S3Fifo
from .records import Evicted, Leased, Limits, Reserved, Usage
from .user import Draft, Lease, Pending, Pieces, Results, Store, Why

__all__ = [
    "Answer",
    "Catalog",
    "Cause",
    "Draft",
    "Evicted",
    "Extents",
    "Kind",
    "Lease",
    "Leased",
    "Limits",
    "Lru",
    "Pending",
    "Pieces",
    "Pin",
    "Policy",
    "PrefixLru",
    "Reserved",
    "Results",
    "S3Fifo",
    "Store",
    "Usage",
    "Why",
    "codecs",
]

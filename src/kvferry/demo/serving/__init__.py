"""A small inference server to read: paged KV, prefill and decode apart, prefixes in a store.

messages     what router and workers say to each other
router       which worker does what; cluster: the processes
worker       one process: a model, an engine, blocks
mini_engine  requests and steps; housing: their blocks, and KV that is there already
schedule     what both decide by, and costs; sequence: one request
pages        KV memory; attending: attention over it; push: handing it over; prefixes: the store
"""

from .cluster import Cluster, Setting, open_cluster
from .messages import Account, Hop
from .node import open_node
from .router import DECODE, PREFILL, Ask, Turn

__all__ = [
    "DECODE",
    "PREFILL",
    "Account",
    "Ask",
    "Cluster",
    "Hop",
    "Setting",
    "Turn",
    "open_cluster",
    "open_node",
]

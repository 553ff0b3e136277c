"""Registered memory: what an engine offers to peers, what they offer to it, who may touch what.

Regions own memory or borrow it; tables find regions by name and address; resolve turns a batch
into addresses valid here, or into an error, before anything moves.
"""

from .audience import EVERYBODY, Audience, Visitor
from .raw import memory_at
from .record import NO_TENANT, RegionRecord, check_name
from .region import Region
from .remote import RemoteRegion
from .resolve import check_buffer, late_refusal, nearest, refusal, resolve, withdrawn
from .suballocator import SubAllocator
from .table import RegionTable

__all__ = [
    "EVERYBODY",
    "NO_TENANT",
    "Audience",
    "Region",
    "RegionRecord",
    "RegionTable",
    "RemoteRegion",
    "SubAllocator",
    "Visitor",
    "check_buffer",
    "check_name",
    "late_refusal",
    "memory_at",
    "nearest",
    "refusal",
    "resolve",
    "withdrawn",
]

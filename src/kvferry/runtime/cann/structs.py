"""Records that ACL takes and fills in, as a 64-bit C compiler lays them out. Reserved bytes are 0.

A record is aclrt and the name of its class; its fields are written in camel case there.
Enumerations are int.

    MemLocation         | id | type |                                                      8
    PhysicalMemProp     | handle | alloc | attr | location(8) | pad(4) | reserve(8) |     32
    MemAccessDesc       | flags | location(8) | rsv(12) |                                 24
    PtrAttributes       | location(8) | page | rsv(16) |                                  28
    MemcpyBatchAttr     | dst(8) | src(8) | rsv(16) |                                     32
    MemFabricHandle     | data(128) |                                                    128
"""

from __future__ import annotations

import ctypes

__all__ = [
    "STRUCTS",
    "MemAccessDesc",
    "MemFabricHandle",
    "MemLocation",
    "MemcpyBatchAttr",
    "PhysicalMemProp",
    "PtrAttributes",
]


class MemLocation(ctypes.Structure):
    """Where memory lies. The number comes first."""

    _fields_ = (("id", ctypes.c_uint32), ("type", ctypes.c_int))


class PhysicalMemProp(ctypes.Structure):
    """What aclrtMallocPhysical is asked for."""

    _fields_ = (
        ("handle_type", ctypes.c_int),
        ("allocation_type", ctypes.c_int),
        ("mem_attr", ctypes.c_int),
        ("location", MemLocation),
        ("reserve", ctypes.c_uint64),
    )


class MemAccessDesc(ctypes.Structure):
    """Who may do what with mapped memory."""

    _fields_ = (
        ("flags", ctypes.c_int),
        ("location", MemLocation),
        ("rsv", ctypes.c_uint8 * 12),
    )


class PtrAttributes(ctypes.Structure):
    """What lies behind a pointer."""

    _fields_ = (
        ("location", MemLocation),
        ("page_size", ctypes.c_uint32),
        ("rsv", ctypes.c_uint32 * 4),
    )


class MemcpyBatchAttr(ctypes.Structure):
    """Where both sides of the copies of a batch lie."""

    _fields_ = (
        ("dst_loc", MemLocation),
        ("src_loc", MemLocation),
        ("rsv", ctypes.c_uint8 * 16),
    )


class MemFabricHandle(ctypes.Structure):
    """A FABRIC share handle. Its bytes can be guessed: it is a name, not a secret."""

    _fields_ = (("data", ctypes.c_uint8 * 128),)


STRUCTS: tuple[type[ctypes.Structure], ...] = (
    MemLocation,
    PhysicalMemProp,
    MemAccessDesc,
    PtrAttributes,
    MemcpyBatchAttr,
    MemFabricHandle,
)

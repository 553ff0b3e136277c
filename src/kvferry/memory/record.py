"""What a peer is told about a region: the record that travels."""

from __future__ import annotations

import msgspec

__all__ = ["RegionRecord"]


class RegionRecord(msgspec.Struct, frozen=True, tag=True):
    """One region as its owner announces it.

    serial    names this stay of this region at its owner; never used again in its epoch
    name      unique among the owner's regions
    base      address of its first byte as the owner sees it
    length    bytes that may be addressed
    size      bytes behind the handle, whole pages
    page      bytes of a page
    readonly  peers may not write
    kind      of memory
    handle    how the descriptor that travels beside the record is to be read
    tenant    whose it is
    """

    serial: int
    name: str
    base: int
    length: int
    size: int
    page: int
    readonly: bool
    kind: str = "host"
    handle: str = "memfd"
    tenant: str = "default"

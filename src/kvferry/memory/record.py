"""What a peer is told about a region: the record that travels."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..errors import UsageError

__all__ = ["NO_TENANT", "RegionRecord", "check_name"]

NAME_MAX = 255  # bytes
BLOB_MAX = 128  # bytes
NO_TENANT = "default"  # the engine's own


def check_name(name: str) -> None:
    """Raises UsageError for what cannot travel as the name of a region, service or notification."""
    if not isinstance(name, str):
        raise UsageError(f"a name is a str, not {type(name).__name__}", cause="name")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise UsageError(f"name {name!r} is no text", cause="name") from None
    if not 0 < length <= NAME_MAX:
        raise UsageError(f"a name of {length} bytes, not 1 to {NAME_MAX}", cause="name")


class RegionRecord(msgspec.Struct, frozen=True, tag=True):
    """One region as its owner announces it.

    serial    names this stay of this region at its owner; never used again in its epoch
    name      unique among the owner's regions
    own       allocated by its engine; else a buffer that was registered
    base      address of its first byte as the owner sees it
    length    bytes that may be addressed
    size      bytes behind the handle, whole pages
    page      bytes of a page
    readonly  peers may not write
    kind      of memory
    handle    how the descriptor that travels beside the record is to be read; "address": none does
    tenant    whose it is
    blob      the handle's bytes, where those are the handle
    offset    of the region's first byte in what is behind the handle
    """

    serial: int
    name: str
    own: bool
    base: int
    length: int
    size: int
    page: int
    readonly: bool
    kind: str = "host"
    handle: str = "memfd"
    tenant: str = NO_TENANT
    blob: Annotated[bytes, msgspec.Meta(max_length=BLOB_MAX)] = b""
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0

"""A peer's region seen from here."""

from __future__ import annotations

from .._core import Span
from ..path import Path
from ..runtime import Mapping
from .record import RegionRecord

__all__ = ["RemoteRegion"]


class RemoteRegion:
    """Memory of a peer that this process may read or write by one-sided transfer.

    Addresses in batches are the peer's own (`address` is the first); they are relocated when a
    batch is submitted. Belongs to one channel and one epoch of the peer: after a restart of the
    peer it is refused.

    path  how it is reached
    """

    __slots__ = ("epoch", "mapping", "path", "peer", "record", "span")

    def __init__(
        self,
        record: RegionRecord,
        peer: str,
        epoch: int,
        path: Path,
        span: Span,
        mapping: Mapping | None,
    ) -> None:
        self.record = record
        self.peer = peer
        self.epoch = epoch
        self.path = path
        self.span = span
        self.mapping = mapping

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def address(self) -> int:
        """Of the first byte, in the peer's address space."""
        return self.record.base

    @property
    def length(self) -> int:
        """In bytes."""
        return self.record.length

    @property
    def own(self) -> bool:
        """Did its engine allocate it? Else it is a buffer that was registered there."""
        return self.record.own

    @property
    def readonly(self) -> bool:
        return self.record.readonly

    def __repr__(self) -> str:
        rights = ", read-only" if self.readonly else ""
        return f"<RemoteRegion {self.name!r} of {self.peer}, {self.length} bytes{rights}>"

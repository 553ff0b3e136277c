"""Memory that a client contributes beside its first segment."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import Any

from .store_base import Base
from .store_codes import FAILURES, Code, code_of

__all__ = ["Segments"]

logger = logging.getLogger("mooncake")

OK, FAILED = int(Code.OK), int(Code.INTERNAL_ERROR)
WORD = (1 << 64) - 1
STEP = 16 << 20


class Segments(Base):
    """Each is a node of its own in this process, until it is unmounted or the client is closed."""

    def allocate_and_mount_segment(
        self, size: int, protocol: str = "tcp", location: str = ""
    ) -> dict[str, Any]:
        """Contribute so many bytes more, or up to 16 MiB above: {ret, segment_ids, allocated_size}.
        protocol, location: hints. ret -1: there is no such memory, or no master."""
        client, size = self._client, -(-size // STEP) * STEP
        try:
            client.add(name := _new_name(), client.node(size))
        except FAILURES as error:
            code_of("allocate_and_mount_segment", error)
            return {"ret": FAILED, "segment_ids": [], "allocated_size": 0}
        return {"ret": OK, "segment_ids": [name], "allocated_size": size}

    def mount_segment(
        self, path: str, size: int, offset: int = 0, protocol: str = "tcp", location: str = ""
    ) -> dict[str, Any]:
        """-1012: a node's memory is its own, not a file that others may change."""
        logger.error("mount_segment: %s: see allocate_and_mount_segment", path)
        return {"ret": int(Code.NOT_SUPPORTED), "segment_ids": []}

    def unmount_segment(self, segment_ids: Sequence[str], grace_period_seconds: int = 0) -> int:
        """End segments, and what is in them is gone; -1: one of them is none of ours. There is no
        grace: readers keep what they read."""
        found = [self._client.segments.pop(name, None) for name in segment_ids]
        try:
            for store in found:
                if store is not None:
                    store.close()
        except FAILURES as error:
            return code_of("unmount_segment", error)
        return FAILED if None in found else OK

    def unmount_and_free_segment(
        self, segment_ids: Sequence[str], grace_period_seconds: int = 0
    ) -> int:
        """The same."""
        return self.unmount_segment(segment_ids, grace_period_seconds)

    def unmount_local_disk_segment(self, grace_period_seconds: int = 0) -> int:
        """0, and nothing is done: what is on the disk ends with its node."""
        return OK


def _new_name() -> str:
    number = uuid.uuid4().int
    return f"{number >> 64}-{number & WORD}"

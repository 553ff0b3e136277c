"""Blocks in a real store, with real bytes, all of them verified."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import PeerError
from ..store import Answer, Store
from .bodies import Bodies
from .trace import Ints

__all__ = ["Stored"]

GROUP = 16 << 20  # bytes that one call reads or writes, so that there need not be more to hold them


class Stored:
    """A holder whose blocks are objects of a store.

    parents  Trace.parents, where the policy has to be told of them
    name     tells the keys of this run from those of all others

    seconds, read_bytes, written_bytes   of the store's calls alone
    vanished  blocks that were there when they were asked about, and not when they were read
    refused   blocks that the store did not take
    """

    def __init__(
        self, store: Store, bodies: Bodies, most: int, name: str, parents: Ints | None
    ) -> None:
        self._store = store
        self._bodies = bodies
        self._group = max(GROUP // bodies.size, 1)
        self._most = most
        self._name = name
        self._parents = parents
        self._rows = bodies.rows(self._group)
        self.reading = self.writing = 0.0
        self.read_bytes = self.written_bytes = 0
        self.vanished = self.refused = 0

    def there(self, blocks: Ints) -> NDArray[np.bool_]:
        return self._store.exists_batch(self._keys(blocks)) if len(blocks) else blocks != blocks

    def use(self, blocks: Ints) -> None:
        for at in range(0, len(blocks), self._group):
            self._read(blocks[at : at + self._group])

    def admit(self, blocks: Ints) -> int:
        blocks = blocks[: self._most]
        for at in range(0, len(blocks), self._group):
            self._write(blocks[at : at + self._group])
        return len(blocks)

    def _read(self, blocks: Ints) -> None:
        """Raises PeerError (not_verified) when a byte is not what was put."""
        keys, rows = self._keys(blocks), self._rows[: len(blocks)]
        began = time.perf_counter()
        results = self._store.get_batch_into(keys, list(rows))
        self.reading += time.perf_counter() - began
        found = np.flatnonzero(results.codes == Answer.FOUND)
        self.vanished += len(blocks) - len(found)
        self.read_bytes += len(found) * self._bodies.size
        whole = bool((results.lengths[found] == self._bodies.size).all())
        if not whole or not self._bodies.are(rows[found], blocks[found].tolist()):
            raise PeerError("a block has other bytes than were put", cause="not_verified")

    def _write(self, blocks: Ints) -> None:
        keys, rows = self._keys(blocks), self._rows[: len(blocks)]
        self._bodies.fill(rows, blocks.tolist())
        how: dict[str, Any] = {}
        if self._parents is not None:
            how["parents"] = self._keys(self._parents[blocks])
        began = time.perf_counter()
        results = self._store.put_batch(keys, list(rows), **how)
        self.writing += time.perf_counter() - began
        stored = int((results.codes == Answer.STORED).sum())
        self.written_bytes += stored * self._bodies.size
        self.refused += len(blocks) - stored

    def _keys(self, blocks: Ints) -> list[str]:
        return [f"{self._name}/{block}" for block in blocks.tolist()]

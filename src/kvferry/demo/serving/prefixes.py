"""The store, as far as it is there: when it fails, the answer is that nothing was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...errors import Error, NotQuiet
from ...paged import BlockManager, PagedMemory, Request, StoredBlocks, swap_in, swap_out
from ...paged.ids import Ids
from ...store import Store

__all__ = ["Prefixes"]

T = TypeVar("T")

PAUSE = 1.0  # seconds without asking after a failure, or as many as that took
LEASE = 10.0  # seconds between finding a block and having loaded it


class Prefixes:
    """Pages of prefixes in a store. A store that is away costs time and never correctness: what
    is not found is computed. Raises NotQuiet alone. One thread at a time.

    open   makes the store, each time that it is needed and not there; None: there never is one
    clock  in seconds
    tell   is told why, when it does not answer after it did
    """

    def __init__(
        self,
        open: Callable[[], Store] | None,
        memory: PagedMemory,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._open = open
        self._memory = memory
        self._clock = clock
        self._tell = tell
        self._stored: StoredBlocks | None = None
        self._again = 0.0
        self._away = False
        self.failures = 0

    def has(self, hashes: Sequence[bytes]) -> int:
        """How many blocks there are, from the first on."""
        return self._ask(lambda stored: stored.has(hashes, lease=LEASE), 0) if hashes else 0

    def load(self, hashes: Sequence[bytes], blocks: Ids) -> int:
        """Fill blocks: how many, from the first on; the others are unspecified."""
        return self._ask(lambda stored: stored.get(hashes, blocks), 0)

    def save(self, hashes: Sequence[bytes], blocks: Ids) -> int:
        """How many are there now, from the first on."""
        return self._ask(lambda stored: stored.put(hashes, blocks), 0) if hashes else 0

    def swap_out(self, manager: BlockManager, request: Request) -> int:
        """Take its blocks: of how many tokens the KV is kept."""
        kept = self._ask(lambda stored: swap_out(manager, request, stored), 0)
        manager.free(request)
        return kept

    def swap_in(self, manager: BlockManager, request: Request, tokens: int) -> int | None:
        """Give it blocks, with the KV that is left of so many tokens. None: there is no room."""
        nothing: int | None = 0
        return self._ask(lambda stored: swap_in(manager, request, stored, tokens), nothing)

    def close(self) -> None:
        if self._stored is not None:
            self._stored.store.close()
            self._stored = None

    def _ask(self, question: Callable[[StoredBlocks], T], otherwise: T) -> T:
        begin = self._clock()
        if self._open is None or begin < self._again:
            return otherwise
        try:
            if self._stored is None:
                self._stored = StoredBlocks(self._open(), self._memory)
            answer = question(self._stored)
            self._away = False
            return answer
        except NotQuiet:  # bytes may still land in blocks that others get
            raise
        except Error as error:
            if not self._away:
                self._tell(f"the store did not answer, going on without it: {error}")
            self._away = True
            self.failures += 1
            now = self._clock()
            self._again = now + max(PAUSE, now - begin)
            return otherwise

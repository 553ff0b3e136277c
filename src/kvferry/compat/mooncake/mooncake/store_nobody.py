"""What stands in place of a store where there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvferry.errors import ClosedError, Full, UsageError
from kvferry.store import Store

if TYPE_CHECKING:
    from .store_client import Client

__all__ = ["NoNode", "Nobody"]


class Nobody:
    """In place of a store or a memory before `setup` and after `close`: what is asked of it
    raises."""

    def __getattr__(self, verb: str) -> Any:
        raise ClosedError("setup was not called, or failed, or close was", cause="not_initialized")


class NoNode:
    """In place of a store as long as the master knows of no node: whatever is asked of it looks
    for one first, and raises Full (no_node) when there is none. Thread-safe."""

    def __init__(self, client: Client, join: Callable[[], Store]) -> None:
        self._client = client
        self._join = join
        self._lock = threading.Lock()
        self._over = False

    def close(self) -> None:
        """What another thread has just found is closed, too."""
        with self._lock:
            self._over = True
        if self._client.store is not self:
            self._client.store.close()

    def __getattr__(self, verb: str) -> Any:
        with self._lock:
            if self._over:
                raise ClosedError("the store was closed", cause="closed")
            if self._client.store is self:
                self._client.store = self._found()
        return getattr(self._client.store, verb)

    def _found(self) -> Store:
        try:
            return self._join()
        except UsageError as error:
            if error.cause != "no_store":
                raise
            raise Full("no segment is mounted anywhere", cause="no_node") from None

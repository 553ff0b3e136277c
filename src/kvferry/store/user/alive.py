"""Stores that are open: who has to know when the process forks, and when the interpreter ends."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from ... import log

__all__ = ["Open", "began", "ended"]

logger = log.get("kvferry.store")


class Open(Protocol):
    def forked(self) -> None:
        """In a forked child: nothing that is open here is the child's."""

    def close(self) -> None: ...


_open: weakref.WeakSet[Open] = weakref.WeakSet()


def began(store: Open) -> None:
    _open.add(store)


def ended(store: Open) -> None:
    _open.discard(store)


def _forked() -> None:
    for store in list(_open):
        store.forked()


def _close_all() -> None:
    for store in list(_open):
        try:
            store.close()
        except Exception:
            logger.exception("closing %r at exit failed", store)


os.register_at_fork(after_in_child=_forked)
atexit.register(_close_all)

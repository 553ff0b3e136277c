"""A command from its start to the signal that ends it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["until_ended"]

ENDS = {signal.SIGINT, signal.SIGTERM}


@contextmanager
def until_ended() -> Iterator[Callable[[], object]]:
    """What waits for SIGINT or SIGTERM, which threads that begin in the block do not take. To be
    entered by the main thread, before anything is begun that has to be ended in order."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        yield lambda: signal.sigwait(ENDS)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

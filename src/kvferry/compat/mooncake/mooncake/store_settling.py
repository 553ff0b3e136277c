"""What is done when everybody finds it, or misses it."""

from __future__ import annotations

import logging
from typing import Any

from .store_codes import FAILURES

__all__ = ["Settling"]

logger = logging.getLogger("mooncake")

PATIENCE = 1.0  # seconds
IN_VAIN = 0.1  # after it was in vain, until it is not


class Settling:
    """Thread-safe."""

    def __init__(self) -> None:
        self._patience = PATIENCE

    def wait(self, store: Any) -> None:
        """Until the master knows all that was put and removed, if anybody else could ask it; or
        until patience is over: then others may not find it yet, which the log says."""
        try:
            settled = store.settle(self._patience, alone=False)
        except FAILURES as error:
            logger.info("nobody was told: %s", error)
            return
        if not settled and self._patience == PATIENCE:
            logger.warning("the master does not answer: others may not find yet what is put")
        self._patience = PATIENCE if settled else IN_VAIN

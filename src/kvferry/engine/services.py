"""What an engine answers: services by tenant and name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from ..errors import RightsError, UsageError
from ..runtime import Access
from .caller import Caller

__all__ = ["Handler", "Services"]

Handler = Callable[[Caller, bytes], bytes]


class Service(NamedTuple):
    """readers  it is also for those who only read"""

    handler: Handler
    readers: bool


class Services:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._services: dict[tuple[str | None, str], Service] = {}

    def add(self, tenant: str | None, name: str, handler: Handler, readers: bool) -> None:
        """For one tenant, or for all. Raises UsageError for a name that is taken."""
        with self._lock:
            if (tenant, name) in self._services:
                raise UsageError(f"service {name!r} exists already", cause="name_taken")
            self._services[tenant, name] = Service(handler, readers)

    def answer(self, caller: Caller, name: str, request: bytes) -> bytes:
        """What the handler says. Raises UsageError when the caller's tenant has no such service,
        RightsError when it is not for those who only read."""
        found = self._services.get((caller.tenant, name)) or self._services.get((None, name))
        if found is None:
            raise UsageError(f"there is no service {name!r}", cause="no_service")
        if caller.rights is Access.READ and not found.readers:
            raise RightsError(f"service {name!r} is not for readers", cause="read_only")
        return found.handler(caller, request)

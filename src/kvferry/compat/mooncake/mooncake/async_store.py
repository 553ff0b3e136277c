"""The store for programs that await: every method `name` as the coroutine `async_name`."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from .store import MooncakeDistributedStore

__all__ = ["MooncakeDistributedStoreAsync"]


class MooncakeDistributedStoreAsync(MooncakeDistributedStore):
    """Calls run in threads of the event loop. Memory that a call names is its own until it has
    returned, also when who awaits it is cancelled."""

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        verb = name.removeprefix("async_")
        method = None if verb == name else getattr(type(self), verb, None)
        if method is None or verb.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        @functools.wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            bound = functools.partial(method, self, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(None, bound)

        return call

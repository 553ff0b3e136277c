"""What tensors are stored and read with, and what happens to calls that are wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from kvferry.errors import Error
from kvferry.memory import memory_at

from .codes import tell
from .replicate import ReplicateConfig
from .store_codes import Code
from .store_plan import PLAIN, each_of

__all__ = [
    "OK",
    "REFUSED",
    "UNFIT",
    "Put",
    "Verbs",
    "each",
    "each_config",
    "first_failure",
    "refusing",
]

OK = int(Code.OK)
REFUSED = int(Code.INVALID_PARAMS)
# What is no tensor, no place and no memory; and a store that is not set up.
UNFIT = (ValueError, Error)

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")


class Put(Protocol):
    """`put_parts` or `upsert_parts`."""

    def __call__(self, key: str, *parts: Any, config: ReplicateConfig = PLAIN) -> int: ...


class Verbs:
    """The verbs of bytes, which another base of the store has."""

    def _window(self, address: int, length: int) -> Any:
        """A buffer of the bytes at an address. Raises ValueError where none are mapped; the store
        has a faster one, for registered memory."""
        return memory_at(address, length)

    if TYPE_CHECKING:

        def put_parts(self, key: str, *parts: Any, config: ReplicateConfig = PLAIN) -> int: ...
        def upsert_parts(self, key: str, *parts: Any, config: ReplicateConfig = PLAIN) -> int: ...
        def batch_put_from(
            self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
        ) -> list[int]: ...
        def batch_upsert_from(
            self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
        ) -> list[int]: ...
        def batch_get_into(
            self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
        ) -> list[int]: ...
        def batch_get_buffer(self, keys: list[str]) -> list[Any]: ...


def refusing(
    failure: R,
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """A method that answers `failure` where it would raise one of UNFIT."""

    def wrap(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @functools.wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return method(self, *args, **kwargs)
            except UNFIT as error:
                tell(method.__name__, error)
                return failure

        return call

    return wrap


def each(
    failure: R, call: Callable[..., R], keys: Sequence[str], *columns: Sequence[Any] | None
) -> list[R]:
    """`call` of each key with its row of the columns; None is a column of None.

    `failure` for every key where the columns do not have as many rows.
    """
    for column in columns:
        if column is None:
            continue
        if not isinstance(column, list | tuple) or len(column) != len(keys):
            tell("a batch", ValueError(f"{len(keys)} keys need a list of as many"))
            return [failure] * len(keys)
    rows = zip(*(column or [None] * len(keys) for column in columns), strict=True)
    return [call(key, *row) for key, row in zip(keys, rows, strict=True)]


def first_failure(codes: Sequence[int]) -> int:
    return next((code for code in codes if code != OK), OK)


def each_config(config: ReplicateConfig, keys: int) -> list[ReplicateConfig]:
    """What of it is of each key alone."""
    return [each_of(config, at) for at in range(keys)]

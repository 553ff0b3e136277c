"""What a caller registers by address, and the bytes behind an address."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import index

from kvferry._core import Spans
from kvferry.engine import Engine
from kvferry.errors import Error, UsageError
from kvferry.memory import Region, memory_at

__all__ = ["held", "register", "register_all", "unregister"]


def register(engine: Engine, spans: Spans, address: int, length: int) -> None:
    """Make a range known to peers and, if it may be written, one of the spans that a store may use;
    the caller keeps it mapped until `unregister`.

    The identical range again counts. Raises UsageError: nothing is mapped there, a partial overlap
    ("overlap", "name_taken"), or a file that could be cut short.
    """
    if not engine.register(_name(address), memory_at(address, length)).readonly:
        spans.add(address, length)


def register_all(
    engine: Engine, spans: Spans, addresses: Sequence[int], lengths: Sequence[int]
) -> None:
    """Register every range, or none. Raises as `register`, TypeError for what is no integer."""
    if len(addresses) != len(lengths):
        raise UsageError(
            f"{len(addresses)} addresses and {len(lengths)} lengths", cause="unequal_lengths"
        )
    ranges = list(zip(map(index, addresses), map(index, lengths), strict=True))
    done: list[int] = []
    try:
        for address, length in ranges:
            register(engine, spans, address, length)
            done.append(address)
    except Error:
        for address in reversed(done):
            unregister(engine, spans, address)
        raise


def unregister(engine: Engine, spans: Spans, address: int) -> None:
    """End a registration, once transfers over it have ended. Raises UsageError for an unknown one
    ("unknown_address")."""
    region = engine.regions.get(_name(index(address)))
    if region is None:
        raise UsageError(f"nothing is registered at {address:#x}", cause="unknown_address")
    with suppress(LookupError):  # it may only be read, or this is another try
        spans.drop(region.address)
    engine.unregister(region)


def held(engine: Engine, address: int, length: int) -> memoryview:
    """Bytes that lie in one region of the engine, registered or managed, and can be touched.

    Raises UsageError for any other range: nothing outside is looked at.
    """
    address, length = index(address), index(length)
    if not any(_within(region, address, length) for region in list(engine.regions.values())):
        raise UsageError(
            "neither registered nor allocated here",
            cause="unknown_address",
            range=(address, length),
        )
    return memory_at(address, length)


def _within(region: Region, address: int, length: int) -> bool:
    return region.address <= address and address + length <= region.address + region.length


def _name(address: int) -> str:
    return f"mooncake-{address:x}"

"""Which nodes a user means."""

from __future__ import annotations

import re
from typing import NamedTuple

from ... import config
from ...address import UnixAddress, parse
from ...errors import UsageError

__all__ = ["Asked", "bytes_in", "places_of"]


class Asked(NamedTuple):
    """Addresses. No `own` one: the node is embedded."""

    own: str | None
    others: tuple[str, ...]


def places_of(address: str | None, options: config.Options) -> Asked:
    """Of a node elsewhere: through this host's, if it has one. Raises UsageError for no address."""
    if address is None:
        return Asked(None, ())
    if isinstance(parse(address), UnixAddress):
        return Asked(address, ())
    socket = options.node_socket
    if socket is not None and socket.is_socket():
        return Asked(f"unix://{socket}", (address,))
    return Asked(address, ())


def bytes_in(size: int | str) -> int:
    """1 << 30, "1073741824", "1GiB", "1G" and "1GB" are the same. Raises UsageError for others."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    found = re.fullmatch(r"([0-9]{1,16})\s*([KMGT]?)(?:i?B)?", str(size))
    if found is None:
        raise UsageError(f"{size!r} is not a size, such as 1GiB", cause="bad_size")
    return int(found[1]) * config.UNITS[found[2]]

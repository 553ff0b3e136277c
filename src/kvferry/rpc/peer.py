"""Who is at the other end of a socket, as far as the kernel knows."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

__all__ = ["credentials", "name", "pidfd"]

_UCRED = struct.Struct("3i")  # pid, uid, gid

# asm-generic/socket.h; Linux 6.5. Names the process without a moment in which its number is reused,
# and where it has none: in a pid namespace that this process does not see into.
SO_PEERPIDFD = 77


def credentials(sock: socket.socket) -> tuple[int, int] | None:
    """(pid, uid) of the process that connected or listened; None across TCP."""
    if sock.family != socket.AF_UNIX:
        return None
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return pid, uid


def pidfd(sock: socket.socket) -> int | None:
    """A new descriptor of that process, the caller's to close; None across TCP, where the kernel
    gives none, and when the process or the socket is gone."""
    if sock.family != socket.AF_UNIX:
        return None
    with suppress(OSError):
        return sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    return None


def name(sock: socket.socket) -> str:
    """For messages, until it says who it is."""
    who = credentials(sock)
    if who is not None:
        return f"pid {who[0]}"
    try:
        host, port = sock.getpeername()[:2]
    except OSError:
        return "a peer that is gone"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

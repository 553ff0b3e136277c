"""Who is at the other end of a socket, as far as the kernel knows."""

from __future__ import annotations

import socket
import struct

__all__ = ["credentials", "name"]

_UCRED = struct.Struct("3i")  # pid, uid, gid


def credentials(sock: socket.socket) -> tuple[int, int] | None:
    """(pid, uid) of the process that connected or listened; None across TCP."""
    if sock.family != socket.AF_UNIX:
        return None
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return pid, uid


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

"""File descriptors beside a byte stream: SCM_RIGHTS on AF_UNIX."""

from __future__ import annotations

import os
import socket
from array import array
from collections.abc import Iterable, Sequence

from .wire import MAX_FDS

__all__ = ["ROOM", "close_all", "pack", "unpack"]

# One descriptor more than this makes the kernel say MSG_CTRUNC.
ROOM = socket.CMSG_SPACE(MAX_FDS * array("i").itemsize)

Ancillary = tuple[int, int, bytes]


def pack(fds: Sequence[int]) -> list[tuple[int, int, array[int]]]:
    """What sendmsg takes; the kernel duplicates the descriptors before it returns."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))]


def unpack(ancillary: Iterable[Ancillary]) -> list[int]:
    """The descriptors that recvmsg installed; the caller owns them."""
    fds = array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds.tolist()


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)

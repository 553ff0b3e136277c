"""Moves bytes between the memory of two processes, for packages that stand in for real ones.

An initiator sends operation, address and length, then the bytes of a write; it gets one byte for a
write, or the bytes of a read.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import threading

HEADER = struct.Struct("<cQQ")
FAULT = os.environ.get("STAND_IN_FAULT", "")


class Target:
    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connection: socket.socket | None = None
        self.port = self._listener.getsockname()[1]

    def start_thread(self) -> None:
        def serve() -> None:
            while True:
                self._step()

        threading.Thread(target=serve, daemon=True).start()

    def poll(self) -> None:
        """Serve what has arrived."""
        while select.select([self._connection or self._listener], [], [], 0)[0]:
            self._step()

    def _step(self) -> None:
        if self._connection is None:
            self._connection, _ = self._listener.accept()
            return
        op, address, length = HEADER.unpack(_receive(self._connection, HEADER.size))
        if op == b"w":
            ctypes.memmove(address, _receive(self._connection, length), length)
            self._connection.sendall(b"k")
        else:
            self._connection.sendall(ctypes.string_at(address, length))


class Initiator:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))

    def move(self, op: str, ours: int, theirs: int, length: int) -> None:
        header = HEADER.pack(op[:1].lower().encode(), theirs, length)
        if op.lower() == "write":
            self._socket.sendall(header + _spoilt(ctypes.string_at(ours, length)))
            _receive(self._socket, 1)
        else:
            self._socket.sendall(header)
            ctypes.memmove(ours, _spoilt(_receive(self._socket, length)), length)


def _spoilt(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:] if FAULT == "corrupt" else data


def _receive(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            os._exit(0)
        data += part
    return data

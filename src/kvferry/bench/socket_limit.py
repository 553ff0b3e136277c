"""The yardstick of tcp paths: how fast a bare loop moves the same blocks over a socket.

One connection between two processes, one thread at either end: blocks are sent from and received
into their places, many a system call, and after every batch one byte comes back. Nothing of it is
shared with a link: no batch, no check, no frame, no completion, another native loop.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from types import TracebackType

import msgspec
import numpy as np

from .. import _core
from ..errors import PeerError
from .socket_echo import Answer, Order, Receive, Send
from .walk import Move

__all__ = ["SocketLimit"]

PATIENCE_SECONDS = 20
END_SECONDS = 5.0
ROUND_TRIPS = 500


class SocketLimit:
    """Both ends: one here, one in a process of its own with `size` bytes. One thread at a time.

    A context manager. Methods block, and raise PeerError when the other end is gone or silent.
    """

    def __init__(self, size: int) -> None:
        with ExitStack() as undo:
            near, far = connected_pair()
            undo.callback(near.close)
            with far:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "kvferry.bench.socket_echo",
                        str(far.fileno()),
                        str(size),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    pass_fds=[far.fileno()],
                    start_new_session=True,
                )
            undo.pop_all()
        self._socket = near

    def copy(self, op: str, local: int, moves: Sequence[Move], batches: int) -> float:
        """Seconds it takes to move `moves`, each in `batches` equal parts, one awaited after the
        other. `local` is the address of byte 0 of our side, of which the caller keeps the memory.
        """
        return sum(self._copy(op, local, move, batches) for move in moves)

    def round_trip(self, length: int, repeats: int = ROUND_TRIPS) -> float:
        """Median seconds from sending `length` bytes to the answer of one byte."""
        taken, source = np.zeros(repeats, np.uint64), np.ones(length, np.uint8)
        self._order(Answer(length, repeats))
        self._check(
            _core.socket_round_trips(self._socket.fileno(), source.ctypes.data, length, taken)
        )
        return float(np.median(taken)) / 1e9

    def _copy(self, op: str, local: int, move: Move, batches: int) -> float:
        batch = max(1, -(-len(move.local) // batches))
        there, here = (
            (Receive, _core.socket_send_blocks)
            if op == "write"
            else (Send, _core.socket_receive_blocks)
        )
        self._order(there(move.base, move.block, batch, move.remote.tobytes()))
        begin = time.perf_counter()
        code = here(self._socket.fileno(), local + move.base, move.local, move.block, batch)
        taken = time.perf_counter() - begin
        self._check(code)
        return taken

    def _order(self, order: Order) -> None:
        """Have the other end about to carry it out."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # then its output has ended, too
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise PeerError("the process at the other end has ended", cause="socket_limit")

    def _check(self, code: int) -> None:
        if code:
            raise PeerError(f"the socket limit: {os.strerror(code)}", cause="socket_limit")

    def __enter__(self) -> SocketLimit:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Hang up; the other end ends by itself, or else is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._socket.close()
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()


def connected_pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of one TCP connection over loopback, without delay, patient for a while."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        while True:  # somebody else may connect first
            far, address = listener.accept()
            if address == near.getsockname():
                break
            far.close()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for timeout in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            end.setsockopt(socket.SOL_SOCKET, timeout, struct.pack("ll", PATIENCE_SECONDS, 0))
    return near, far

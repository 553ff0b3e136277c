"""The far end of SocketLimit: ``python -m kvferry.bench.socket_echo FD SIZE``.

FD is a connected TCP socket that it inherits, SIZE the bytes it holds. It reads one Order a line
from its standard input, writes an empty line when it is ready for it, and carries it out over the
socket. It works until its input ends.
"""

from __future__ import annotations

import os
import sys

import msgspec
import numpy as np
import numpy.typing as npt

from .. import _core

__all__ = ["Answer", "Order", "Receive", "Send"]


class Send(msgspec.Struct, frozen=True, tag=True):
    """Send blocks `ids` (int64) that begin `base` bytes into the memory; see socket_send_blocks."""

    base: int
    block: int
    batch: int
    ids: bytes


class Receive(msgspec.Struct, frozen=True, tag=True):
    """The same the other way round."""

    base: int
    block: int
    batch: int
    ids: bytes


class Answer(msgspec.Struct, frozen=True, tag=True):
    """Receive `length` bytes and answer them, `repeats` times."""

    length: int
    repeats: int


Order = Send | Receive | Answer


def main(fd: int, size: int) -> None:
    memory = np.ones(size, np.uint8)
    orders = msgspec.json.Decoder(Order)
    for line in sys.stdin.buffer:
        order = orders.decode(line)
        os.write(sys.stdout.fileno(), b"\n")
        if _carry_out(order, fd, memory):
            return  # who gave the order hung up


def _carry_out(order: Order, fd: int, memory: npt.NDArray[np.uint8]) -> int:
    address = memory.ctypes.data
    if isinstance(order, Answer):
        return _core.socket_echo(fd, address, order.length, order.repeats)
    move = _core.socket_send_blocks if isinstance(order, Send) else _core.socket_receive_blocks
    ids = np.frombuffer(order.ids, np.int64)
    return move(fd, address + order.base, ids, order.block, order.batch)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

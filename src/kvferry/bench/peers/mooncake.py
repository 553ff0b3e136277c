"""Mooncake's transfer engine over TCP. Its threads serve a target by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

from .messages import Blocks
from .package import Package, offsets

__all__ = ["Mooncake"]

HOST = "127.0.0.1"


class Mooncake(Package):
    install = "mooncake-transfer-engine-non-cuda"
    transport = "tcp"
    pause = None

    def __init__(self, address: int, size: int) -> None:
        self._address = address
        self._peer = ""
        self._peer_address = 0
        self._engine = import_module("mooncake.engine").TransferEngine()
        _check(self._engine.initialize(HOST, "P2PHANDSHAKE", self.transport, ""))
        _check(self._engine.register_memory(address, size))

    def card(self) -> bytes:
        return f"{HOST}:{self._engine.get_rpc_port()}".encode()

    def meet(self, card: bytes, address: int) -> None:
        self._peer, self._peer_address = card.decode(), address

    def call(self, op: str, blocks: Sequence[Blocks]) -> Callable[[], None]:
        local, remote, lengths = offsets(blocks)
        ours = (self._address + local).tolist()
        theirs = (self._peer_address + remote).tolist()
        if len(ours) == 1:
            move = getattr(self._engine, f"transfer_sync_{op}")
            return partial(_carry, move, self._peer, ours[0], theirs[0], int(lengths[0]))
        move = getattr(self._engine, f"batch_transfer_sync_{op}")
        return partial(_carry, move, self._peer, ours, theirs, lengths.tolist())

    def attend(self) -> None:
        """Its threads do: a process that wakes up beside them would only slow them down."""


def _carry(move: Callable[..., int], *arguments: object) -> None:
    _check(move(*arguments))


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"mooncake returned {code}")

"""The calls of mooncake.engine that are made. A thread serves the target."""

from __future__ import annotations

import os
import sys

import wire

if wire.FAULT == "crash":
    print("about to crash", file=sys.stderr, flush=True)
    os.abort()


class TransferEngine:
    def initialize(self, host: str, metadata: str, protocol: str, device: str) -> int:
        if (host, metadata, protocol, device) != ("127.0.0.1", "P2PHANDSHAKE", "tcp", ""):
            return -1
        print("a package may print what it likes")
        self._target = wire.Target()
        self._target.start_thread()
        self._peers: dict[str, wire.Initiator] = {}
        return 0

    def register_memory(self, address: int, size: int) -> int:
        return 0

    def get_rpc_port(self) -> int:
        return self._target.port

    def transfer_sync_write(self, peer: str, ours: int, theirs: int, length: int) -> int:
        return self._move("write", peer, [ours], [theirs], [length])

    def transfer_sync_read(self, peer: str, ours: int, theirs: int, length: int) -> int:
        return self._move("read", peer, [ours], [theirs], [length])

    def batch_transfer_sync_write(
        self, peer: str, ours: list[int], theirs: list[int], lengths: list[int]
    ) -> int:
        return self._move("write", peer, ours, theirs, lengths)

    def batch_transfer_sync_read(
        self, peer: str, ours: list[int], theirs: list[int], lengths: list[int]
    ) -> int:
        return self._move("read", peer, ours, theirs, lengths)

    def _move(
        self, op: str, peer: str, ours: list[int], theirs: list[int], lengths: list[int]
    ) -> int:
        if wire.FAULT == "refuse":
            return -7
        if peer not in self._peers:
            self._peers[peer] = wire.Initiator(int(peer.rpartition(":")[2]))
        for each in zip(ours, theirs, lengths, strict=True):
            self._peers[peer].move(op, *each)
        return 0

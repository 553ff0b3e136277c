"""The bytes of frames that travel over wires, right or wrong. _core/frame.h draws them. Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["ANSWER", "ANSWER_MAGIC", "REQUEST", "REQUEST_MAGIC", "answer", "request"]

REQUEST_MAGIC = int.from_bytes(b"KVFQ", "little")
ANSWER_MAGIC = int.from_bytes(b"KVFA", "little")

REQUEST = struct.Struct("<IIQIIQ")  # magic, op, tag, run, pieces, bytes
ANSWER = struct.Struct("<IIQIIQQ")  # magic, status, tag, verdict, side, address, bytes


def request(op: int, places: Sequence[tuple[int, int]], **changed: int) -> bytes:
    """A request's header and its places, (address, length); `changed` says what is not so."""
    fields = {
        "magic": REQUEST_MAGIC,
        "op": op,
        "tag": 0,
        "run": 1,
        "pieces": len(places),
        "bytes": sum(length for _, length in places) % (1 << 64),
        **changed,
    }
    return REQUEST.pack(*fields.values()) + b"".join(struct.pack("<QQ", *each) for each in places)


def answer(**changed: int) -> bytes:
    """The header of an answer: nothing was moved, nothing was wrong, but for what is `changed`."""
    fields = {
        "magic": ANSWER_MAGIC,
        "status": 0,
        "tag": 0,
        "verdict": 0,
        "side": 0,
        "address": 0,
        "bytes": 0,
        **changed,
    }
    return ANSWER.pack(*fields.values())

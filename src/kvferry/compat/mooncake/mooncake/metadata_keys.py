"""What a metadata service keeps, and what it answers. No socket.

A request is answered with a status and a text or value:

    GET     200 the value   404 no such key
    PUT     200             400 the key tells where somebody listens, and is taken   507 no room
    DELETE  200             404 no such key
    any     400 without a key   413 a key or value that is too long
"""

from __future__ import annotations

import threading
from typing import NamedTuple

__all__ = ["VALUE_MAX", "Answer", "Keys"]

KEY_MAX = 1024  # bytes
VALUE_MAX = 256 << 10
KEYS_MAX = 16384
TOTAL_MAX = 64 << 20  # bytes of all keys and values


class Answer(NamedTuple):
    """Of an HTTP request."""

    status: int
    body: bytes


class Keys:
    """Thread-safe; bounded in number and in bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, bytes] = {}
        self._bytes = 0

    def answer(self, method: str, key: str, value: bytes) -> Answer:
        if not key:
            return Answer(400, b"a key is required")
        if len(key) > KEY_MAX or len(value) > VALUE_MAX:
            return Answer(413, b"too long")
        with self._lock:
            if method == "GET":
                return self._get(key)
            return self._put(key, value) if method == "PUT" else self._delete(key)

    def _get(self, key: str) -> Answer:
        value = self._values.get(key)
        return _MISSING if value is None else Answer(200, value)

    def _put(self, key: str, value: bytes) -> Answer:
        old = self._values.get(key)
        if old is not None and "rpc_meta" in key.split("/"):
            return Answer(400, b"somebody listens under this name already")
        more = len(value) - len(old) if old is not None else len(key) + len(value)
        if self._bytes + more > TOTAL_MAX or (old is None and len(self._values) >= KEYS_MAX):
            return Answer(507, b"there is no room for it")
        self._values[key] = value
        self._bytes += more
        return Answer(200, b"kept")

    def _delete(self, key: str) -> Answer:
        value = self._values.pop(key, None)
        if value is None:
            return _MISSING
        self._bytes -= len(key) + len(value)
        return Answer(200, b"deleted")


_MISSING = Answer(404, b"there is no such key")

"""Calls of every kind, one after the other in several threads, each judged by what it answers."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from typing import Any

from kvferry import Error
from kvferry.store import Store
from tests.store.faults.values import LEAST, value, version_of

__all__ = ["ALL", "Load"]

ALL = ["put", "get", "get_into", "view", "remove", "put_batch", "get_batch"]

PATIENCE = 15.0
BATCH = 6
REST = 0.002  # seconds after a call that failed


class Load:
    """Reads and writes keys of all loads of the same name, from its start on until it is ended.

    kinds    of calls that it makes
    longest  values, in bytes
    """

    def __init__(
        self, store: Store, name: str, keys: int, longest: int, threads: int, kinds: list[str]
    ) -> None:
        self._store = store
        self._keys = [f"{name}-{at}" for at in range(keys)]
        self._longest = longest
        self._kinds = kinds
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ends: Counter[str] = Counter()
        self._slowest: dict[str, float] = {}
        self._wrong: list[str] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def look(self) -> dict[str, int]:
        """How often each kind of call ended how, since the last look."""
        with self._lock:
            ends, self._ends = self._ends, Counter()
            assert not self._wrong, self._wrong
        return dict(ends)

    def end(self) -> dict[str, float]:
        """Seconds of the longest call of each kind. Raises AssertionError for a wrong byte, and for
        a call that does not return."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a call does not return"
        assert not self._wrong, self._wrong
        return self._slowest

    def _run(self) -> None:
        draw = random.Random(threading.get_native_id())
        while not self._stop.is_set():
            kind = draw.choice(self._kinds)
            begin = time.monotonic()
            try:
                end = getattr(self, f"_{kind}")(draw)
            except Error as error:
                end = f"{type(error).__name__}: {error.cause}"
            except BaseException:
                with self._lock:
                    self._wrong.append(traceback.format_exc())
                return
            took = time.monotonic() - begin
            with self._lock:
                self._ends[f"{kind} {end}"] += 1
                self._slowest[kind] = max(took, self._slowest.get(kind, 0.0))
            if ":" in end:
                time.sleep(REST)

    # ---- kinds of calls ----

    def _put(self, draw: random.Random) -> str:
        key = draw.choice(self._keys)
        return self._store.put(key, self._new(draw, key)).name

    def _get(self, draw: random.Random) -> str:
        key = draw.choice(self._keys)
        return _judged(key, self._store.get(key))

    def _get_into(self, draw: random.Random) -> str:
        key, out = draw.choice(self._keys), bytearray(self._longest)
        length = self._store.get_into(key, out)
        return _judged(key, None if length is None else memoryview(out)[:length])

    def _view(self, draw: random.Random) -> str:
        key = draw.choice(self._keys)
        with self._store.view(key) as block:
            end = _judged(key, block)
            time.sleep(draw.random() * 0.004)
            return _judged(key, block) if end == "there" else end

    def _remove(self, draw: random.Random) -> str:
        return str(self._store.remove(draw.choice(self._keys)))

    def _put_batch(self, draw: random.Random) -> str:
        keys = draw.sample(self._keys, BATCH)
        results = self._store.put_batch(keys, [self._new(draw, key) for key in keys])
        return results[0].kind.value

    def _get_batch(self, draw: random.Random) -> str:
        keys = draw.sample(self._keys, BATCH)
        outs = [bytearray(self._longest) for _ in keys]
        results = self._store.get_batch_into(keys, outs)
        for key, out, answer, length in zip(keys, outs, results, results.lengths, strict=True):
            if answer.name == "FOUND":
                version_of(key, memoryview(out)[: int(length)])
        return results[0].kind.value

    def _new(self, draw: random.Random, key: str) -> bytes:
        return value(key, draw.getrandbits(48), draw.randint(LEAST, self._longest))


def _judged(key: str, found: Any) -> str:
    if found is None:
        return "absent"
    version_of(key, found)
    return "there"

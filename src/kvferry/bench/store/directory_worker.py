"""A process of a directory's bench: the directory, a node, or who asks. A line each way.

Begin           who it is; answered with its address
"count"         Counted
Fill, Ask       done: Counted
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from ... import _core
from ...engine import Engine
from ...store import Store
from ...store.directory import Service
from ...store.directory import messages as d
from ...store.directory.line import Line
from ...store.messages import column_of
from ..target import host_options

__all__ = ["Ask", "Begin", "Count", "Counted", "Fill"]

OBJECT = 64  # bytes of pool that an object takes at least
BATCH = 4096
PURPOSE = b"kvferry store"  # from which nodes make the secret of digests


class Begin(msgspec.Struct, frozen=True):
    """role       directory, node or user
    address    to listen at, or that of the directory to ask
    keys       of a node: so many at most
    """

    role: str
    token: bytes
    listen: str
    directory: str = ""
    keys: int = 0


class Fill(msgspec.Struct, frozen=True, tag="fill"):
    """Put keys first, first + 1, ..."""

    first: int
    count: int


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Look up keys below `of`, in any order, a batch at a time."""

    batch: int
    of: int
    seconds: float


class Count(msgspec.Struct, frozen=True, tag="count"):
    pass


class Counted(msgspec.Struct, frozen=True):
    """good: keys stored or found; cpu: seconds of processor time; resident: bytes"""

    good: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    resident: int = 0
    figures: dict[str, int] = {}


class Role(Protocol):
    def answer(self, asked: Fill | Ask | Count) -> Counted: ...
    def close(self) -> None: ...


class Keeping:
    def __init__(self, begin: Begin, engine: Engine) -> None:
        self._service = Service(engine)

    def answer(self, asked: Fill | Ask | Count) -> Counted:
        return Counted(figures=self._service.figures())

    def close(self) -> None:
        self._service.close()


class Dwelling:
    """A node, with 64 bytes a key and no value."""

    def __init__(self, begin: Begin) -> None:
        options = replace(host_options(begin.token), node_socket=None)
        size = begin.keys * OBJECT * 10 // 8 + (1 << 20)
        self._store = Store(
            options=options,
            size=size,
            objects=begin.keys,
            listen=[begin.listen],
            directory=[begin.directory],
        )

    def answer(self, asked: Fill | Ask | Count) -> Counted:
        good = 0
        if isinstance(asked, Fill):
            for first in range(asked.first, asked.first + asked.count, BATCH):
                keys = _names(first, min(BATCH, asked.first + asked.count - first))
                good += int(self._store.put_batch(keys, [b""] * len(keys)).present.sum())
        return Counted(good)

    def close(self) -> None:
        self._store.close()


class Asking:
    def __init__(self, begin: Begin, engine: Engine) -> None:
        self._line = Line(engine, [begin.directory], 10.0)
        self._secret = engine.derive(PURPOSE)

    def answer(self, asked: Fill | Ask | Count) -> Counted:
        assert isinstance(asked, Ask)
        random = np.random.default_rng(1)
        picked = random.integers(0, asked.of, (32, asked.batch))
        batches = [
            column_of(_core.digest([f"key {at}" for at in row], self._secret))
            for row in picked.tolist()
        ]
        good = asked_for = 0
        begun = time.perf_counter()
        while (spent := time.perf_counter() - begun) < asked.seconds:
            column = batches[asked_for % len(batches)]
            placed = self._line.ask(d.Lookup(column), d.Placed)
            assert isinstance(placed, d.Placed)
            places = d.places_in(placed, asked.batch)
            good += int(np.count_nonzero(places[:, 0]))
            asked_for += 1
        return Counted(good, spent, figures={"keys": asked_for * asked.batch})

    def close(self) -> None:
        pass


def _names(first: int, count: int) -> list[str]:
    return [f"key {at}" for at in range(first, first + count)]


def _resident() -> int:
    """Without what is shared with other processes."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) << 10


def main() -> None:
    begin = msgspec.json.decode(sys.stdin.buffer.readline(), type=Begin)
    asked = msgspec.json.Decoder[Fill | Ask | Count](Fill | Ask | Count)
    with ExitStack() as stack:
        role: Role
        if begin.role == "node":
            role, address = Dwelling(begin), begin.listen
        else:
            listen = [begin.listen] if begin.listen else []
            engine = stack.enter_context(Engine(*listen, options=host_options(begin.token)))
            role = Keeping(begin, engine) if begin.role == "directory" else Asking(begin, engine)
            address = engine.name
        stack.enter_context(closing(role))
        _say(address)
        for line in sys.stdin.buffer:
            told = role.answer(asked.decode(line))
            cpu = time.process_time()
            _say(msgspec.structs.replace(told, cpu=cpu, resident=_resident()))


def _say(what: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

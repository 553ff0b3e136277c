"""The target process: ``python -m kvferry.bench.target``. Owns memory and answers calls.

It reads one Job from its standard input, writes one Ready to its standard output and works until
its input ends: when whoever started it hangs up, or dies.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import BinaryIO

import msgspec

from ..config import from_environment
from ..engine import Engine
from ..errors import Error
from .sides import Here, serve_side

__all__ = ["REGION", "Job", "Ready"]

REGION = "kv"


class Job(msgspec.Struct, frozen=True):
    """How much memory, in bytes, and the secret that both engines share."""

    size: int
    token: bytes


class Ready(msgspec.Struct, frozen=True):
    """Where the engine listens; or why there is none."""

    address: str
    error: str | None = None


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    try:
        with Engine("127.0.0.1:0", options=replace(from_environment(), token=job.token)) as engine:
            serve_side(engine, Here(engine.allocate(REGION, job.size)))
            _say(sys.stdout.buffer, Ready(engine.addresses[0]))
            sys.stdin.buffer.read()
    except Error as error:
        _say(sys.stdout.buffer, Ready("", str(error)))


def _say(stream: BinaryIO, ready: Ready) -> None:
    stream.write(msgspec.json.encode(ready) + b"\n")
    stream.flush()


if __name__ == "__main__":
    main()

"""The target process: ``python -m kvferry.bench.target``. Owns memory and answers calls.

It reads one Job from its standard input, writes one Ready to its standard output and works until
its input ends: when whoever started it hangs up, or dies.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import BinaryIO

import msgspec

from ..config import Options, from_environment
from ..engine import Engine
from ..errors import Error
from .sides import Here, serve_side

__all__ = ["ANYWHERE", "REGION", "Job", "Ready", "host_options"]

REGION = "kv"
ANYWHERE = "127.0.0.1:0"


class Job(msgspec.Struct, frozen=True):
    """How much memory, in bytes, the secret that both engines share, and where to listen."""

    size: int
    token: bytes
    address: str = ANYWHERE


class Ready(msgspec.Struct, frozen=True):
    """Where the engine listens; or why there is none.

    at  nanoseconds of the monotonic clock when all was there
    """

    address: str
    error: str | None = None
    at: int = 0


def host_options(token: bytes) -> Options:
    """Of the environment, but with memory of the host: bare loops and checks look at each byte."""
    return replace(from_environment(), token=token, runtime="host")


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    try:
        with Engine(job.address, options=host_options(job.token)) as engine:
            serve_side(engine, Here(engine.allocate(REGION, job.size)))
            _say(sys.stdout.buffer, Ready(engine.addresses[0], at=time.monotonic_ns()))
            sys.stdin.buffer.read()
    except Error as error:
        _say(sys.stdout.buffer, Ready("", str(error)))


def _say(stream: BinaryIO, ready: Ready) -> None:
    stream.write(msgspec.json.encode(ready) + b"\n")
    stream.flush()


if __name__ == "__main__":
    main()

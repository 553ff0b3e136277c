"""The host's store, in a process of its own: ``kvferry node``, as anybody would start it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...bench.store.server import end_with_parent
from ...errors import PeerError

__all__ = ["Node", "open_node"]

ANYWHERE = "127.0.0.1:0"
READY = "kvferry node:"  # how much memory, " at ", where
PAGE = "page: "
END_SECONDS = 10.0


class Node(NamedTuple):
    """page: the address of its live page, with the key; "": it has none"""

    address: str
    page: str
    process: subprocess.Popen[bytes]


@contextmanager
def open_node(dram: str, *, page: bool = False) -> Iterator[Node]:
    """A store of so many bytes at an address of its own; gone when the block is left, and with this
    process. Raises PeerError when it cannot begin."""
    command = [sys.executable, "-m", "kvferry", "node"]
    command += ["--dram", dram, "--listen", ANYWHERE, "--grace", "0"]
    command += ["--http", ANYWHERE] if page else []
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    try:
        _, _, address = _said(process, READY).partition(" at ")
        yield Node(address, _said(process, PAGE) if page else "", process)
    finally:
        _end(process)


def _said(process: subprocess.Popen[bytes], what: str) -> str:
    """What stands behind this on the next line that begins with it."""
    assert process.stdout is not None
    for line in process.stdout:
        text = line.decode()
        if text.startswith(what):
            return text[len(what) :].strip()
    raise PeerError("the store's node ended before it was there", cause="node")


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()

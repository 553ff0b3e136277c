"""Starts the server that another store needs beside its client."""

from __future__ import annotations

import ctypes
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["Server", "end_with_parent", "find_program", "free_port"]

PR_SET_PDEATHSIG = 1
START_SECONDS = 20.0
END_SECONDS = 5.0
PAUSE = 0.02


class Server:
    """A process that ends with this one, whatever happens to it. `ready`: does it answer?

    Raises RuntimeError when it does not in time, or ends.
    """

    def __init__(self, command: Sequence[str], folder: str, ready: Callable[[], bool]) -> None:
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent
        )
        end = time.monotonic() + START_SECONDS
        while not ready():
            if self._process.poll() is not None or time.monotonic() > end:
                self.close()
                raise RuntimeError(f"{command[0]} does not answer")
            time.sleep(PAUSE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def find_program(name: str) -> str:
    """Beside this Python, or on the search path. Raises RuntimeError where there is none."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed")
    return found


def free_port() -> int:
    """One of loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def end_with_parent() -> None:
    """In a child, before it becomes the program: it does not outlive who started it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

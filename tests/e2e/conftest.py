"""The package mooncake for processes that the tests start, and a master for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import kvferry.compat as packages
from kvferry.bench.store.server import free_port

Start = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def env() -> dict[str, str]:
    """With which processes find the package, and those below them."""
    found = dict(os.environ)
    places = packages.places("mooncake", Path(packages.__file__).parent, Path(sys.executable))
    before = found.get("PYTHONPATH")
    found["PYTHONPATH"] = os.pathsep.join([*map(str, places.pythonpath), *filter(None, [before])])
    found["PATH"] = os.pathsep.join([*map(str, places.path), found["PATH"]])
    return found


@pytest.fixture
def start(env: dict[str, str]) -> Start:
    """A command of the package, once it has said a line, until the context is left."""

    @contextmanager
    def started(*command: str) -> Iterator[None]:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield
        finally:
            process.terminate()
            process.communicate()

    return started


@pytest.fixture
def master(start: Start) -> Iterator[str]:
    """Its address."""
    port = free_port()
    settings = f"--rpc_port={port}", f"--metrics_port={free_port()}", "--rpc_address=127.0.0.1"
    with start("mooncake_master", *settings):
        yield f"127.0.0.1:{port}"

"""Settings for tests about a node and its users."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvferry.rpc.poller import IDLE_TIME
from kvferry.store import Store
from tests.store.settings import WAYS, Setting, empty, settings, sound, warm_up


@pytest.fixture(scope="session")
def leak_grace() -> float:
    """So long an engine that other tests go on with keeps a thread which this one needed: until it
    has not been needed for a while, and looks."""
    return 2 * IDLE_TIME + 2.0


@contextmanager
def short_folder() -> Iterator[Path]:
    """Of a short name, as the address of a socket may be."""
    path = Path(tempfile.mkdtemp(prefix="kvf", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def setting(way: str, folder: Path) -> Iterator[Setting]:
    """A node of 1 MiB with a user."""
    with settings(way, folder) as made:
        yield made


@pytest.fixture(scope="module")
def kept(way: str) -> Iterator[Setting]:
    """The same for all tests of a file, which leave no objects there: see `emptied`."""
    with short_folder() as path, settings(way, path) as made:
        warm_up(made.user)
        yield made


@pytest.fixture
def emptied(kept: Setting) -> Iterator[Setting]:
    yield kept
    assert sound(kept.node) == []
    empty(kept.node)
    assert sound(kept.node) == []


@pytest.fixture
def store(setting: Setting) -> Store:
    return setting.user


@pytest.fixture
def make(way: str, folder: Path) -> Iterator[Callable[..., Setting]]:
    """Makes a setting with a node as it is asked for."""
    with ExitStack() as made:

        def make(**wanted: Any) -> Setting:
            return made.enter_context(settings(way, folder, **wanted))

        yield make

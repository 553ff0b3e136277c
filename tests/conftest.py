"""What holds for every test: directories of its own, and nothing left behind."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

# Imported here so that the threads NumPy starts are older than every test.
import numpy as np  # noqa: F401
import pytest

import kvferry
from kvferry.engine.lock_order import BELLS, ORDER
from kvferry.testing import Child, LeakCheck, LockAudit, nursery, places
from kvferry.testing import spawn as start
from kvferry.testing.under_test import VARIABLES, adopt, in_sight, on_host

# What the files of tests import, and their children with them.
IMPORTED = ["pytest", "hypothesis.stateful", "kvferry.store.user"]

# Before the tests are collected: some are about the runtime that they run on.
adopt(os.environ)

FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session", autouse=True)
def _private_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ...]]:
    """Runtime, state and temporary files in folders of this run; yields those that must stay empty.

    Nothing here touches the user's own token or sockets, and a run does not see another run.
    """
    folders = {name: tmp_path_factory.mktemp(name, numbered=False) for name in ("run", "tmp")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state", numbered=False)))
        patch.setenv("XDG_RUNTIME_DIR", str(folders["run"]))
        patch.setenv("TMPDIR", str(folders["tmp"]))
        patch.setattr(tempfile, "tempdir", str(folders["tmp"]))
        for variable in [name for name in os.environ if name.startswith("KVFERRY_")]:
            if variable not in VARIABLES:
                patch.delenv(variable)
        yield tuple(folders.values())


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """Who runs the suite in the background of a shell has SIGINT ignored, and so would children."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def _nursery(_private_folders: tuple[Path, ...], _interruptible: None) -> Iterator[None]:
    """Most children spend more on what they import than on what they are for."""
    with nursery.opened(IMPORTED):
        yield


@pytest.fixture(scope="session", autouse=True)
def _runtime_under_test(_private_folders: tuple[Path, ...]) -> None:
    """A device library starts threads and sockets of its own, which stay: before any test."""
    if on_host():
        return
    with kvferry.Engine("127.0.0.1:0") as owner, kvferry.Engine() as importer:
        owner.allocate("first", 1)
        importer.connect(owner.addresses[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skipped = {"host_memory": not on_host(), "memory_in_sight": not in_sight()}
    for item in items:
        for mark in item.iter_markers():
            if skipped.get(mark.name):
                item.add_marker(pytest.mark.skip(reason=f"{mark.name}: {mark.args[0]}"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is imported here stays: collections of garbage, asked for or not, pass it by."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def leak_grace() -> float:
    """Seconds for what ends by itself, such as the last moments of a joined thread."""
    return 2.0


@pytest.fixture(autouse=True)
def _leaves_nothing(
    request: pytest.FixtureRequest, _private_folders: tuple[Path, ...], leak_grace: float
) -> Iterator[None]:
    """Fails a test that leaves something behind. Set up first, so checked after all other fixtures.

    A test that failed already is not checked: its traceback keeps alive what it held.
    """
    check = LeakCheck(folders=_private_folders, grace=leak_grace)
    check.__enter__()
    yield
    if not request.node.stash.get(FAILED, False):
        check.__exit__(None, None, None)


@pytest.fixture
def lock_audit() -> Iterator[LockAudit]:
    """Fails a test in which a lock is taken out of order, or something blocks under one."""
    audit = LockAudit(places(ORDER), BELLS)
    with audit.on():
        yield audit
    assert not audit.complaints, "\n".join(audit.complaints)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    """`kvferry.testing.spawn`, whose children do not outlive the test."""
    with ExitStack() as children:

        def start_and_keep(function: Callable[..., Any], *args: Any) -> Child:
            return children.enter_context(start(function, *args))

        yield start_and_keep

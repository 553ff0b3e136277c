"""What a forked child may do with its parent's engines: nothing, safely."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable

import pytest

import kvferry as kf
from kvferry.testing.under_test import on_host

from .conftest import MIB, Pair
from .window import window

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


def in_child(body: Callable[[], None]) -> int:
    """The wait status of a forked child that runs `body`; 0 when it returned."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


@pytest.fixture
def earlier() -> set[str]:
    """What is open before there are engines: a device's library keeps some of its own."""
    return _sockets_and_memory()


def test_calls_in_a_child_raise_and_descriptors_are_closed(earlier: set[str], pair: Pair) -> None:
    batch = pair.batch(4096)
    pair.ours._copies.hold(True)
    flying = pair.peer.write_async(pair.batch(MIB))
    inherited = _sockets_and_memory() - earlier
    assert inherited

    def body() -> None:
        for call in (
            lambda: pair.peer.write(batch),
            lambda: pair.peer.call("x", b""),
            lambda: pair.ours.allocate("x", 4096),
            lambda: pair.theirs.unregister(pair.far),
            lambda: flying.wait(1),
            lambda: flying.cancel(),
            lambda: flying.status,
            lambda: asyncio.run(waiting(flying)),
        ):
            with pytest.raises(kf.ForkedError):
                call()
        assert not _sockets_and_memory() & inherited
        pair.peer.close()
        pair.ours.close()
        pair.theirs.close()

    assert in_child(body) == 0
    pair.ours._copies.hold(False)
    flying.wait(10)
    pair.peer.write(batch)
    assert pair.peer.regions["kv"].length == 16 * MIB


def test_a_child_of_a_child_closes_nothing_of_its_parents(pair: Pair) -> None:
    def body() -> None:
        with open("/dev/null") as file:  # takes a number that an engine had
            assert in_child(lambda: os.fstat(file.fileno())) == 0

    assert in_child(body) == 0


@pytest.mark.host_memory("whether a child sees a device's is its library's business")
def test_touching_an_inherited_pool_is_a_fault(pair: Pair) -> None:
    view = pair.here()

    def body() -> None:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        view[0]

    status = in_child(body)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGSEGV


async def waiting(transfer: kf.Transfer) -> kf.Report:
    return await transfer


@pytest.mark.skipif(on_host(), reason="a library that may not be used in a child is a device's")
def test_a_child_gets_no_engine_on_a_device_of_its_parents(pair: Pair) -> None:
    def body() -> None:
        with pytest.raises(kf.ForkedError):
            kf.Engine()

    assert in_child(body) == 0
    pair.peer.write(pair.batch(MIB))


@pytest.mark.host_memory("a device's library forbids its use in a forked child")
def test_a_child_may_make_engines_of_its_own(pair: Pair) -> None:
    address = pair.theirs.addresses[0]

    def body() -> None:
        with kf.Engine() as engine:
            pool = engine.allocate("pool", MIB)
            window(pool)[:] = 9
            peer = engine.connect(address)
            peer.write(kf.Batch.of(pool, peer.regions["kv"]))

    assert in_child(body) == 0
    assert (pair.there()[:MIB] == 9).all()


def _sockets_and_memory() -> set[str]:
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith(("socket:", "/memfd:kvferry", "anon_inode:[eventpoll]")):
            found.add(target)
    return found

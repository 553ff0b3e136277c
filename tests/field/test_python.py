"""Python as users of other engines met it: interrupts, the GIL, threads, event loops, memory."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

import kvferry as kf
from kvferry.testing import Child, Parent
from kvferry.testing import spawn as start

MIB = 1 << 20
SIZE = 4 * MIB

Spawn = Callable[..., Child]
T = TypeVar("T")


def serve(parent: Parent) -> None:
    """A target; whatever it is told, it holds its GIL for two seconds."""
    with kf.Engine("127.0.0.1:0") as engine:
        np.frombuffer(engine.allocate("kv", SIZE), np.uint8)[:] = 5
        engine.allocate("scratch", MIB)
        engine.serve("echo", bytes)
        engine.serve("slow", lambda request: time.sleep(2) or request)
        parent.tell(engine.addresses[0])
        for _ in parent:
            parent.tell("holding")
            ctypes.PyDLL(None).usleep(2_000_000)  # which keeps the GIL
            parent.tell("free")


@pytest.fixture(scope="module")
def target(_private_folders: object) -> Iterator[tuple[Child, str]]:
    with start(serve) as child:
        yield child, child.hear()


@pytest.fixture
def engine() -> Iterator[kf.Engine]:
    with kf.Engine() as engine:
        yield engine


# ---- P1 ----


def wait(parent: Parent, address: str, what: str) -> str:
    """In the main thread, until it is interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever was inherited
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with kf.Engine() as engine:
        peer = engine.connect(address, path="tcp/host" if what == "put" else "fabric/host")
        batch = kf.Batch.of(bytearray(b"\x05" * SIZE), peer.regions["kv"])
        waits = {
            "put": lambda: peer.write(batch),
            "get": lambda: peer.read(batch),
            "call": lambda: peer.call("slow", b"", timeout=60),
            "idle": lambda: engine.notifications(None),
        }
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
        try:
            parent.tell("waiting")
            while True:
                waits[what]()
        except KeyboardInterrupt:
            assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    return "interrupted"


@pytest.mark.parametrize("what", ["put", "get", "call", "idle"])
def test_an_interrupt_ends_what_the_main_thread_waits_for(
    spawn: Spawn, target: tuple[Child, str], what: str
) -> None:
    child = spawn(wait, target[1], what)
    assert child.hear() == "waiting"
    start = time.monotonic()
    os.kill(child.pid, signal.SIGINT)
    assert child.result() == "interrupted"
    assert time.monotonic() - start < 4  # 2 on a machine with time for it


# ---- P2 ----


@pytest.mark.parametrize("path", ["tcp/host", "cma/host", "fabric/host"])
def test_peers_go_on_while_a_thread_holds_the_gil(
    engine: kf.Engine, target: tuple[Child, str], path: str
) -> None:
    child, address = target
    peer = engine.connect(address, path=path)
    ours = np.zeros(MIB, np.uint8)
    batch = kf.Batch.of(ours, peer.regions["kv"], length=MIB)
    peer.read(batch)
    assert child.ask("hold") == "holding"
    start = time.monotonic()
    for _ in range(5):
        ours[:] = 0
        peer.read(batch, timeout=20)
        assert (ours == 5).all()
    assert time.monotonic() - start < 1.9  # none of them waited for the GIL to come back
    assert child.hear() == "free"


# ---- P3 ----


def test_many_threads_on_one_channel_get_their_own_answers(
    engine: kf.Engine, target: tuple[Child, str]
) -> None:
    peer = engine.connect(target[1], path="tcp/host")
    remote = peer.regions["scratch"]
    wrong: list[object] = []

    def work(number: int) -> None:
        dice = np.random.default_rng(number)
        at = number * 4096
        try:
            for _ in range(20):
                said = dice.bytes(int(dice.integers(1, 100_000)))
                assert peer.call("echo", said) == said
                ours = np.frombuffer(dice.bytes(4096), np.uint8)
                peer.write(kf.Batch.of(ours, remote, length=4096, remote_offset=at))
                back = np.zeros(4096, np.uint8)
                peer.read(kf.Batch.of(back, remote, length=4096, remote_offset=at))
                assert (back == ours).all()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- P5, P6, P7 ----


async def waiting(work: Awaitable[T]) -> T:
    return await work


def test_no_task_is_pending_after_close_in_debug_mode(
    engine: kf.Engine, target: tuple[Child, str], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        peer = engine.connect(target[1])
        batch = kf.Batch.of(bytearray(b"\x05" * SIZE), peer.regions["kv"])
        await asyncio.gather(*(waiting(peer.read_async(batch)) for _ in range(10)))
        left = [asyncio.ensure_future(waiting(peer.read_async(batch))) for _ in range(10)]
        left[0].cancel()
        await asyncio.sleep(0)
        engine.close()
        await asyncio.gather(*left, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main(), debug=True)
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


@pytest.mark.parametrize("path", ["fabric/host", "cma/host", "tcp/host/bounce"])
def test_cancelled_at_any_point_the_next_read_is_right_and_pools_are_whole(
    engine: kf.Engine, target: tuple[Child, str], path: str
) -> None:
    peer = engine.connect(target[1], path=path, bounce="2:1" if "bounce" in path else None)
    ours = np.zeros(SIZE, np.uint8)
    batch = kf.Batch.of(ours, peer.regions["kv"])
    dice = random.Random(1)

    async def cancelled(steps: int) -> None:
        task = asyncio.ensure_future(waiting(peer.read_async(batch)))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    async def main() -> None:
        for _ in range(40):
            await cancelled(dice.randrange(12))
            ours[:] = 0
            await peer.read_async(batch)
            assert (ours == 5).all()
        # Each of them holds a slot, and over the pool needs a buffer of it.
        await asyncio.gather(*(waiting(peer.read_async(batch)) for _ in range(4)))

    asyncio.run(main())
    peer.settle_quiet_ones()
    assert not peer._flying


def test_many_awaits_take_no_threads(engine: kf.Engine, target: tuple[Child, str]) -> None:
    peer = engine.connect(target[1], path="fabric/host")
    buffers = [bytearray(MIB) for _ in range(8)]
    batches = [kf.Batch.of(each, peer.regions["kv"], length=MIB) for each in buffers]

    async def main() -> int:
        await peer.read_async(batches[0])
        before = threads()
        most = before
        for _ in range(10):
            flying = [asyncio.ensure_future(waiting(peer.read_async(each))) for each in batches]
            await asyncio.sleep(0)
            most = max(most, threads())
            await asyncio.gather(*flying)
        return most - before

    assert asyncio.run(main()) <= 2
    assert all(each == bytes([5]) * MIB for each in buffers)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


# ---- P9 ----


@pytest.mark.parametrize("path", ["fabric/inline", "fabric/host", "tcp/host"])
def test_memory_is_flat_over_very_many_transfers(
    engine: kf.Engine, target: tuple[Child, str], path: str
) -> None:
    peer = engine.connect(target[1], path=path)
    ours = bytearray(256)
    remote = peer.regions["kv"]

    def move(times: int) -> None:
        for _ in range(times):
            peer.read(kf.Batch.of(ours, remote, length=256))

    move(500)
    gc.collect()
    before = resident()
    move(3000)
    gc.collect()
    assert resident() - before < MIB
    assert ours == bytes([5]) * 256


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

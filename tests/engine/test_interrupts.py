"""A signal handler that raises, wherever it strikes: nothing lands late, nothing hangs after."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import kvferry as kf

from .conftest import MIB, Pair

# A handler that strikes in a finaliser is not obeyed: Python says so, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Strike(Exception):
    """Raised by the handler."""


@pytest.fixture(autouse=True)
def _audited() -> None:
    """Not here: a watched lock is taken in several steps, and the handler strikes between them."""


@pytest.fixture
def strikes() -> Iterator[None]:
    def strike(*_: object) -> None:
        raise Strike

    before = signal.signal(signal.SIGALRM, strike)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def strike_in(microseconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)


@pytest.mark.parametrize("streams", [1, 2])
def test_nothing_lands_after_an_interrupted_read(pair: Pair, strikes: None, streams: int) -> None:
    pair.there()[:] = 7
    peer = pair.ours.connect(
        pair.theirs.addresses[0], path="fabric/host", streams=streams, inline_below=0
    )
    buffer = np.zeros(4 * MIB, np.uint8)
    batch = kf.Batch.of(buffer, peer.regions["kv"])
    interrupted = 0
    for turn in range(150):
        buffer[:] = 0
        try:
            strike_in(20 + 7 * turn)
            peer.read(batch)
            strike_in(0)
            strike_in(0)  # a signal that came in the call before strikes here, not later
        except Strike:
            interrupted += 1
        seen = buffer.copy()
        assert not any(not each.done.quiet for each in list(peer._flying))
        time.sleep(0.0005)
        assert np.array_equal(seen, buffer)
    assert interrupted
    assert peer.read(batch, timeout=10).bytes == 4 * MIB
    begin = time.monotonic()
    peer.close()
    assert time.monotonic() - begin < 5
    assert pair.ours._channels.slots.take(8)


def test_after_an_interrupted_call_the_next_connect_works(pair: Pair, strikes: None) -> None:
    pair.theirs.serve("echo", lambda request: request)
    address = pair.theirs.addresses[0]
    for turn in range(40):
        peer = pair.ours.connect(address, path="fabric/inline")
        try:
            strike_in(30 + 10 * turn)
            assert peer.call("echo", b"x", timeout=5) == b"x"
            strike_in(0)
        except (Strike, kf.Error):
            strike_in(0)
    assert pair.ours.connect(address, path="fabric/inline").call("echo", b"y", timeout=5) == b"y"


def test_closing_is_taken_up_again(strikes: None) -> None:
    engine = kf.Engine("127.0.0.1:0")
    engine.serve("slow", lambda request: time.sleep(0.3) or request)
    with kf.Engine() as other:
        peer = other.connect(engine.addresses[0])

        def call() -> None:
            with contextlib.suppress(kf.Error):
                peer.call("slow", b"")

        caller = threading.Thread(target=call)
        caller.start()
        time.sleep(0.1)
        strike_in(50_000)
        with pytest.raises(Strike):
            engine.close()
        engine.close()
        caller.join(10)
    assert not engine._front._sockets


@pytest.mark.parametrize(
    "ending", ["sys.exit(3)", "raise SystemExit(3)", "del engine, peer, pool; sys.exit(3)"]
)
def test_leaving_the_interpreter_with_copies_under_way(pair: Pair, ending: str) -> None:
    script = f"""
        import sys
        import kvferry as kf
        engine = kf.Engine()
        pool = engine.allocate("pool", 16 << 20)
        peer = engine.connect({pair.theirs.addresses[0]!r}, path="fabric/host")
        for _ in range(20):
            peer.write_async(kf.Batch.of(pool, peer.regions["kv"]))
        {ending}
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=60)
    assert done.returncode == 3

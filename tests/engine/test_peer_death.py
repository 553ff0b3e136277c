"""A peer that dies, comes back, or stands still."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

import kvferry as kf
from kvferry.engine import connect
from kvferry.testing import Child

from .conftest import MIB
from .target import serve
from .window import window

SIZE = 16 * MIB


@pytest.mark.parametrize("path", ["fabric/inline", "fabric/host"])
def test_a_peer_killed_before_a_write_is_unknown(spawn: Callable[..., Child], path: str) -> None:
    target = spawn(serve)
    address = target.hear()
    target.ask(["allocate", "kv", SIZE])
    with kf.Engine() as engine:
        pool = engine.allocate("pool", SIZE)
        peer = engine.connect(address, path=path)
        batch = kf.Batch.of(pool, peer.regions["kv"])
        peer.write(batch, timeout=10)
        target.kill()
        with pytest.raises(kf.PeerError) as caught:
            peer.write(batch, timeout=10)
        assert caught.value.peer == address
        assert caught.value.cause in ("peer_gone", "connection_lost")
        if caught.value.cause == "peer_gone":
            assert caught.value.bytes_moved is None
            assert not caught.value.safe_to_retry
        with pytest.raises(kf.PeerError):
            engine.connect(address)
        pool_bytes = window(pool)
        pool_bytes[:] = 1  # this process and its memory are well
        del pool_bytes


def test_a_peer_killed_in_the_middle_of_a_transfer_is_unknown(
    spawn: Callable[..., Child],
) -> None:
    target = spawn(serve)
    address = target.hear()
    target.ask(["allocate", "kv", SIZE])
    with kf.Engine() as engine:
        pool = engine.allocate("pool", SIZE)
        peer = engine.connect(address, path="fabric/host", streams=1)
        engine._copies.hold(True)
        transfer = peer.write_async(kf.Batch.of(pool, peer.regions["kv"]))
        target.kill()
        engine._copies.hold(False)
        with pytest.raises(kf.PeerError) as caught:
            transfer.wait(10)
        assert caught.value.cause == "peer_gone"
        assert transfer.status is kf.Status.UNKNOWN


def test_a_restarted_peer_is_connected_anew_and_old_handles_are_refused(
    spawn: Callable[..., Child], tmp_path: os.PathLike[str]
) -> None:
    address = f"unix://{tmp_path}/engine"
    epochs = set()
    with kf.Engine() as engine:
        pool = engine.allocate("pool", MIB)
        old = None
        for life in range(3):
            target = spawn(serve, address)
            assert target.hear() == address
            target.ask(["allocate", "kv", MIB])
            peer = engine.connect(address)
            epochs.add(peer.epoch)
            if old is not None:
                with pytest.raises(kf.ClosedError) as caught:
                    peer.write(kf.Batch.of(pool, old))
                assert caught.value.cause == "stale_region"
            old = peer.regions["kv"]
            window(pool)[:] = life + 1
            peer.write(kf.Batch.of(pool, old))
            assert target.ask(["digest", "kv", 0, MIB]) is not None
            target.kill()
            target.wait()
        deadline = time.monotonic() + 10
        while engine._channels.live():  # the lost ones let go of their mappings
            assert time.monotonic() < deadline
            time.sleep(0.001)
    assert len(epochs) == 3
    os.unlink(tmp_path / "engine")


def test_a_stopped_peer_does_not_stop_one_sided_transfers(spawn: Callable[..., Child]) -> None:
    target = spawn(serve)
    address = target.hear()
    target.ask(["allocate", "kv", MIB])
    with kf.Engine() as engine:
        pool = engine.allocate("pool", MIB)
        peer = engine.connect(address)
        batch = kf.Batch.of(pool, peer.regions["kv"])
        target.stop()
        window(pool)[:] = 3
        assert peer.write(batch, timeout=10).bytes == MIB
        with pytest.raises(kf.Timeout) as caught:
            peer.call("echo", b"hello", timeout=0.05)
        assert caught.value.cause == "call_timeout"
        target.resume()
        assert peer.call("echo", b"hello") == b"hello"
    target.result()


def test_a_dead_peer_is_known_the_moment_it_can_be_waited_for(spawn: Callable[..., Child]) -> None:
    for _ in range(10):
        target = spawn(serve)
        with kf.Engine() as engine:
            peer = engine.connect(target.hear())
            assert not peer._watch.gone()
            target.stop()
            assert not peer._watch.gone(), "it stands still, it is not gone"
            os.kill(target.pid, signal.SIGKILL)
            target.wait()
            assert peer._watch.gone()


def test_a_closed_engine_is_gone_while_its_process_lives() -> None:
    theirs = kf.Engine("127.0.0.1:0")
    with kf.Engine() as ours:
        peer = ours.connect(theirs.addresses[0])
        assert not peer._watch.gone()
        theirs.close()
        assert peer._watch.gone()


def test_without_a_pulse_the_process_and_the_connection_are_asked(
    spawn: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "map_pulse", lambda runtime, fd: os.close(fd))
    target = spawn(serve)
    with kf.Engine() as engine:
        peer = engine.connect(target.hear())
        assert peer._watch.pidfd >= 0
        assert not peer._watch.gone()
        os.kill(target.pid, signal.SIGKILL)
        target.wait()
        assert peer._watch.gone()

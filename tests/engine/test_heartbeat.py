"""Peers that fall silent, hold their interpreter, register for long, or say what is no beat."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import kvferry as kf
from kvferry import Liveness, _core
from kvferry.address import parse
from kvferry.engine import connect
from kvferry.engine.messages import BEAT
from kvferry.rpc.workers import MAX_WORKERS
from kvferry.testing import Child

from .conftest import MIB
from .quick import (
    BEAT_SECONDS,
    DEAD_AFTER,
    pattern,
    quick,
    register_for,
    serve_quickly,
    write_then_hold,
)
from .window import window


def until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def target() -> Iterator[kf.Engine]:
    with kf.Engine("127.0.0.1:0", options=quick()) as engine:
        engine.allocate("kv", MIB)
        yield engine


@pytest.mark.parametrize(
    "seconds", [DEAD_AFTER + 1.5, pytest.param(30.0, marks=pytest.mark.slow)], ids=str
)
def test_who_holds_its_interpreter_in_c_lives(spawn: Callable[..., Child], seconds: float) -> None:
    """Both ways at once, and one that registers all the while."""
    held = spawn(serve_quickly)
    address = held.hear()
    with kf.Engine("127.0.0.1:0", options=quick()) as engine:
        region = engine.allocate("kv", MIB)
        other = engine.allocate("other", MIB)
        peer = engine.connect(address)
        far = peer.regions["kv"]
        holder = spawn(write_then_hold, engine.addresses[0], seconds)
        busy = spawn(register_for, engine.addresses[0], seconds)
        assert [holder.hear(), busy.hear(), held.ask(seconds)] == ["now"] * 3
        end = time.monotonic() + seconds - 0.5
        moved = 0
        while time.monotonic() < end:
            peer.write(kf.Batch.of(np.full(MIB, 5, np.uint8), far), timeout=5)
            assert peer.liveness is not Liveness.DEAD
            moved += 1
            time.sleep(0.005)  # more of them would show no more
        assert moved > 100
        inbounds, first = held.hear(timeout=40)
        assert (inbounds, first) == (1, "05050505")
        assert holder.result(timeout=40) == busy.result(timeout=40) == "alive"
        assert not peer.closed
        assert np.array_equal(window(region), pattern(MIB))
        assert window(other).all()


def test_a_silent_peer_is_suspected_then_dead_and_can_be_met_again(
    target: kf.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with kf.Engine(options=quick()) as engine:
        peer = engine.connect(target.addresses[0])
        assert peer.liveness is Liveness.ALIVE
        target._heartbeats.mute(True)
        until(lambda: peer.liveness is Liveness.SUSPECT)
        peer.write(kf.Batch.of(np.ones(MIB, np.uint8), peer.regions["kv"]))  # is no verdict
        target._heartbeats.mute(False)
        until(lambda: peer.liveness is Liveness.ALIVE)
        target._heartbeats.mute(True)
        until(lambda: peer.closed)
        assert peer.liveness is Liveness.DEAD
        with pytest.raises(kf.PeerError, match="silent for 3 s") as caught:
            peer.write(kf.Batch.of(np.ones(MIB, np.uint8), peer.regions["kv"]))
        assert (caught.value.cause, caught.value.peer) == ("silent", target.addresses[0])
        until(lambda: not target._front._inbounds)
        target._heartbeats.mute(False)
        again = engine.connect(target.addresses[0])
        again.write(kf.Batch.of(np.ones(MIB, np.uint8), again.regions["kv"]))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line.partition("is ")[2] for line in lines if " is " in line] == [
        "suspected: silent for 1 s",
        "heard again",
        "suspected: silent for 1 s",
    ]


def test_a_silent_initiator_is_hung_up_on(target: kf.Engine) -> None:
    with kf.Engine(options=quick()) as engine, kf.Engine(options=quick()) as other:
        peer, bystander = (each.connect(target.addresses[0]) for each in (engine, other))
        engine._heartbeats.mute(True)
        until(lambda: len(target._front._inbounds) == 1)
        until(lambda: peer.closed)
        bystander.write(kf.Batch.of(np.ones(MIB, np.uint8), bystander.regions["kv"]))
        assert bystander.liveness is Liveness.ALIVE


def test_a_self_connection_obeys_the_same_rules() -> None:
    with kf.Engine("127.0.0.1:0", options=quick()) as engine:
        engine.allocate("kv", MIB)
        peer = engine.connect(engine.addresses[0])
        engine._heartbeats.mute(True)
        until(lambda: peer.closed)
        with pytest.raises(kf.PeerError):
            peer.write(kf.Batch.of(np.ones(MIB, np.uint8), engine.regions["kv"]))
        engine._heartbeats.mute(False)
        assert engine.connect(engine.addresses[0]).liveness is Liveness.ALIVE


def test_a_stopped_peer_dies_and_a_transfer_that_waits_for_it_is_told(
    spawn: Callable[..., Child],
) -> None:
    child = spawn(serve_quickly)
    address = child.hear()
    with kf.Engine(options=quick()) as engine:
        peer = engine.connect(address, path="tcp/host")
        batch = kf.Batch.of(np.ones(MIB, np.uint8), peer.regions["kv"])
        peer.write(batch)
        child.stop()
        transfer = peer.write_async(batch)
        with pytest.raises(kf.PeerError) as caught:
            transfer.wait()  # no timeout: only the verdict ends it
        assert caught.value.cause == "silent"
        assert caught.value.bytes_moved is None
        assert not caught.value.safe_to_retry
        child.resume()
        again = engine.connect(address, path="tcp/host", timeout=10)
        again.write(kf.Batch.of(np.full(MIB, 3, np.uint8), again.regions["kv"]))
        child.tell(0)
        assert child.hear() == "now"
        assert child.hear()[1] == "03030303"


def test_a_peer_that_every_worker_waits_for_dies(spawn: Callable[..., Child]) -> None:
    """Only the verdict ends what they wait for, so it must not need one of them."""
    child = spawn(serve_quickly)
    count = MAX_WORKERS + 6
    with kf.Engine("127.0.0.1:0", options=quick()) as engine, kf.Engine() as caller:
        peer = engine.connect(child.hear(), path="tcp/host")
        batch = kf.Batch.of(np.ones(MIB // 16, np.uint8), peer.regions["kv"])
        peer._ways[0]._slots.warm(count)  # type: ignore[attr-defined]

        def fetch(_: bytes) -> bytes:
            try:
                peer.read(batch)
            except kf.PeerError as error:
                return error.cause.encode()
            return b""

        engine.serve("fetch", fetch)
        channel = caller.connect(engine.addresses[0])
        child.stop()
        with ThreadPoolExecutor(count) as threads:
            calls = [threads.submit(channel.call, "fetch", b"", 20) for _ in range(count)]
            causes = {call.result() for call in calls}
        child.resume()
        assert causes == {b"silent"}


@pytest.fixture
def by_hand(target: kf.Engine) -> Iterator[tuple[connect.Met, socket.socket]]:
    """A control connection to the target, and one for beats that this test sends."""
    with kf.Engine(options=quick()) as engine:
        us = connect.Identity(engine.name, engine.facts, engine._token)
        there = parse(target.addresses[0])
        met = connect.meet(
            us, there, engine._poller, engine._runtime, time.monotonic() + 5, call_timeout=5
        )
        with (
            contextlib.closing(met.control),
            dial(engine, target, met.control.ticket, met.facts.epoch) as sock,
        ):
            yield met, sock


def dial(engine: kf.Engine, target: kf.Engine, ticket: bytes, epoch: int) -> socket.socket:
    us = connect.Identity(engine.name, engine.facts, engine._token)
    there = parse(target.addresses[0])
    return connect.dial_again(us, there, BEAT, ticket, epoch, engine._poller, 5)


def test_a_second_connection_for_beats_is_refused(target: kf.Engine) -> None:
    with kf.Engine(options=quick()) as engine:
        peer = engine.connect(target.addresses[0])
        until(lambda: all(inbound.heartbeat for inbound in target._front._inbounds))
        (inbound,) = target._front._inbounds
        with pytest.raises(kf.PeerError, match="has beats already"):
            dial(engine, target, inbound.ticket, engine.epoch)
        peer.write(kf.Batch.of(np.ones(MIB, np.uint8), peer.regions["kv"]))


def test_beats_are_single_bytes_and_answered_after_the_first(
    by_hand: tuple[connect.Met, socket.socket],
) -> None:
    met, sock = by_hand
    sock.settimeout(5 * BEAT_SECONDS)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    for _ in range(3):
        sock.send(_core.BEAT)
        assert sock.recv(1) == _core.BEAT
    assert met.connection.lost is None


@pytest.mark.parametrize("said", [b"KKK\x00", b"\x80\x04.", bytes(1 << 16), b""], ids=repr)
def test_what_is_no_beat_ends_that_channel_alone(
    target: kf.Engine, by_hand: tuple[connect.Met, socket.socket], said: bytes
) -> None:
    met, sock = by_hand
    with kf.Engine(options=quick()) as other:
        bystander = other.connect(target.addresses[0])
        if said:
            sock.sendall(said)
        else:
            sock.shutdown(socket.SHUT_RDWR)
        until(lambda: met.connection.lost is not None)
        bystander.write(kf.Batch.of(np.ones(MIB, np.uint8), bystander.regions["kv"]))
        assert bystander.liveness is Liveness.ALIVE


def test_a_flood_of_beats_is_a_living_peer(
    target: kf.Engine, by_hand: tuple[connect.Met, socket.socket]
) -> None:
    met, sock = by_hand
    sock.setblocking(False)
    end = time.monotonic() + DEAD_AFTER / 3
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock.send(_core.BEAT * 65536)
        time.sleep(0.01)
    assert met.connection.lost is None


class Hasty:
    """Beats of which all news is told before who begins one knows its number."""

    def __init__(self, real: _core.Beats) -> None:
        self._real = real
        self._told = threading.Event()

    def add(self, *line: Any) -> tuple[int, int]:
        added = self._real.add(*line)
        self._told.wait(4 * BEAT_SECONDS)
        return added

    def news(self) -> list[tuple[int, int]]:
        news = self._real.news()
        self._told.set()
        return news

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_who_hangs_up_at_once_is_dead(target: kf.Engine) -> None:
    heartbeats = target._heartbeats
    with kf.Engine(options=quick()) as engine:
        peer = engine.connect(target.addresses[0])  # so that workers are there
        heartbeats._beats = Hasty(heartbeats._beats)  # type: ignore[assignment]
        here, there = socket.socketpair()
        there.close()
        dead: list[kf.PeerError] = []
        heartbeat = heartbeats.begin(here, "hasty", BEAT_SECONDS, dead.append, called=True)
        until(lambda: len(dead) == 1)
        assert dead[0].cause == "connection_lost"
        heartbeat.close()
        assert peer.liveness is Liveness.ALIVE


def test_who_never_beats_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that proved itself, and then stood still before it began to beat."""
    now = time.monotonic()
    with kf.Engine("127.0.0.1:0", options=quick()) as theirs, kf.Engine(options=quick()) as ours:
        monkeypatch.setattr(ours._channels, "_beat", lambda *_: None)
        peer = ours.connect(theirs.addresses[0])
        assert not peer.closed
        theirs._poller._clock = lambda: now + 60
        theirs._poller.submit(lambda: None)  # somebody looks at the deadlines
        until(lambda: peer.closed)
        assert not theirs._front._inbounds

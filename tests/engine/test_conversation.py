"""Calls, notifications, regions that come and go, one channel a peer."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable

import numpy as np
import pytest

import kvferry as kf
from kvferry.testing import Child
from kvferry.testing.under_test import in_sight

from .conftest import MIB, Pair
from .target import connect_and_wait, pattern, serve
from .window import window


@pytest.fixture
def remote(spawn: Callable[..., Child]) -> tuple[Child, str]:
    target = spawn(serve)
    return target, target.hear()


def test_calls(remote: tuple[Child, str]) -> None:
    _, address = remote
    with kf.Engine() as engine:
        peer = engine.connect(address)
        assert peer.call("echo", b"") == b""
        large = pattern(1, 4 * MIB).tobytes()
        assert peer.call("echo", large) == large
        with pytest.raises(kf.UsageError, match="no service") as caught:
            peer.call("nothing", b"")
        assert caught.value.cause == "no_service"
        with pytest.raises(kf.PeerError, match="on purpose") as failed:
            peer.call("fail", b"")
        assert failed.value.cause == "call_failed"


def test_two_engines_that_call_each_other_from_their_handlers(pair: Pair) -> None:
    address = pair.theirs.addresses[0]
    with kf.Engine("127.0.0.1:0") as third:
        third.serve("up", lambda request: request.upper())
        back = third.addresses[0]
        pair.theirs.serve("ask", lambda request: pair.theirs.connect(back).call("up", request))
        assert third.connect(address).call("ask", b"abc") == b"ABC"


def test_notifications_arrive_in_order_and_the_full_queue_refuses(pair: Pair) -> None:
    for number in range(4):
        pair.peer.notify("step", str(number).encode())
    with pytest.raises(kf.Full) as caught:
        pair.peer.notify("step", b"4")
    assert caught.value.cause == "queue_full"
    arrived = pair.theirs.notifications(5)
    assert [each.message for each in arrived] == [b"0", b"1", b"2", b"3"]
    assert {each.name for each in arrived} == {"step"}
    assert pair.theirs.notifications(0) == []
    pair.peer.notify("step", b"5")
    assert [each.message for each in pair.theirs.notifications(5)] == [b"5"]


def test_a_notification_comes_after_the_bytes(pair: Pair) -> None:
    pair.here()[:] = 7
    seen = []

    def receive() -> None:
        (notification,) = pair.theirs.notifications(10)
        seen.append((notification.message, bool(pair.there().all())))

    receiver = threading.Thread(target=receive)
    receiver.start()
    pair.peer.notify("done", b"1", after=[pair.peer.write_async(pair.batch(16 * MIB))])
    receiver.join()
    assert seen == [(b"1", True)]


def test_a_notification_after_a_failed_transfer_is_not_sent(pair: Pair) -> None:
    pair.ours._copies.hold(True)
    transfer = pair.peer.write_async(pair.batch(4 * MIB))
    transfer.cancel()
    pair.ours._copies.hold(False)
    with pytest.raises(kf.Cancelled):
        pair.peer.notify("done", b"1", after=[transfer])
    assert pair.theirs.notifications(0) == []


def test_regions_that_come_later_are_announced(remote: tuple[Child, str]) -> None:
    target, address = remote
    with kf.Engine() as engine:
        pool = engine.allocate("pool", MIB)
        peer = engine.connect(address)
        assert dict(peer.regions) == {}
        with pytest.raises(KeyError):
            peer.regions["kv"]
        target.ask(["allocate", "kv", MIB])
        target.ask(["fill", "kv", 1])
        peer.read(kf.Batch.of(pool, peer.regions["kv"]))
        assert np.array_equal(window(pool), pattern(1, MIB))
        target.ask(["allocate", "more", MIB])
        deadline = time.monotonic() + 10
        while "more" not in peer.regions:  # pushed, not asked for
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_more_regions_than_one_message_holds(remote: tuple[Child, str]) -> None:
    target, address = remote
    for number in range(40):
        target.ask(["allocate", f"kv{number}", 4096])
    with kf.Engine() as engine:
        peer = engine.connect(address)
        assert set(peer.regions) == {f"kv{number}" for number in range(40)}


def test_a_revoked_region_is_refused_and_its_name_can_come_again(
    remote: tuple[Child, str],
) -> None:
    target, address = remote
    target.ask(["allocate", "kv", MIB])
    with kf.Engine() as engine:
        pool = engine.allocate("pool", MIB)
        peer = engine.connect(address)
        old = kf.Batch.of(pool, peer.regions["kv"])
        peer.write(old)
        target.ask(["unregister", "kv"])  # returns when every channel is quiet
        with pytest.raises(kf.ClosedError) as caught:
            peer.write(old)
        assert caught.value.cause == "stale_region"
        assert "kv" not in peer.regions
        target.ask(["allocate", "kv", 2 * MIB])
        assert peer.regions["kv"].length == 2 * MIB
        with pytest.raises(kf.ClosedError):
            peer.write(old)


@pytest.mark.parametrize("side", ["the local region", "the remote region"])
def test_unregistering_waits_for_transfers(pair: Pair, side: str) -> None:
    engine, region = {
        "the local region": (pair.ours, pair.pool),
        "the remote region": (pair.theirs, pair.far),
    }[side]
    pair.here()[:] = 7
    seen = pair.there()
    pair.ours._copies.hold(True)
    transfer = pair.peer.write_async(pair.batch(MIB))
    worker = threading.Thread(target=engine.unregister, args=(region,))
    worker.start()
    worker.join(0.02)
    assert worker.is_alive()
    pair.ours._copies.hold(False)
    worker.join(10)
    assert not worker.is_alive()
    assert transfer.status is kf.Status.DONE
    if in_sight() or engine is pair.ours:  # who only copies cannot look any more
        assert seen[:MIB].all()


@pytest.mark.memory_in_sight("a buffer of what is not seen is not to be had")
def test_unregistered_memory_lives_until_the_last_buffer_of_it(pair: Pair) -> None:
    view = pair.there()
    pair.here()[:] = 7
    pair.peer.write(pair.batch(16 * MIB))
    pair.theirs.unregister(pair.far)
    assert view.all()
    with pytest.raises(BufferError):
        memoryview(pair.far)


def test_concurrent_connects_yield_one_channel(pair: Pair) -> None:
    found: list[kf.Channel] = []

    def connect() -> None:
        found.append(pair.ours.connect(pair.theirs.addresses[0], path="fabric/inline"))

    threads = [threading.Thread(target=connect) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert found[0] is not pair.peer
    found[0].close()
    fresh = pair.ours.connect(pair.theirs.addresses[0], path="fabric/inline")
    assert fresh is not found[0]


def test_one_peer_under_two_addresses_is_one_channel(tmp_path: object) -> None:
    with (
        kf.Engine("127.0.0.1:0", "[::1]:0", f"unix://{tmp_path}/e") as theirs,
        kf.Engine() as ours,
    ):
        channels = {id(ours.connect(address)) for address in theirs.addresses}
        assert len(theirs.addresses) == 3
        assert len(channels) == 1


@pytest.mark.memory_in_sight("loopback copies with the processor")
def test_an_engine_that_is_its_own_peer() -> None:
    with kf.Engine("127.0.0.1:0") as engine:
        a = engine.allocate("a", MIB)
        engine.allocate("b", MIB)
        peer = engine.connect(engine.addresses[0])
        assert str(peer.path) == "loopback/inline/none"
        window(a)[:] = pattern(4, MIB)
        peer.write(kf.Batch.of(a, peer.regions["b"]))
        assert zlib.crc32(engine.regions["b"].load()) == zlib.crc32(pattern(4, MIB))
        engine.unregister(engine.regions["b"])
        assert set(peer.regions) == {"a"}


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0", "localhost:0", "kv://127.0.0.1:0"])
def test_addresses_to_listen_on(listen: str) -> None:
    with kf.Engine(listen) as theirs, kf.Engine() as ours:
        theirs.allocate("kv", 4096)
        assert set(ours.connect(theirs.addresses[0]).regions) == {"kv"}
        assert set(ours.connect(f"kv://{theirs.addresses[0]}").regions) == {"kv"}


def test_foreign_regions_hide_no_own_ones(pair: Pair) -> None:
    buffers = [bytearray(64) for _ in range(40)]
    for number, buffer in enumerate(buffers):
        pair.theirs.register(f"buffer{number}", buffer)
    pair.theirs.allocate("late", 4096)
    with kf.Engine(options=pair.ours.options) as third:
        address = pair.theirs.addresses[0]
        assert set(third.connect(address, path="ubshmem").regions) == {"kv", "late"}
        assert set(third.connect(address).regions) == {"kv", "late", *pair.theirs.regions}


def test_many_takers_lose_no_notification_and_closing_wakes_them(pair: Pair) -> None:
    taken: list[bytes] = []
    ended: list[BaseException] = []

    def take() -> None:
        try:
            while True:
                taken.extend(each.message for each in pair.theirs.notifications(None))
        except kf.ClosedError as error:
            ended.append(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    sent = []
    while len(sent) < 200:
        message = str(len(sent)).encode()
        try:
            pair.peer.notify("n", message)
            sent.append(message)
        except kf.Full:
            pass
    pair.theirs.close()
    for thread in threads:
        thread.join(10)
    assert len(ended) == 4
    assert sorted(taken) == sorted(sent)


def test_a_notification_that_is_too_long(pair: Pair) -> None:
    with pytest.raises(kf.UsageError) as caught:
        pair.peer.notify("n", bytes((64 << 10) + 1))
    assert caught.value.cause == "too_long"


def test_a_peer_that_does_not_listen_to_news_delays_no_other(
    pair: Pair, spawn: Callable[..., Child]
) -> None:
    stopped = spawn(connect_and_wait, pair.theirs.addresses[0])
    stopped.hear()
    stopped.stop()
    regions = [pair.theirs.allocate(f"r{number}", 4096) for number in range(70)]
    pair.theirs.serve("echo", lambda request: request)
    assert pair.peer.call("echo", b"x", timeout=5) == b"x"
    assert pair.peer.regions["r69"].length == 4096
    assert len(regions) == 70
    stopped.resume()

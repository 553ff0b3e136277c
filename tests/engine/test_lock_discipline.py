"""Order of locks, what is done under them, and how submitting and disconnecting exclude each other.

The audit of conftest.py watches every test of this folder; here stands what it cannot see.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import kvferry as kf
from kvferry.engine import lock_order
from kvferry.engine.lock_order import BELLS, ORDER
from kvferry.rpc import close_all
from kvferry.testing import places
from kvferry.testing.ending import Ending
from kvferry.testing.locks import OrderedLock
from kvferry.testing.under_test import in_sight, on_host

from .conftest import MIB, Pair, over
from .test_outcomes import until

SOURCE = Path(kf.__file__).parent
UNITS = ("engine", "rpc", "submit", "link", "memory", "runtime", "batch")
PLACES = places(ORDER)
MADE = re.compile(r"^class (\w+)|self\.(\w+) = threading\.(?:Lock|RLock|Condition)\((\S*)\)", re.M)

HOST_AND_COPROCESSOR = ["fabric/host", over("tcp/host"), *(["cma/host"] if in_sight() else [])]
INLINE = ["loopback/inline", "fabric/inline", "cma/inline"] if in_sight() else ["fabric/inline"]
if on_host():
    HOST_AND_COPROCESSOR.append("fabric/coprocessor")

# What others call the locks of such an engine -> ours, or what we have in place of one.
COUNTERPARTS = {
    "engine": "Engine._closing",
    "local memory": "OwnRegions._lock",
    "connect": "_DialLock.lock",
    "channels": "Channels._lock",
    "slot pool": "SlotPool._lock",
    "remote memory": "PeerRegions._attaching",
    "control server": "Front._lock",
}


def patient_options() -> kf.Options:
    token_file = kf.config.from_environment().token_file
    return kf.Options(token_file=token_file, copy_engines=2, quiet_grace=10.0)


@pytest.fixture
def patient() -> Iterator[Pair]:
    """As `pair`, with a grace that no test outlasts."""
    options = patient_options()
    with kf.Engine("127.0.0.1:0", options=options) as theirs, kf.Engine(options=options) as ours:
        far, pool = theirs.allocate("kv", 16 * MIB), ours.allocate("pool", 16 * MIB)
        peer = ours.connect(theirs.addresses[0], path="fabric/host", streams=1, inline_below=0)
        yield Pair(ours, theirs, peer, pool, far)


class Crew:
    """Threads that end with the test."""

    def __init__(self) -> None:
        self.outcomes: list[object] = []
        self._threads: list[threading.Thread] = []

    def do(self, call: Callable[[], object]) -> threading.Thread:
        def carry_out() -> None:
            try:
                self.outcomes.append(call())
            except BaseException as error:
                self.outcomes.append(error)

        thread = threading.Thread(target=carry_out)
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self) -> list[object]:
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()
        return self.outcomes


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.join()


# ---- the table ----


def made() -> set[str]:
    """Every lock that the source makes, as Class.attribute."""
    found = set()
    for unit in UNITS:
        for file in (SOURCE / unit).rglob("*.py"):
            owner = "?"
            for name, attribute, argument in MADE.findall(file.read_text()):
                owner = name or owner
                if attribute and not argument:  # a condition over a lock is that lock
                    found.add(f"{owner}.{attribute}")
    return found


def test_every_lock_of_the_source_stands_in_the_table_and_no_other() -> None:
    assert made() == set(PLACES) | set(BELLS)


def test_the_text_names_what_is_taken_under_what() -> None:
    above, below = set(), set()
    for line in (lock_order.__doc__ or "").splitlines():
        over, arrow, under = line.partition("-->")
        if arrow:
            above.update(re.findall(r"\w+\.\w+", over))
            below.update(re.findall(r"\w+\.\w+", under))
    assert above == {row.name for row in ORDER if not row.leaf}
    assert below == {"Poller._lock", "Physicals.lock", "Device._lock", "VaSpace._lock"}
    assert PLACES["Poller._lock"].rank > PLACES["Connection._lock"].rank
    upper = ("PeerRegions._attaching", "OwnRegions._sharing", "Physicals.lock", "Device._lock")
    ranks = [PLACES[name].rank for name in upper]
    assert ranks == sorted(ranks)


def test_the_order_of_a_channel_says_the_same() -> None:
    text = " ".join((kf.engine.channel.__doc__ or "").split())
    assert "nothing of an engine is taken under them" in text
    assert PLACES["Channel._lock"].leaf


@pytest.mark.parametrize("theirs", ["local memory", "channels", "slot pool"])
def test_tables_and_pools_are_leaves(theirs: str) -> None:
    assert PLACES[COUNTERPARTS[theirs]].leaf


def test_under_remote_memory_only_a_devices_memory_is_taken() -> None:
    text = lock_order.__doc__ or ""
    assert re.findall(r"PeerRegions\._attaching +--> (.*)", text) == ["Physicals.lock"]


@pytest.mark.parametrize("theirs", ["channels", "slot pool", "remote memory", "control server"])
def test_nothing_is_sent_under_the_locks_of_tables(theirs: str) -> None:
    assert not {"*", "send", "sendmsg", "recv", "connect"} & PLACES[COUNTERPARTS[theirs]].may.keys()


# ---- row by row ----


def test_engine_one_thread_closes_at_a_time(crew: Crew) -> None:
    engine = kf.Engine("127.0.0.1:0")
    inside = threading.Event()
    go_on = threading.Event()
    closing = engine._close

    def slowly() -> object:
        inside.set()
        assert go_on.wait(10)
        return closing()

    with mock.patch.object(engine, "_close", slowly):
        crew.do(engine.close)
        assert inside.wait(10)
        second = crew.do(engine.close)
        second.join(0.05)
        assert second.is_alive(), "close returns when it is closed, whoever closes it"
        go_on.set()
        assert crew.join() == [None, None]


def test_local_memory_of_overlapping_registrations_one_wins(crew: Crew) -> None:
    buffer = np.zeros(1 << 16, np.uint8)
    with kf.Engine() as engine:
        start = threading.Barrier(8)

        def register(number: int) -> object:
            start.wait(10)
            return engine.register(f"part{number}", buffer[number : number + (1 << 15)])

        for number in range(8):
            crew.do(lambda number=number: register(number))  # type: ignore[misc]
        outcomes = crew.join()
    assert sum(isinstance(each, kf.Region) for each in outcomes) == 1
    assert sum(isinstance(each, kf.UsageError) for each in outcomes) == 7


def test_connect_and_channels_are_apart_so_a_slow_dial_delays_nobody(
    patient: Pair, crew: Crew
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, says nothing
        silent_at = f"127.0.0.1:{silent.getsockname()[1]}"
        dialling = crew.do(lambda: patient.ours.connect(silent_at, timeout=1.0))
        until(lambda: bool(patient.ours._channels._dialing))
        lock = patient.ours._channels._lock
        assert lock.acquire(timeout=0.1), "nobody holds the table while he dials"
        lock.release()
        assert patient.ours._channels.live() == [patient.peer]
        address = patient.theirs.addresses[0]
        other = patient.ours.connect(address, path="fabric/inline")
        other.close()
        assert dialling.is_alive()
        (outcome,) = crew.join()
        assert isinstance(outcome, kf.Timeout)


def test_request_routes_are_none_a_transfer_knows_its_channel(pair: Pair) -> None:
    with pair.ours.connect(pair.theirs.addresses[0], path="fabric/inline") as other:
        batch = kf.Batch.of(pair.pool, other.regions["kv"], length=4096)
        mine, others = pair.peer.read_async(pair.batch(4096)), other.read_async(batch)
        assert (mine.channel, others.channel) == (pair.peer, other)
        others.wait()
        mine.wait()


def test_records_submitting_takes_no_lock_but_that_of_the_slots(pair: Pair) -> None:
    taken: list[str] = []
    acquire = OrderedLock.acquire
    us = threading.get_ident()

    def noted(lock: OrderedLock, *args: object, **kwargs: object) -> bool:
        if threading.get_ident() == us:
            taken.append(lock.name)
        return acquire(lock, *args, **kwargs)  # type: ignore[arg-type]

    inline = pair.ours.connect(pair.theirs.addresses[0], path="fabric/inline")
    batch, inlined = pair.batch(MIB), kf.Batch.of(pair.pool, inline.regions["kv"])
    with inline, mock.patch.object(OrderedLock, "acquire", noted):
        inline.write(inlined)
        inline.read_async(inlined).wait()
        assert taken == ["SlotPool._lock"] * len(taken)
        assert not (taken and on_host()), "inline needs no stream there"
        pair.peer.write(batch)
        pair.peer.read_async(batch).wait()
        assert set(taken) == {"SlotPool._lock"}


def test_slot_pool_makes_streams_outside_its_lock(pair: Pair) -> None:
    pool = pair.ours._channels.slots
    free: list[bool] = []
    make = pool._open_stream

    def look(deadline: int | None) -> object:
        free.append(pool._lock.acquire(blocking=False))
        pool._lock.release()
        return make(deadline)

    with mock.patch.object(pool, "_open_stream", look):
        pool.give(pool.take(3))
    assert free
    assert all(free)


def test_remote_memory_a_transfer_lost_while_its_region_is_revoked_ends_the_channel(
    patient: Pair, crew: Crew
) -> None:
    """Who revokes waits for transfers and settles them; a lost one ends the channel then, which
    lets go of all regions: not under the lock that revoking takes."""
    peer = patient.ours.connect(patient.theirs.addresses[0], path=over("tcp/host"), inline_below=0)
    wires = patient.ours._tcp._wires
    wires.engines.hold(True)
    transfer = peer.write_async(kf.Batch.of(patient.pool, peer.regions["kv"]))
    until(lambda: wires.engines.held > 0)
    patient.peer.close()
    crew.do(lambda: patient.theirs.unregister(patient.far))
    until(lambda: not peer.known_regions._regions)  # withdrawn: it waits for the transfer
    for stream in list(wires._streams):
        stream.kill()
    wires.engines.hold(False)
    assert crew.join() == [None]
    until(lambda: peer.closed)
    with pytest.raises(kf.Error):
        transfer.wait()
    until(lambda: peer not in patient.ours._channels.live())


def test_control_server_a_peer_that_does_not_read_delays_neither_news_nor_the_end(
    patient: Pair,
) -> None:
    """The peer's process need not stand still: it is enough that nobody answers there."""
    with ExitStack() as undo:
        deaf = undo.enter_context(kf.Engine(options=patient.ours.options))
        lazy = deaf.connect(patient.theirs.addresses[0], path="fabric/inline")
        stuck, go_on = threading.Event(), threading.Event()
        undo.callback(go_on.set)

        def never(_: object, __: bytes, fds: list[int]) -> tuple[bytes, list[int]]:
            close_all(fds)
            stuck.set()
            go_on.wait(20)
            raise kf.PeerError("too late", cause="test")

        lazy._control._connection.serve = never
        patient.theirs.allocate("news", 4096)
        assert stuck.wait(10)
        until(lambda: "news" in patient.peer.known_regions)
        lock = patient.theirs._front._lock
        assert lock.acquire(timeout=0.1)
        lock.release()
        go_on.set()


# ---- scenarios ----


class Crowd:
    """In place of a link's submit: whoever comes stays inside until it may go on."""

    def __init__(self, channel: kf.Channel, size: int) -> None:
        self._link = channel._ways[0]
        self._submit = self._link.submit
        self.all_inside = threading.Barrier(size + 1)
        self.go_on = threading.Event()
        self._link.submit = self  # type: ignore[method-assign,assignment]

    def __call__(self, *args: object) -> object:
        self.all_inside.wait(10)
        assert self.go_on.wait(10)
        return self._submit(*args)  # type: ignore[arg-type]


def test_many_are_submitting_at_once_and_disconnect_waits_until_the_last_has_left(
    patient: Pair, crew: Crew
) -> None:
    patient.here()[:] = 7
    crowd = Crowd(patient.peer, 6)
    for number in range(6):
        batch = patient.batch(MIB, number * MIB)
        crew.do(lambda batch=batch: patient.peer.write(batch, timeout=20))  # type: ignore[misc]
    crowd.all_inside.wait(10)  # six threads are between the gate and the end of submitting
    assert patient.peer._gate.inside == 6
    closer = crew.do(patient.peer.close)
    until(lambda: patient.peer.closed)
    with pytest.raises(kf.ClosedError):
        patient.peer.write(patient.batch(MIB))
    closer.join(0.1)
    assert closer.is_alive()
    assert "kv" in patient.peer.known_regions, "still mapped"
    crowd.go_on.set()
    outcomes = crew.join()
    assert sum(isinstance(each, kf.ClosedError) for each in outcomes) == 6
    assert patient.peer._gate.inside == 0
    assert not patient.there().any(), "they were aborted before they had begun"


def test_nothing_is_unmapped_under_a_submission_that_outlasts_the_grace(
    pair: Pair, crew: Crew
) -> None:
    crowd = Crowd(pair.peer, 1)
    writer = crew.do(lambda: pair.peer.write(pair.batch(MIB), timeout=20))
    crowd.all_inside.wait(10)
    pair.peer._flying.clear()  # as if it had come through the gate and no further
    with pytest.raises(kf.NotQuiet) as caught:
        pair.peer.close()
    assert not caught.value.wait_quiet(0)
    assert "kv" in pair.peer.known_regions
    crowd.go_on.set()
    writer.join(10)
    assert caught.value.wait_quiet(10)
    assert not pair.peer.known_regions._regions


def test_two_threads_write_to_one_peer_in_parallel(pair: Pair, crew: Crew) -> None:
    pair.ours._copies.hold(True)
    for number in range(2):
        batch = pair.batch(4 * MIB, number * 4 * MIB)
        crew.do(lambda batch=batch: pair.peer.write_async(batch))  # type: ignore[misc]
    until(lambda: pair.ours._copies.held == 2)  # both are inside a chunk at the same time
    pair.ours._copies.hold(False)
    for transfer in crew.join():
        assert isinstance(transfer, kf.Transfer)
        assert transfer.wait(20).bytes == 4 * MIB


def test_transfers_are_polled_in_any_order_while_others_are_settled_and_ended(
    pair: Pair, crew: Crew
) -> None:
    transfers = [pair.peer.write_async(pair.batch(64 << 10)) for _ in range(64)]
    poll = [list(transfers), transfers[::-1], transfers[::3]]

    def look(mine: list[kf.Transfer]) -> None:
        while any(each.status is kf.Status.PENDING for each in mine):
            pass

    for mine in poll:
        crew.do(lambda mine=mine: look(mine))  # type: ignore[misc]
    pair.peer.close()
    assert crew.join() == [None] * 3
    for each in transfers:
        if each.status is not kf.Status.DONE:
            with pytest.raises(kf.ClosedError):
                each.wait()


@pytest.mark.parametrize("path", HOST_AND_COPROCESSOR)
def test_disconnect_aborts_before_it_unmaps(pair: Pair, path: str, crew: Crew) -> None:
    with ExitStack() as undo:
        ours = undo.enter_context(kf.Engine(options=pair.ours.options))
        pool = ours.allocate("kv", 16 * MIB)
        peer = ours.connect(pair.theirs.addresses[0], path=path, inline_below=0)
        copies = ours._tcp._wires.engines if path.startswith("tcp") else ours._copies
        undo.callback(copies.hold, False)
        copies.hold(True)
        batch = kf.Batch.of(pool, peer.regions["kv"])
        transfers = [peer.write_async(batch) for _ in range(3)]
        until(lambda: copies.held > 0)
        ending = Ending(peer)
        closer = crew.do(peer.close)
        until(lambda: all(each.why is not None for each in transfers))
        copies.hold(False)
        closer.join(10)
        outcomes = [each.status for each in transfers]
        assert crew.join() == [None]
        assert outcomes == [kf.Status.FAILED] * 3
        for each in transfers:
            with pytest.raises(kf.ClosedError):
                each.wait()
    in_order(ending, 3)


@pytest.mark.parametrize("path", INLINE)
def test_disconnect_waits_for_the_thread_that_copies(pair: Pair, path: str, crew: Crew) -> None:
    with kf.Engine("127.0.0.1:0", options=patient_options()) as ours:
        pool = ours.allocate("kv", MIB)
        target = ours if path.startswith("loopback") else pair.theirs
        peer = ours.connect(target.addresses[0], path=path)
        crowd = Crowd(peer, 1)
        crew.do(lambda: peer.write(kf.Batch.of(pool, peer.regions["kv"]), timeout=20))
        crowd.all_inside.wait(10)
        ending = Ending(peer)
        crew.do(peer.close)
        until(lambda: "abort" in ending.events)
        assert "detach" not in ending.events
        crowd.go_on.set()
        outcomes = crew.join()
        assert sum(isinstance(each, kf.ClosedError) for each in outcomes) == 1
    in_order(ending, 1)


def in_order(ending: Ending, transfers: int) -> None:
    assert ending.first("closed") < ending.first("abort")
    assert ending.first("abort") < ending.first("drained")
    assert ending.first("drained") < ending.first("detach")
    assert ending.last("abort") < ending.first("detach")
    assert ending.events.count("quiet") >= transfers
    assert ending.last("quiet") < ending.first("detach")
    assert ending.last("detach") < ending.first("hung up")


def test_a_channel_whose_peer_is_gone_ends_while_the_engine_is_being_closed_elsewhere(
    pair: Pair, crew: Crew
) -> None:
    """What notices it holds no lock of the engine, and waits for none."""
    with pair.ours._closing, pair.ours._services._lock:
        crew.do(pair.theirs.close)
        until(lambda: pair.peer not in list(pair.ours._channels._every))
    assert crew.join() == [None]

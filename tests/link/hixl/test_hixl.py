"""Two engines whose bytes a HIXL engine beside each of them moves, here the stand-in."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import kvferry as kf
from kvferry.link.hixl.module import MEANINGS
from kvferry.link.hixl.requests import REQUESTS_MOST
from kvferry.memory import Visitor
from tests.link.hixl import standin
from tests.link.hixl.standin import StandIn, TransferStatus

SIZE = 1 << 16
PATH = "hixl/host"

Bytes = npt.NDArray[np.uint8]


def noise(seed: int, size: int = SIZE) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def view(region: kf.Region) -> Bytes:
    return np.frombuffer(region, np.uint8)


def until(there: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(4000):
        if there():
            return
        waiting.wait(0.005)
    raise AssertionError("it never came")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    module = StandIn()
    monkeypatch.setitem(sys.modules, "hixl", module)
    yield module
    assert not module.engines


class Make:
    """Makes engines that end with the test, the last first."""

    def __init__(self, undo: ExitStack) -> None:
        self._undo = undo

    def __call__(self, *addresses: str, **options: Any) -> kf.Engine:
        token_file = kf.config.from_environment().token_file
        told = {"hixl": "1", "quiet_grace": 5.0, **options}
        engine = kf.Engine(*addresses, options=kf.Options(token_file=token_file, **told))
        return self._undo.enter_context(engine)


@pytest.fixture
def make(module: StandIn) -> Iterator[Make]:
    with ExitStack() as undo:
        yield Make(undo)


class Pair(NamedTuple):
    ours: kf.Engine
    theirs: kf.Engine
    peer: kf.Channel
    pool: kf.Region
    far: kf.Region

    def batch(self, length: int = SIZE) -> kf.Batch:
        return kf.Batch.of(self.pool, self.peer.regions["kv"], length=length)


@pytest.fixture
def pair(make: Make) -> Pair:
    theirs, ours = make("127.0.0.1:0"), make()
    far, pool = theirs.allocate("kv", SIZE), ours.allocate("pool", SIZE)
    peer = ours.connect(theirs.addresses[0], path=PATH)
    return Pair(ours, theirs, peer, pool, far)


def test_nobody_else_pays_for_it() -> None:
    code = (
        "import sys, kvferry as kf\n"
        "with kf.Engine('127.0.0.1:0') as engine: engine.allocate('kv', 4096)\n"
        "assert not [each for each in sys.modules if 'hixl' in each]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


# ---- bytes ----


def test_bytes_arrive_and_come_back(pair: Pair) -> None:
    view(pair.pool)[:] = noise(1)
    report = pair.peer.write(pair.batch(), timeout=10)
    assert np.array_equal(view(pair.far), noise(1))
    assert (str(report.path), report.bytes) == ("hixl/host/none", SIZE)
    said = {question: answer for question, answer, _ in report.answers}
    assert said["submitted by"] == "the vendor's engine"
    view(pair.far)[:] = noise(2)
    ids, back = np.random.default_rng(3).permutation(16), np.arange(16)
    blocks = kf.Batch.blocks(pair.pool, back, pair.peer.regions["kv"], ids, SIZE // 16)
    pair.peer.read_async(blocks).wait(10)
    expected = noise(2).reshape(16, -1)[ids]
    assert np.array_equal(view(pair.pool).reshape(16, -1), expected)


def test_registered_buffers_of_both_sides(pair: Pair) -> None:
    there, here = noise(4), np.zeros(SIZE, np.uint8)
    pair.theirs.register("mine", there)
    pair.ours.register("here", here)
    assert pair.peer.foreign_path == pair.peer.path
    pair.peer.read(kf.Batch.of(here, pair.peer.regions["mine"]), timeout=10)
    assert np.array_equal(here, noise(4))


def test_a_buffer_that_is_not_registered_is_refused(pair: Pair) -> None:
    there = pair.peer.regions["kv"]
    with pytest.raises(kf.UsageError, match="local side is not registered") as caught:
        pair.peer.write(kf.Batch.of(noise(1), there), timeout=10)
    assert (caught.value.cause, caught.value.index) == ("not_registered", 0)
    assert not view(pair.far).any()
    pair.peer.write(pair.batch(), timeout=10)  # the channel is as it was


# ---- what a connection shows ----


def test_later_regions_are_shown_by_another_connection_when_it_is_quiet(
    pair: Pair, module: StandIn
) -> None:
    pair.peer.write(pair.batch(), timeout=10)
    connects = module.calls.count("connect")
    pair.peer.write(pair.batch(), timeout=10)
    assert module.calls.count("connect") == connects
    late = pair.theirs.allocate("late", SIZE)
    view(pair.pool)[:] = noise(5)
    pair.peer.write(kf.Batch.of(pair.pool, pair.peer.regions["late"]), timeout=10)
    assert np.array_equal(view(late), noise(5))
    assert module.calls.count("connect") == connects + 1
    young = pair.ours.allocate("young", SIZE)
    pair.peer.read(kf.Batch.of(young, pair.peer.regions["late"]), timeout=10)
    assert np.array_equal(view(young), noise(5))
    assert module.calls.count("connect") == connects + 2


def test_while_others_are_under_way_who_needs_another_connection_waits(
    pair: Pair, module: StandIn
) -> None:
    pair.peer.write(pair.batch(), timeout=10)
    module.hold()
    first = pair.peer.write_async(pair.batch())
    late = pair.theirs.allocate("late", SIZE)
    batch = kf.Batch.of(pair.pool, pair.peer.regions["late"])
    with pytest.raises(kf.Full, match="1 transfers are under way") as full:
        pair.peer.write_async(batch)
    assert full.value.cause == "no_slot"
    with pytest.raises(kf.Timeout, match="no turn in time") as late_one:
        pair.peer.write(batch, timeout=0.05)
    assert late_one.value.bytes_moved == 0
    outcome: list[object] = []
    waiter = threading.Thread(target=lambda: outcome.append(pair.peer.write(batch, timeout=10)))
    waiter.start()
    # Newcomers queue behind it.
    until(lambda: bool(connection(pair)._waiting))
    with pytest.raises(kf.Full, match="waits for the connection"):
        pair.peer.write_async(pair.batch())
    module.release()
    first.wait(10)
    waiter.join()
    assert isinstance(outcome[0], kf.Report)
    assert np.array_equal(view(late), view(pair.pool))


def test_who_waits_for_a_turn_can_be_cancelled(pair: Pair, module: StandIn) -> None:
    pair.peer.write(pair.batch(), timeout=10)
    module.hold()
    first = pair.peer.write_async(pair.batch())
    pair.theirs.allocate("late", SIZE)
    batch = kf.Batch.of(pair.pool, pair.peer.regions["late"])
    failures: list[kf.Error] = []

    def write() -> None:
        try:
            pair.peer.write(batch, timeout=10)
        except kf.Error as error:
            failures.append(error)

    waiter = threading.Thread(target=write)
    waiter.start()
    until(lambda: bool(connection(pair)._waiting))
    (waiting,) = [each for each in pair.peer._flying if each is not first]
    waiting.cancel()
    waiter.join()
    assert isinstance(failures[0], kf.Cancelled)
    assert first.status is kf.Status.PENDING
    module.release()
    first.wait(10)


def test_no_more_at_once_than_there_are_slots(pair: Pair, module: StandIn) -> None:
    pair.peer.write(pair.batch(), timeout=10)
    module.hold()
    transfers = [pair.peer.write_async(pair.batch(64)) for _ in range(REQUESTS_MOST)]
    with pytest.raises(kf.Full, match=f"{REQUESTS_MOST} transfers are under way"):
        pair.peer.write_async(pair.batch(64))
    module.release()
    for transfer in transfers:
        transfer.wait(10)


def test_channels_to_one_peer_share_a_connection(pair: Pair, module: StandIn) -> None:
    another = pair.ours.connect(pair.theirs.addresses[0], path=PATH, streams=1)
    assert another is not pair.peer
    (engine,) = [each for each in module.engines.values() if each.connected]
    assert len(engine.connected) == 1
    pair.peer.close()
    another.write(kf.Batch.of(pair.pool, another.regions["kv"]), timeout=10)
    another.close()
    assert not engine.connected


# ---- who can use it ----


def test_only_who_asked_for_it_has_it(make: Make, module: StandIn) -> None:
    theirs, ours = make("127.0.0.1:0", hixl=None), make()
    with pytest.raises(kf.PathRefused, match="does not offer it"):
        ours.connect(theirs.addresses[0], path=PATH)
    assert len(module.engines) == 1
    other = make(hixl=None)
    with pytest.raises(kf.PathRefused, match="no such link"):
        other.connect(theirs.addresses[0], path=PATH)
    assert module.calls.count("initialize") == 1


def test_direct_ranks_it_and_auto_does_not(make: Make) -> None:
    theirs, ours = make("127.0.0.1:0"), make()
    direct = ours.connect(theirs.addresses[0], path="direct", link="hixl")
    assert str(direct.path) == "hixl/host/none"
    assert "BufferPool" in direct.rejected["hixl/host/bounce"]
    with pytest.raises(kf.UsageError, match="contradict"):
        ours.connect(theirs.addresses[0], path="auto", link="hixl")


def test_a_peer_that_asks_for_it_in_vain(pair: Pair, make: Make) -> None:
    """It names a link that exists, of an engine that has not got it."""
    plain = make("127.0.0.1:0", hixl=None)
    plain.allocate("kv", SIZE)
    links = kf.engine.regions.Links(kf.path.LinkKind.HIXL, None)
    assert plain._own.publish_after(links, pair.ours.facts, Visitor(1), 0, 9).published == []


def older() -> StandIn:
    module = StandIn()
    setattr(module, "Hixl", standin.without(module.Hixl, "disconnect"))  # noqa: B010
    return module


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (older, "it has no Hixl.disconnect"),
        (lambda: None, "cannot be imported"),
    ],
)
def test_a_module_that_cannot_be_used_is_a_reason(
    make: Make, module: StandIn, monkeypatch: pytest.MonkeyPatch, bad: Any, text: str
) -> None:
    theirs, ours = make("127.0.0.1:0"), make()
    assert theirs.facts.links["hixl"]["version"] == "present"
    monkeypatch.setitem(sys.modules, "hixl", bad())
    with pytest.raises(kf.PathRefused, match="cannot be used here") as caught:
        ours.connect(theirs.addresses[0], path=PATH)
    assert text in caught.value.rejected["hixl/host/none"]
    third = make("127.0.0.1:0")
    assert text in str(third.facts.links["hixl"]["refused"])
    monkeypatch.setitem(sys.modules, "hixl", module)
    with pytest.raises(kf.PathRefused, match="cannot be used at the peer"):
        make().connect(third.addresses[0], path=PATH)


def test_an_engine_that_does_not_initialise_is_a_reason(make: Make, module: StandIn) -> None:
    module.answer("initialize", standin.RESOURCE_EXHAUSTED)
    theirs, ours = make("127.0.0.1:0"), make()
    ours.connect(theirs.addresses[0], path="tcp/host")
    with pytest.raises(kf.PathRefused, match="203900, RESOURCE_EXHAUSTED"):
        ours.connect(theirs.addresses[0], path=PATH)


def test_a_refused_connect_is_a_reason_with_its_code(make: Make, module: StandIn) -> None:
    theirs, ours = make("127.0.0.1:0"), make()
    for status in standin.STATUSES:
        module.answer("connect", status)
        with pytest.raises(kf.PathRefused, match=str(status)) as caught:
            ours.connect(theirs.addresses[0], path=PATH)
        assert str(status) in caught.value.rejected["hixl/host/none"]
    assert str(ours.connect(theirs.addresses[0], path=PATH).path) == "hixl/host/none"


def test_both_ends_agree_on_fabric_mem(make: Make) -> None:
    theirs = make("127.0.0.1:0", hixl_options='{"EnableUseFabricMem": "1"}')
    with pytest.raises(kf.PathRefused, match="the same at both ends"):
        make().connect(theirs.addresses[0], path=PATH)


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ({"hixl": "yes"}, "hixl_name"),
        ({"hixl": "127.0.0.1:0"}, "hixl_name"),
        ({"hixl_options": "{"}, "hixl_options"),
        ({"hixl_options": '{"a": 1}'}, "hixl_options"),
    ],
)
def test_what_an_engine_cannot_be_told(make: Make, told: dict[str, str], cause: str) -> None:
    with pytest.raises(kf.UsageError) as caught:
        make(**told)
    assert caught.value.cause == cause


# ---- failures ----


def connection(pair: Pair) -> Any:
    return pair.peer._ways[0]._connection  # type: ignore[attr-defined]


def test_a_status_when_submitting(pair: Pair, module: StandIn) -> None:
    peer = pair.peer
    for status in standin.STATUSES:
        peer = pair.ours.connect(pair.theirs.addresses[0], path=PATH)
        batch = kf.Batch.of(pair.pool, peer.regions["kv"])
        peer.write(batch, timeout=10)
        module.answer("transfer_async", status)
        meaning = MEANINGS[status]
        with pytest.raises(meaning.error) as caught:
            peer.write(batch, timeout=10)
        assert (caught.value.code, caught.value.cause) == (status, meaning.cause)
        assert caught.value.bytes_moved == (0 if meaning.refused else None)
        assert caught.value.safe_to_retry is meaning.refused
        if meaning.refused:
            peer.write(batch, timeout=10)
        else:
            until(lambda: peer.closed)  # noqa: B023


def test_a_status_when_asked_for_the_outcome(pair: Pair, module: StandIn) -> None:
    for status in standin.STATUSES:
        peer = pair.ours.connect(pair.theirs.addresses[0], path=PATH)
        batch = kf.Batch.of(pair.pool, peer.regions["kv"])
        peer.write(batch, timeout=10)
        module.answer("get_transfer_status", status)
        transfer = peer.write_async(batch)
        with pytest.raises(kf.PeerError) as caught:
            transfer.wait(10)
        assert (caught.value.code, caught.value.cause) == (status, MEANINGS[status].cause)
        assert (caught.value.bytes_moved, caught.value.safe_to_retry) == (None, False)
        assert transfer.status is kf.Status.UNKNOWN
        until(lambda: peer.closed)  # noqa: B023


@pytest.mark.parametrize("end", [TransferStatus.FAILED, TransferStatus.TIMEOUT])
def test_a_transfer_that_fails(pair: Pair, module: StandIn, end: TransferStatus) -> None:
    pair.peer.write(pair.batch(), timeout=10)
    module.hold()
    transfer = pair.peer.write_async(pair.batch())
    for engine in module.engines.values():
        engine.fail(end)
    with pytest.raises(kf.PeerError, match="503900, FAILED"):
        transfer.wait(10)
    assert transfer.status is kf.Status.UNKNOWN
    with pytest.raises(kf.PeerError):
        pair.peer.write(pair.batch(), timeout=10)


@pytest.mark.parametrize("method", ["transfer_async", "get_transfer_status"])
def test_a_method_that_raises(pair: Pair, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    pair.peer.write(pair.batch(), timeout=10)

    def fail(*_arguments: object) -> None:
        raise RuntimeError("not in the contract")

    monkeypatch.setattr(standin.Engine, method, fail)
    with pytest.raises((RuntimeError, kf.PeerError), match="not in the contract"):
        pair.peer.write(pair.batch(), timeout=10)
    assert connection(pair).apart
    monkeypatch.undo()
    until(lambda: pair.peer.closed or method == "transfer_async")
    with pytest.raises(kf.PeerError):
        pair.peer.write(pair.batch(), timeout=10)


def test_an_abort_disconnects_and_takes_all_others_along(pair: Pair, module: StandIn) -> None:
    other = pair.ours.connect(pair.theirs.addresses[0], path=PATH, streams=1)
    for channel in (pair.peer, other):
        channel.write(kf.Batch.of(pair.pool, channel.regions["kv"]), timeout=10)
    view(pair.far)[:] = 0
    module.hold()
    module.gates["disconnect"] = threading.Event()
    mine = pair.peer.write_async(pair.batch())
    beside = pair.peer.write_async(pair.batch())
    far_off = other.write_async(kf.Batch.of(pair.pool, other.regions["kv"]))
    mine.cancel()
    # Quiet when disconnecting has returned, not before.
    assert not mine.done.wait(kf._core.now() + 50_000_000)
    assert all(each.status is kf.Status.PENDING for each in (mine, beside, far_off))
    module.gates["disconnect"].set()
    with pytest.raises(kf.Cancelled):
        mine.wait(10)
    for transfer in (beside, far_off):
        with pytest.raises(kf.PeerError) as caught:
            transfer.wait(10)
        assert caught.value.cause in ("hixl_disconnected", "link_lost")
        assert transfer.status is kf.Status.UNKNOWN
    module.release()
    assert not view(pair.far).any()
    until(lambda: pair.peer.closed and other.closed)
    again = pair.ours.connect(pair.theirs.addresses[0], path=PATH)
    view(pair.pool)[:] = noise(6)
    again.write(kf.Batch.of(pair.pool, again.regions["kv"]), timeout=10)
    assert np.array_equal(view(pair.far), noise(6))


def test_a_timeout_is_an_abort(pair: Pair, module: StandIn) -> None:
    pair.peer.write(pair.batch(), timeout=10)
    module.hold()
    with pytest.raises(kf.Timeout) as caught:
        pair.peer.write(pair.batch(), timeout=0.05)
    assert (caught.value.bytes_moved, caught.value.safe_to_retry) == (None, False)
    assert module.calls[-1] in ("disconnect", "get_transfer_status")


def test_a_disconnect_that_times_out_is_not_quiet(make: Make, module: StandIn) -> None:
    theirs, ours = make("127.0.0.1:0"), make(quiet_grace=0.1)
    theirs.allocate("kv", SIZE)
    pool = ours.allocate("pool", SIZE)
    peer = ours.connect(theirs.addresses[0], path=PATH)
    batch = kf.Batch.of(pool, peer.regions["kv"])
    peer.write(batch, timeout=10)
    module.hold()
    module.answer("disconnect", *[standin.TIMEOUT] * 40)
    with pytest.raises(kf.NotQuiet) as caught:
        peer.write(batch, timeout=0.05)
    assert caught.value.wait_quiet(10)
    assert peer.closed


def test_engines_that_close_disconnect_deregister_and_finalize(make: Make, module: StandIn) -> None:
    theirs, ours = make("127.0.0.1:0"), make()
    theirs.allocate("kv", SIZE)
    pool = ours.allocate("pool", SIZE)
    peer = ours.connect(theirs.addresses[0], path=PATH)
    peer.write(kf.Batch.of(pool, peer.regions["kv"]), timeout=10)
    module.hold()
    transfers = [peer.write_async(kf.Batch.of(pool, peer.regions["kv"])) for _ in range(3)]
    del module.calls[:]
    ours.close()
    order = [call for call in module.calls if call != "get_transfer_status"]
    assert order == ["disconnect", "deregister_mem", "finalize"]
    for transfer in transfers:
        with pytest.raises(kf.ClosedError):
            transfer.wait(10)
        assert transfer.status is kf.Status.UNKNOWN


def test_a_peer_that_goes_in_the_middle(pair: Pair, module: StandIn) -> None:
    pair.peer.write(pair.batch(), timeout=10)
    module.hold()
    transfer = pair.peer.write_async(pair.batch())
    pair.theirs.close()
    with pytest.raises(kf.PeerError) as caught:
        transfer.wait(10)
    assert caught.value.cause in ("connection_lost", "peer_gone")
    assert transfer.status is kf.Status.UNKNOWN


def test_a_peer_that_is_started_anew_under_the_same_name(make: Make, module: StandIn) -> None:
    name = f"127.0.0.1:{free_port()}"
    first, ours = make("127.0.0.1:0", hixl=name), make()
    pool = ours.allocate("pool", SIZE)
    first.allocate("kv", SIZE)
    old = ours.connect(first.addresses[0], path=PATH)
    old.write(kf.Batch.of(pool, old.regions["kv"]), timeout=10)
    first.close()
    second = make("127.0.0.1:0", hixl=name)
    far = second.allocate("kv", SIZE)
    view(pool)[:] = noise(7)
    peer = ours.connect(second.addresses[0], path=PATH)
    peer.write(kf.Batch.of(pool, peer.regions["kv"]), timeout=10)
    assert np.array_equal(view(far), noise(7))


def free_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_a_storm_of_cancels_leaves_nothing_behind(pair: Pair, module: StandIn) -> None:
    """Four threads write and reconnect, one cancels; every transfer ends, and the last arrives."""
    address, stop = pair.theirs.addresses[0], threading.Event()
    current: list[kf.Transfer] = []
    trouble: list[BaseException] = []
    ended = {kf.Status.DONE: 0, kf.Status.UNKNOWN: 0, kf.Status.FAILED: 0}

    def write(number: int) -> None:
        share, rounds = SIZE // 4, 0
        while rounds < 40:
            try:
                peer = pair.ours.connect(address, path=PATH, timeout=10)
                region = peer.regions["kv"]
                batch = kf.Batch.blocks(pair.pool, [number], region, [number], share)
                transfer = peer.write_async(batch)
            except (kf.Error, KeyError):  # over, or full while it is made anew
                continue
            rounds += 1
            current.append(transfer)
            with suppress(kf.Error):
                transfer.wait(10)
            ended[transfer.status] += 1

    def guarded(number: int) -> None:
        try:
            write(number)
        except BaseException as error:
            trouble.append(error)

    def cancel() -> None:
        while not stop.wait(0.003):
            if current:
                current[-1].cancel()

    crew = [threading.Thread(target=guarded, args=(number,)) for number in range(4)]
    canceller = threading.Thread(target=cancel)
    for thread in (*crew, canceller):
        thread.start()
    for thread in crew:
        thread.join()
    stop.set()
    canceller.join()
    assert not trouble
    assert sum(ended.values()) == 160
    peer = pair.ours.connect(address, path=PATH, timeout=10)
    view(pair.pool)[:] = noise(8)
    peer.write(kf.Batch.of(pair.pool, peer.regions["kv"]), timeout=10)
    assert np.array_equal(view(pair.far), noise(8))


# ---- memory ----


def test_a_region_that_goes_is_deregistered(pair: Pair, module: StandIn) -> None:
    pair.peer.write(pair.batch(), timeout=10)
    engines = list(module.engines.values())
    assert sorted(len(each.registered) for each in engines) == [1, 1]
    pair.theirs.unregister(pair.far)
    pair.ours.unregister(pair.pool)
    assert [len(each.registered) for each in engines] == [0, 0]


def test_what_hixl_does_not_let_go_of_keeps_its_memory(make: Make, module: StandIn) -> None:
    fabric = {"hixl_options": '{"EnableUseFabricMem": "1"}'}
    theirs, ours = make("127.0.0.1:0", **fabric), make(**fabric)
    theirs.allocate("kv", SIZE)
    pool = ours.allocate("pool", SIZE)
    peer = ours.connect(theirs.addresses[0], path=PATH)
    peer.write(kf.Batch.of(pool, peer.regions["kv"]), timeout=10)
    mapping = pool._mapping
    assert mapping is not None
    ours.unregister(pool)
    assert mapping.view.exports or pool.exports  # HIXL may still touch it
    peer.close()
    ours.allocate("next", SIZE)
    ours.unregister(ours.regions["next"])
    assert not pool.exports


def test_memory_that_hixl_does_not_take_is_out_of_reach(make: Make, module: StandIn) -> None:
    theirs, ours = make("127.0.0.1:0"), make()
    theirs.allocate("kv", SIZE)
    module.answer("register_mem", standin.RESOURCE_EXHAUSTED)
    peer = ours.connect(theirs.addresses[0], path=PATH)
    assert "kv" not in peer.regions

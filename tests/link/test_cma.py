"""The cma link keeps the contract, within one process and between two."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path as File
from typing import Any

import msgspec
import numpy as np
import pytest

from kvferry import _core
from kvferry.batch import Batch, buffer_of
from kvferry.errors import PathRefused, UsageError
from kvferry.link import CmaDriver, Driver, Facts, Peer, Published
from kvferry.link import cma as cma_module
from kvferry.memory import Region, RegionRecord, RemoteRegion
from kvferry.path import LinkKind, Path, SubmitterKind
from kvferry.testing import Child, ChildFailed, Parent
from kvferry.testing.link_contract import EPOCH, Bench, LinkContract, noise

MIB = 1 << 20
SIZE = 8 * MIB
PR_SET_DUMPABLE = 4
NOBODY = 65534


class TestCma(LinkContract):
    @staticmethod
    def make_driver(_bench: Bench) -> Driver:
        return CmaDriver(EPOCH, ptracer=False)

    def test_descriptors_that_come_along_are_closed(self, bench: Bench) -> None:
        good = bench.publish(bench.region(4096))
        fd = os.dup(0)
        with pytest.raises(UsageError, match="comes with 1 descriptors"):
            bench.link.attach(good._replace(fds=[fd]))
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)

    @pytest.mark.parametrize(
        "claims",
        [
            {"length": 0},
            {"length": -1},
            {"length": 1 << 65},
            {"base": -4096},
            {"base": 1 << 64},
            {"base": (1 << 64) - 4095},
        ],
    )
    def test_what_is_no_range_is_refused(self, bench: Bench, claims: dict[str, int]) -> None:
        record = bench.publish(bench.region(4096)).record
        with pytest.raises(UsageError, match="claims") as caught:
            bench.link.attach(Published(msgspec.structs.replace(record, **claims), []))
        assert (caught.value.cause, caught.value.peer) == ("bad_handle", "the peer")

    def test_foreign_memory_is_reached_as_it_may_be(self, bench: Bench) -> None:
        for number, memory in enumerate([bytearray(noise(1, 5000)), bytes(noise(2, 5000))]):
            region = Region(100 + number, f"foreign {number}", buffer_of(memory), 5000)
            published = bench.publish(region)
            remote = bench.link.attach(published)
            assert remote.readonly is isinstance(memory, bytes)
            bench.table.add(remote)
            back = bytearray(5000)
            bench.run(_core.READ, Batch.of(back, remote))
            assert back == memory

    def test_memory_that_went_away_is_a_fault(self, bench: Bench) -> None:
        region = bench.region(MIB)
        record = bench.publish(region).record
        code, address = _core.vm_reserve(MIB, 4096)
        assert code == 0
        remote = bench.link.attach(Published(msgspec.structs.replace(record, base=address), []))
        bench.table.add(remote)
        for op in (_core.READ, _core.WRITE):
            flying = bench.start(op, Batch.of(bytearray(MIB), remote))
            assert bench.finish(flying) == _core.FAULT
        _core.vm_release(address, MIB)


# ---- who can use it ----


def facts(epoch: int = 2, boot: str = "boot", network: int = 1, **changes: Any) -> Facts:
    told = {"uid": 7, "gid": 7, "dumpable": 1, "yama": 0, "ptracer": 0, "probe": 4096, **changes}
    return Facts(epoch, boot, network, {"loopback": {}, "cma": told})


OURS = facts(epoch=1)


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (facts(), None),
        (Facts(2, "boot", 1, {"loopback": {}}), "does not offer"),
        (facts(boot="other"), "another host"),
        (facts(network=2), "another network namespace"),
        (facts(uid=8), "runs as user 8, this process as 7"),
        (facts(gid=9), "runs as group 9, this process as 7"),
        (facts(dumpable=0), "not dumpable"),
        (facts(yama=1), "set KVFERRY_PTRACER=1 there"),
        (facts(yama=1, ptracer=1), None),
        (facts(yama=2, ptracer=1), "only administrators"),
        (facts(yama=3, ptracer=1), "nobody"),
        (facts(epoch=1, yama=3, dumpable=0), None),
        (facts(uid="root"), "does not tell"),
        (facts(probe=-1), "does not tell"),
        (facts(probe=1 << 63), "does not tell"),
        (Facts(2, "boot", 1, {"cma": {}}), "does not tell"),
    ],
)
def test_who_can_use_it(theirs: Facts, reason: str | None) -> None:
    refused = CmaDriver.refuse(OURS, theirs)
    assert refused is None if reason is None else refused is not None and reason in refused


def test_what_a_driver_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: File) -> None:
    driver = CmaDriver(1 << 63, ptracer=False)
    told = driver.facts()
    probe = told.pop("probe")
    assert isinstance(probe, int)
    assert ctypes.c_uint64.from_address(probe).value == 1 << 63
    yama = File("/proc/sys/kernel/yama/ptrace_scope")
    scope = int(yama.read_text()) if yama.exists() else 0
    ids = {"uid": os.geteuid(), "gid": os.getegid()}
    assert told == {**ids, "dumpable": 1, "yama": scope, "ptracer": 0}
    scope_file = tmp_path / "scope"
    for text, scope in (("2\n", 2), ("0\n", 0)):
        scope_file.write_text(text)
        monkeypatch.setattr(cma_module, "YAMA", scope_file)
        assert driver.facts()["yama"] == scope
    monkeypatch.setattr(cma_module, "YAMA", tmp_path / "none")
    assert driver.facts()["yama"] == 0
    driver.close()


def peer(told: Facts, pid: int | None) -> Peer:
    return Peer("the peer", told, pid, None, wire)


def wire(deadline: int | None) -> Any:
    raise AssertionError("this link dials nothing")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: it._replace(pid=None), "cannot be identified"),
        (lambda it: it._replace(pid=0), "cannot be identified"),
        (lambda it: it._replace(facts=facts()), "another one than the engine"),
        (lambda it: it._replace(facts=Facts(1, "", 1, {"cma": {}})), "does not tell"),
        (
            lambda it: it._replace(facts=msgspec.structs.replace(it.facts, epoch=EPOCH + 1)),
            "another one than the engine",
        ),
    ],
)
def test_who_is_refused_when_a_channel_opens(change: Callable[[Peer], Peer], reason: str) -> None:
    driver = CmaDriver(EPOCH, ptracer=False)
    fine = peer(Facts(EPOCH, "boot", 1, {"cma": driver.facts()}), os.getpid())
    path = Path(LinkKind.CMA, SubmitterKind.INLINE)
    with pytest.raises(PathRefused, match=reason) as caught:
        driver.open(change(fine), path, None)  # type: ignore[arg-type]
    assert list(caught.value.rejected) == ["cma/inline/none"]
    assert caught.value.peer == "the peer"


def test_a_closed_engine_is_not_met_again() -> None:
    driver = CmaDriver(EPOCH, ptracer=False)
    gone = peer(Facts(EPOCH, "boot", 1, {"cma": driver.facts()}), os.getpid())
    driver.close()
    with pytest.raises(PathRefused, match="another one than the engine"):
        driver.open(gone, Path(LinkKind.CMA, SubmitterKind.INLINE), None)  # type: ignore[arg-type]


# ---- two processes ----


def own(parent: Parent, size: int) -> None:
    """Owns a region, and does what the parent asks."""
    memory = noise(1, size)
    region = Region(1, "kv", buffer_of(memory), size)
    driver = CmaDriver(EPOCH, ptracer=True)
    code, hole = _core.vm_reserve(size, 4096)
    assert code == 0
    record = msgspec.to_builtins(driver.publish(region, facts()).record)
    parent.tell({"pid": os.getpid(), "facts": driver.facts(), "record": record, "hole": hole})
    for verb in parent:
        if verb == "hide":
            hide()
            parent.tell(driver.facts())
        else:
            parent.tell(zlib.crc32(memory))


def hide() -> None:
    become_nobody()
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def become_nobody() -> None:
    """The administrator looks into every process; nobody is no administrator."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


class Across(Bench):
    """The peer is another process. `watched`: by a descriptor of it."""

    def __init__(self, owner: Child, submitter: SubmitterKind, watched: bool) -> None:
        self.hello = owner.hear()
        self.pidfd = os.pidfd_open(owner.pid) if watched else None
        super().__init__(TestCma.make_driver, submitter)
        self.remote = self.attach_at(self.record)

    @property
    def record(self) -> RegionRecord:
        return msgspec.convert(self.hello["record"], RegionRecord)

    def peer(self) -> Peer:
        told = Facts(EPOCH, "boot", 1, {"cma": self.hello["facts"]})
        return peer(told, self.hello["pid"])._replace(pidfd=self.pidfd)

    def attach_at(self, record: RegionRecord) -> RemoteRegion:
        remote = self.link.attach(Published(record, []))
        self.table.add(remote)
        return remote

    def close(self) -> None:
        super().close()
        if self.pidfd is not None:
            os.close(self.pidfd)


@pytest.fixture
def owner(spawn: Callable[..., Child]) -> Child:
    return spawn(own, SIZE)


@pytest.fixture
def across() -> Iterator[Callable[..., Across]]:
    with ExitStack() as benches:

        def meet(owner: Child, submitter: SubmitterKind, watched: bool = True) -> Across:
            bench = Across(owner, submitter, watched)
            benches.callback(bench.close)
            return bench

        yield meet


each_submitter = pytest.mark.parametrize("submitter", SubmitterKind, ids=lambda each: each.value)
Meet = Callable[..., Across]


@each_submitter
@pytest.mark.parametrize("block", [7, 4096, 65536, MIB])
def test_scattered_blocks_cross_both_ways(
    owner: Child, across: Meet, submitter: SubmitterKind, block: int
) -> None:
    bench = across(owner, submitter)
    count = min(3000, SIZE // block)
    random = np.random.default_rng(block)
    ours, theirs = random.permutation(count), random.permutation(count)
    back = np.zeros((count, block), np.uint8)
    bench.run(_core.READ, Batch.blocks(back, ours, bench.remote, theirs, block))
    there = noise(1, SIZE)
    blocks = there[: count * block].reshape(count, block)
    assert np.array_equal(back[ours], blocks[theirs])
    here = noise(2, count * block)
    bench.run(_core.WRITE, Batch.blocks(here, ours, bench.remote, theirs, block))
    blocks[theirs] = here.reshape(count, block)[ours]
    assert owner.ask("digest") == zlib.crc32(there)


@each_submitter
def test_memory_that_is_not_there_is_a_fault(
    owner: Child, across: Meet, submitter: SubmitterKind
) -> None:
    bench = across(owner, submitter)
    record = msgspec.structs.replace(bench.record, base=bench.hello["hole"], serial=2, name="hole")
    hole = bench.attach_at(record)
    for op in (_core.READ, _core.WRITE):
        assert bench.finish(bench.start(op, Batch.of(bytearray(SIZE), hole))) == _core.FAULT
    back = np.zeros(SIZE, np.uint8)
    bench.run(_core.READ, Batch.of(back, bench.remote))
    assert np.array_equal(back, noise(1, SIZE))


def test_an_abort_stops_between_two_chunks(owner: Child, across: Meet) -> None:
    """Of three runs of 2 MiB two are in their first chunk, the third has not begun."""
    bench = across(owner, SubmitterKind.HOST)
    here = noise(3, 6 * MIB)
    batch = Batch.of(here, bench.remote, length=6 * MIB)
    bench.engines.hold(True)
    flying = bench.start(_core.WRITE, batch)
    while bench.engines.held < 2:
        time.sleep(0.001)
    bench.link.abort(flying.done)
    bench.engines.hold(False)
    assert bench.finish(flying) == _core.ABORTED
    there = noise(1, SIZE)
    for start in (0, 2 * MIB):
        there[start : start + MIB] = here[start : start + MIB]
    assert owner.ask("digest") == zlib.crc32(there)


class Loop(threading.Thread):
    """Makes the same transfer again and again until it fails."""

    def __init__(self, bench: Across, op: int) -> None:
        super().__init__()
        self._bench, self._op = bench, op
        self._batch = Batch.of(noise(4, SIZE), bench.remote)
        self.under_way = threading.Event()
        self.outcome = _core.OK
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while self.outcome == _core.OK:
                self.outcome = self._bench.finish(self._bench.start(self._op, self._batch))
                self.under_way.set()
        except BaseException as error:
            self.failure = error
            self.under_way.set()


@each_submitter
@pytest.mark.parametrize("watched", [True, False], ids=["watched", "unwatched"])
@pytest.mark.parametrize("op", [_core.READ, _core.WRITE], ids=["read", "write"])
def test_a_peer_that_is_killed_is_lost(
    owner: Child, across: Meet, submitter: SubmitterKind, watched: bool, op: int
) -> None:
    bench = across(owner, submitter, watched)
    loop = Loop(bench, op)
    loop.start()
    assert loop.under_way.wait(20)
    owner.kill()
    loop.join(20)
    assert not loop.is_alive()
    assert (loop.failure, loop.outcome) == (None, _core.LOST)
    assert bench.finish(bench.start(op, Batch.of(bytearray(8), bench.remote, length=8))) == (
        _core.LOST
    )


def test_a_peer_that_stands_still_is_reached(owner: Child, across: Meet) -> None:
    bench = across(owner, SubmitterKind.INLINE)
    owner.stop()
    back = np.zeros(SIZE, np.uint8)
    bench.run(_core.READ, Batch.of(back, bench.remote))
    assert np.array_equal(back, noise(1, SIZE))
    owner.resume()


def test_a_peer_that_hides_is_refused(owner: Child, spawn: Callable[..., Child]) -> None:
    hello = owner.hear()
    try:
        told = owner.ask("hide")
    except ChildFailed as failure:
        pytest.skip(f"this process may not become nobody: {failure}")
    theirs = Facts(EPOCH, "boot", 1, {"cma": told})
    ours = Facts(1, "boot", 1, {"cma": {**told, "dumpable": 1}})
    refused = CmaDriver.refuse(ours, theirs)
    assert refused is not None
    assert "not dumpable" in refused
    reason = spawn(open_as_nobody, hello["pid"], told).result()
    assert "does not let us into its process" in reason


def open_as_nobody(_parent: Parent, pid: int, told: dict[str, int | str]) -> str:
    """Why it is refused."""
    become_nobody()
    there = peer(Facts(EPOCH, "boot", 1, {"cma": told}), pid)
    path = Path(LinkKind.CMA, SubmitterKind.INLINE)
    try:
        CmaDriver(1, ptracer=False).open(there, path, None)  # type: ignore[arg-type]
    except PathRefused as refused:
        return str(refused)
    return "it is open"

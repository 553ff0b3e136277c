"""TransferEngine between real processes: what moves, what is returned, what is said."""

from __future__ import annotations

import gc
import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kvferry.testing import Child
from kvferry.testing import spawn as spawn_process

from .peer import MIB, serve

Spawn = Callable[..., Child]


class Peer:
    """Another process with memory; `name` is how it is addressed."""

    def __init__(self, child: Child, host: str) -> None:
        self.child = child
        self.said = child.hear()
        assert self.said["code"] == 0
        self.name = f"{host}:{self.said['port']}"
        self.registered: int = self.said["registered"]
        self.managed: int = self.said["managed"]


@pytest.fixture
def start(spawn: Spawn) -> Callable[..., Peer]:
    def begin(hostname: str = "127.0.0.1", host: str = "127.0.0.1", size: int = MIB) -> Peer:
        return Peer(spawn(serve, hostname, "P2PHANDSHAKE", size), host)

    return begin


@pytest.fixture(scope="module")
def _shared() -> Iterator[Peer]:
    with spawn_process(serve, "127.0.0.1", "P2PHANDSHAKE", MIB) as child:
        yield Peer(child, "127.0.0.1")


@pytest.fixture
def peer(_shared: Peer) -> Peer:
    """One for all tests that leave it alive; its registered memory is zeros."""
    _shared.child.ask("fill 0")
    return _shared


@pytest.fixture
def engine() -> Iterator[Any]:
    from mooncake.engine import TransferEngine

    made = TransferEngine()
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    yield made
    made.get_engine().close()  # pytest still refers to it


def registered(engine: Any, size: int = MIB, value: int | None = None) -> Any:
    """An array that the engine may use."""
    array = np.arange(size, dtype=np.uint64).astype(np.uint8)
    if value is not None:
        array[:] = value
    assert engine.register_memory(array.ctypes.data, size) == 0
    return array


def until(engine: Any, number: int, seconds: float = 20.0) -> int:
    deadline = time.monotonic() + seconds
    while (state := engine.transfer_check_status(number)) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return int(state)


@pytest.mark.parametrize("where", ["registered", "managed"])
def test_bytes_cross_both_ways(where: str, engine: Any, peer: Peer) -> None:
    ours = registered(engine)
    there, here = getattr(peer, where), ours.ctypes.data
    assert engine.transfer_sync_write(peer.name, here, there, MIB) == 0
    assert engine.transfer_sync_read(peer.name, here + MIB // 2, there, 4096) == 0
    assert (ours[MIB // 2 :][:4096] == ours[:4096]).all()
    first = list(range(64))
    if where == "registered":
        assert peer.child.ask("bytes") == first
        assert peer.child.ask("sum") == int(np.arange(256).sum()) * MIB // 256
    else:
        assert peer.child.ask(f"managed {there}") == first


def test_a_batch_may_name_allocated_and_registered_memory(engine: Any, peer: Peer) -> None:
    ours = registered(engine)
    here = ours.ctypes.data
    theirs = [peer.registered, peer.managed, peer.registered + 128, peer.managed + 128]
    assert engine.batch_transfer_sync_write(peer.name, [here] * 4, theirs, [64] * 4) == 0
    assert peer.child.ask(f"managed {peer.managed + 128}") == list(range(64))
    assert peer.child.ask("bytes") == list(range(64))
    number = engine.batch_transfer_async_read(
        peer.name, [here + 4096 + 64 * i for i in range(4)], theirs, [64] * 4
    )
    assert until(engine, number) == 1
    assert (ours[4096 : 4096 + 256].reshape(4, 64) == ours[:64]).all()


def test_pieces_without_bytes_are_left_out(engine: Any, peer: Peer) -> None:
    ours = registered(engine)
    here, there = ours.ctypes.data, peer.registered
    write = engine.batch_transfer_sync_write
    assert write(peer.name, [], [], []) == 0
    assert write(peer.name, [1, here + 1, here], [1, there, 1], [0, 63, 0]) == 0
    assert peer.child.ask("bytes")[:2] == [1, 2]
    assert engine.transfer_sync_read(peer.name, here, there, 0) == 0
    assert until(engine, engine.batch_transfer_async_write(peer.name, [], [], [])) == 1


def test_what_a_peer_registers_later_is_found(engine: Any, start: Callable[..., Peer]) -> None:
    peer, ours = start(), registered(engine, value=0)
    read = engine.transfer_sync_read
    later = peer.said["later"]
    assert read(peer.name, ours.ctypes.data, later, 64) == -1
    assert peer.child.ask("register later") == 0
    assert read(peer.name, ours.ctypes.data, later, 64) == 0
    assert (ours[:64] == 9).all()


def test_a_peer_that_restarts_is_met_again(engine: Any, start: Callable[..., Peer]) -> None:
    ours = registered(engine)
    first = start()
    assert engine.transfer_sync_write(first.name, ours.ctypes.data, first.registered, MIB) == 0
    first.child.kill()
    assert engine.transfer_sync_write(first.name, ours.ctypes.data, first.registered, MIB) == -1
    again = start(first.name)
    assert again.name == first.name
    assert engine.transfer_sync_write(again.name, ours.ctypes.data, again.registered, 64) == 0
    assert again.child.ask("bytes") == list(range(64))
    number = engine.batch_transfer_async_read(
        again.name, [ours.ctypes.data], [again.registered], [64]
    )
    assert until(engine, number) == 1


def test_the_codes_of_bad_calls(engine: Any, peer: Peer, caplog: Any) -> None:
    from mooncake.engine import Write

    ours = registered(engine)
    here, there = ours.ctypes.data, peer.registered
    write, batch = engine.transfer_sync_write, engine.batch_transfer_sync_write
    assert batch(peer.name, [here], [there, there], [1]) == -1
    assert write(peer.name, here, there + MIB - 10, 11) == -1
    assert write(peer.name, here - MIB, there, 11) == -1
    assert write("127.0.0.1:1", here, there, 11) == -1
    assert write("no name at all", here, there, 11) == -1
    assert write(peer.name, here, there, 1 << 63) == -1
    start_async = engine.batch_transfer_async_write
    assert start_async("127.0.0.1:1", [here], [there], [11]) == 0
    assert start_async(peer.name, [here], [there, 1], [11]) == 0
    assert start_async(peer.name, [here], [there + MIB], [11]) == 0
    assert engine.transfer_check_status(0) == -1
    assert engine.transfer_check_status(12345) == -1
    assert engine.get_batch_transfer_status([12345]) == -1
    assert engine.get_batch_transfer_status([]) == 0
    for bad in (["1"], [1.5], [None], [1 << 64], [[1]], np.array([1.0])):
        with pytest.raises(TypeError):
            batch(peer.name, bad, [there], [1])
        with pytest.raises(TypeError):
            start_async(peer.name, [here], [there], bad)
    for opcode, notify in ((1, None), (None, None), (Write, "text")):
        with pytest.raises(TypeError):
            engine.transfer_sync(peer.name, here, there, 1, opcode, notify)
    for method in (engine.allocate_managed_buffer, engine.unregister_memory):
        with pytest.raises(TypeError):
            method("1")
    with pytest.raises(TypeError):
        engine.read_bytes_from_buffer(here, 1.5)
    assert peer.child.ask("sum") == 0
    causes = " ".join(record.message for record in caplog.records)
    for cause in ("unequal_lengths", "out_of_bounds", "not_registered", "unreachable", "address"):
        assert f"[{cause}]" in causes


def test_registering(engine: Any) -> None:
    ours = np.zeros(MIB, np.uint8)
    at = ours.ctypes.data
    assert engine.register_memory(at, MIB) == 0
    assert engine.register_memory(at, MIB, "cpu:0") == 0
    assert engine.register_memory(at + 4096, 4096) == -7
    assert engine.register_memory(at, 4096) == -7
    assert engine.register_memory(at, 0) == -1
    assert engine.register_memory(16, 4096) == -1
    assert engine.register_memory(0, 4096) == -1
    assert engine.register_memory(at, 1 << 63) == -1
    assert engine.register_memory(buffer_addr=at, capacity=-5) == -1
    with pytest.raises(TypeError):
        engine.register_memory("here", 5)
    assert engine.unregister_memory(at) == 0
    assert engine.unregister_memory(at) == 0
    assert engine.unregister_memory(at) == -3
    three = [at, at + 4096, at + 8192]
    assert engine.batch_register_memory(three, [4096] * 3) == 0
    assert engine.batch_unregister_memory([at, 5, at + 4096, at + 8192]) == -3
    assert engine.unregister_memory(at + 8192) == -3
    assert engine.batch_register_memory([*three, at + 100], [4096] * 4) == -7
    assert [engine.unregister_memory(each) for each in three] == [-3] * 3
    assert engine.batch_register_memory(three, [4096]) == -1
    assert engine.batch_register_memory([], []) == 0


def test_memory_that_may_only_be_read_is_only_read(engine: Any, peer: Peer) -> None:
    import ctypes
    import mmap

    page = mmap.mmap(-1, 4096)
    page[:4] = b"once"
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(at, 4096, mmap.PROT_READ) == 0
    assert engine.register_memory(at, 4096) == 0
    assert engine.transfer_sync_write(peer.name, at, peer.registered, 4) == 0
    assert peer.child.ask("bytes")[:4] == list(b"once")
    assert engine.transfer_sync_read(peer.name, at, peer.registered + 64, 4) == -1
    assert engine.write_bytes_to_buffer(at, b"more", 4) == -1
    assert engine.read_bytes_from_buffer(at, 4) == b"once"
    assert libc.mprotect(at, 4096, 0) == 0
    assert engine.read_bytes_from_buffer(at, 4) == b""
    assert engine.unregister_memory(at) == 0
    page.close()


def test_managed_buffers(engine: Any) -> None:
    allocate, free = engine.allocate_managed_buffer, engine.free_managed_buffer
    few, many = allocate(100), allocate(65 << 20)
    assert few % 4096 == 0 == many % 4096
    assert engine.write_bytes_to_buffer(few, b"hello", 5) == 0
    assert engine.write_bytes_to_buffer(many + (65 << 20) - 2, "ok", 2) == 0
    assert engine.read_bytes_from_buffer(few, 6) == b"hello\0"
    assert engine.read_bytes_from_buffer(many + (65 << 20) - 2, 2) == b"ok"
    assert engine.write_bytes_to_buffer(few, b"hi", 3) == -1
    assert engine.write_bytes_to_buffer(few, b"hi", -1) == -1
    assert engine.write_bytes_to_buffer(few, b"", 0) == 0
    assert allocate(few) != few
    assert free(few + 1, 1) == -3
    assert free(many, 65 << 20) == 0
    assert engine.read_bytes_from_buffer(many, 1) == b""
    assert free(few, 100) == 0
    assert free(few, 100) == -3
    assert free(16, 1) == -3
    assert allocate(100) == few
    assert allocate(0) == 0
    assert allocate(1 << 60) == 0


@pytest.mark.parametrize("address", [0, 16, 1 << 47, (1 << 64) - 8])
def test_strange_addresses_are_not_touched(address: int, engine: Any) -> None:
    assert engine.read_bytes_from_buffer(address, 8) == b""
    assert engine.write_bytes_to_buffer(address, b"12345678", 8) == -1
    assert engine.read_bytes_from_buffer(registered(engine).ctypes.data, 1 << 62) == b""


def test_notifies_come_after_the_bytes_and_only_with_them(engine: Any, peer: Peer) -> None:
    from mooncake.engine import TransferNotify, TransferOpcode

    ours = registered(engine)
    here, there = ours.ctypes.data, peer.registered
    write = TransferOpcode.Write
    one, two = TransferNotify("one", "1"), TransferNotify(name="zwei", msg="ü" * 1000)
    assert engine.transfer_sync(peer.name, here, there, 64, write, one) == 0
    assert (
        engine.batch_transfer_sync(
            peer.name, [here], [there], [64], TransferOpcode.READ, notify=two
        )
        == 0
    )
    assert engine.transfer_sync(peer.name, here, there + MIB, 64, write, notify=one) == -1
    assert peer.child.ask("notifies") == [["one", "1"], ["zwei", "ü" * 1000]]
    assert peer.child.ask("notifies") == []
    assert peer.child.ask("bytes") == list(range(64))
    long = TransferNotify("long", "x" * (1 << 17))
    assert engine.transfer_sync(peer.name, here, there, 64, write, long) == -1


def test_numbers_of_batches(engine: Any, peer: Peer) -> None:
    ours = registered(engine)
    here, there = ours.ctypes.data, peer.registered
    numbers = [
        engine.batch_transfer_async_write(
            peer.name, [here + 64 * i], [there + 64 * i], [64], transport_hint="x"
        )
        for i in range(700)
    ]
    assert len(set(numbers)) == 700
    assert all(0 < number < 1 << 63 for number in numbers)
    assert engine.get_batch_transfer_status(numbers[:350]) == 0
    assert [until(engine, number) for number in numbers[350:]] == [1] * 350
    assert {engine.transfer_check_status(number) for number in numbers} == {-1}
    number = engine.transfer_submit_write(peer.name, here, there, MIB)
    assert engine.get_batch_transfer_status([number]) == 0
    assert peer.child.ask("sum") == int(np.arange(256).sum()) * MIB // 256


def test_a_dead_peer_fails_what_is_under_way(engine: Any, start: Callable[..., Peer]) -> None:
    size = 32 * MIB
    peer, ours = start(size=size), registered(engine, size)
    assert engine.transfer_sync_read(peer.name, ours.ctypes.data, peer.registered, 8) == 0
    peer.child.stop()  # over cma a stopped peer's memory can still be had
    number = engine.batch_transfer_async_read(
        peer.name, [ours.ctypes.data], [peer.registered], [size]
    )
    peer.child.kill()
    assert number == 0 or until(engine, number) in (1, -1)
    assert engine.batch_transfer_async_read(peer.name, [ours.ctypes.data], [16], [8]) == 0


def test_the_first_buffer(engine: Any, peer: Peer) -> None:
    first = engine.get_first_buffer_address
    assert first(peer.name) == peer.registered
    assert first("127.0.0.1:1") == 0
    ours = registered(engine)
    assert first(f"127.0.0.1:{engine.get_rpc_port()}") == ours.ctypes.data


def test_an_engine_reaches_itself(engine: Any) -> None:
    ours = registered(engine)
    here = ours.ctypes.data
    name = f"127.0.0.1:{engine.get_rpc_port()}"
    assert engine.transfer_sync_write(name, here, here + 4096, 128) == 0
    assert (ours[4096 : 4096 + 128] == ours[:128]).all()


def test_hosts_of_ipv6(engine: Any, start: Callable[..., Peer]) -> None:
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    peer, ours = start("[::1]:0", "[::1]"), registered(engine)
    assert engine.transfer_sync_write(peer.name, ours.ctypes.data, peer.registered, 64) == 0
    assert peer.child.ask("bytes") == list(range(64))
    assert engine.send_probe(peer.name) == 0


def _has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


def test_only_the_address_given_is_bound(engine: Any) -> None:
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    port = f"{engine.get_rpc_port():04X}"
    listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port}")]
    assert listening == [f"0100007F:{port}"]


@pytest.mark.parametrize(
    "server", ["etcd://127.0.0.1:2379", "redis://127.0.0.1:6379", "127.0.0.1:2379", "weird://x", ""]
)
def test_a_metadata_service_that_is_not_asked_is_a_hint(server: str, caplog: Any) -> None:
    from mooncake.engine import TransferEngine

    engine, peer = TransferEngine(), TransferEngine()
    assert engine.initialize("127.0.0.1", server, "rdma", "mlx5_0") == 0
    assert peer.initialize("127.0.0.1", server, "rdma", "mlx5_0") == 0
    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 2
    assert "name peers by host:port" in told[0].getMessage()
    assert peer.send_probe(f"127.0.0.1:{engine.get_rpc_port()}") == 0


@pytest.mark.parametrize(
    ("hostname", "server"),
    [
        ("127.0.0.1", "http://127.0.0.1:1/metadata"),
        ("127.0.0.1", "http://"),
        ("127.0.0.1", "http://[::/metadata"),
        ("192.0.2.77", "P2PHANDSHAKE"),
        ("a b", "P2PHANDSHAKE"),
        ("127.0.0.1:99999", "P2PHANDSHAKE"),
        ("", "P2PHANDSHAKE"),
    ],
)
def test_what_cannot_be_initialized_says_so(hostname: str, server: str, caplog: Any) -> None:
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    assert engine.initialize(hostname, server, "tcp", "") == -1
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert engine.get_rpc_port() == -1
    assert engine.register_memory(4096, 4096) == -1
    assert engine.transfer_sync_write("127.0.0.1:1", 1, 1, 1) == -1
    assert engine.batch_transfer_async_read("127.0.0.1:1", [1], [1], [1]) == 0
    assert engine.allocate_managed_buffer(1) == 0
    assert engine.get_notifies() == []
    assert engine.send_probe("127.0.0.1:1") == -102
    with pytest.raises(RuntimeError, match="initialize"):
        engine.get_engine()


def test_what_goes_with_it(engine: Any) -> None:
    import mooncake.engine as module

    assert set(module.__all__) == {name for name in vars(module) if name[0].isupper()} | {
        "create_rpc_client",
        "create_rpc_server",
    }
    assert not any(getattr(module, name) for name in module.__all__ if name.startswith("SUPPORT"))
    assert (module.Read, module.Write) == (0, 1)
    assert str(module.TransferOpcode.WRITE) == "TransferOpcode.Write"
    assert (module.TransferNotify().name, module.TransferNotify("a", "b").msg) == ("", "b")
    assert json.loads(engine.get_local_topology("mlx5_0")) == {}
    assert isinstance(engine.get_engine(), module.InnerTransferEngine)
    assert engine.get_engine_ptr() == engine.get_engine_ptr()
    assert not module.SharedSegment.supported()
    for call in (
        module.RpcInterface,
        module.create_rpc_client,
        lambda: module.SharedSegment.create("a", 1, 1, 0),
        lambda: engine.transfer_write_on_cuda("a", 1, 1, 1, 0),
        lambda: engine.batch_transfer_read_on_cuda("a", [1], [1], [1]),
        lambda: engine.warmup_efa_segment("a"),
    ):
        with pytest.raises(NotImplementedError, match="needs"):
            call()


def test_it_closes_with_its_last_reference() -> None:
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    name, lent = ("127.0.0.1", engine.get_rpc_port()), engine.get_engine()
    del engine
    gc.collect()
    socket.create_connection(name, 5).close()
    del lent
    gc.collect()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(name, 5)


ENDING = """
import numpy as np
from mooncake.engine import TransferEngine
engines = [TransferEngine() for _ in range(2)]
arrays = [np.zeros(1 << 20, np.uint8) for _ in engines]
for engine, array in zip(engines, arrays):
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert engine.register_memory(array.ctypes.data, array.nbytes) == 0
ours, theirs = (array.ctypes.data for array in arrays)
name = f"127.0.0.1:{engines[1].get_rpc_port()}"
assert engines[0].transfer_sync_write(name, ours, theirs, 1 << 20) == 0
assert engines[0].batch_transfer_async_read(name, [ours], [theirs], [1 << 20]) != 0
"""


def test_a_process_that_ends_says_nothing() -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{ENDING}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_initializing_again_begins_anew(engine: Any) -> None:
    ours = registered(engine)
    before = engine.get_rpc_port()
    assert engine.initialize_ext("127.0.0.1", "P2PHANDSHAKE", "tcp", "", "P2PHANDSHAKE") == 0
    assert engine.get_rpc_port() != before
    assert engine.unregister_memory(ours.ctypes.data) == -3


def test_one_target_from_many_threads(engine: Any, peer: Peer) -> None:
    ours = registered(engine)
    here, there = ours.ctypes.data, peer.registered

    def write(index: int) -> int:
        at = 1024 * index
        return int(engine.transfer_sync_write(peer.name, here + at, there + at, 1024))

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(write, range(1024))) == {0}
    assert peer.child.ask("sum") == int(np.arange(256).sum()) * MIB // 256

"""The metadata service as a process, engines that find each other there, and who abuses it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kvferry.testing import Child

from .conftest import TREE
from .peer import MIB, forking, serve

Spawn = Callable[..., Child]


class Service:
    """`mooncake_http_metadata_server`, started as a command."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        python = os.path.dirname(sys.executable)
        self.process = subprocess.Popen(
            ["mooncake_http_metadata_server", "--port", str(self.port), "--log-level", "ERROR"],
            env={
                **os.environ,
                "PATH": f"{TREE}/bin:{python}:{os.environ['PATH']}",
                "PYTHONPATH": str(TREE),
            },
        )
        self.url = f"http://127.0.0.1:{self.port}/metadata"
        deadline = time.monotonic() + 20
        while True:
            try:
                self.ask("GET", "/metadata?key=a")
                return
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                assert self.process.poll() is None
                time.sleep(0.02)

    def say(self, data: bytes, answer: bool = True) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), 10) as sock:
            sock.sendall(data)
            return b"".join(iter(lambda: sock.recv(1 << 16), b"")) if answer else b""

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode()
        status, _, rest = self.say(head + (body or b"")).partition(b"\r\n")
        return int(status.split()[1]), rest.partition(b"\r\n\r\n")[2]

    def key(self, name: str) -> Any:
        status, body = self.ask("GET", f"/metadata?key={name}")
        return json.loads(body) if status == 200 else None


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.process.kill()
    made.process.wait()


def engine_of(name: str, service: Service) -> Any:
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    assert engine.initialize(name, service.url, "tcp", "") == 0
    return engine


def test_engines_find_each_other(service: Service, spawn: Spawn) -> None:
    child = spawn(serve, "127.0.0.1:7001", service.url, MIB)
    said = child.hear()
    engine = engine_of("127.0.0.1:7002", service)
    ours = np.full(MIB, 3, np.uint8)
    here = ours.ctypes.data
    assert engine.register_memory(here, MIB) == 0
    meta = service.key("mooncake/rpc_meta/127.0.0.1:7001")
    assert meta == {"ip_or_host_name": "127.0.0.1", "rpc_port": said["port"]}
    segment = service.key("mooncake/ram/127.0.0.1:7002")
    assert segment["name"] == "127.0.0.1:7002"
    assert [(each["addr"], each["length"]) for each in segment["buffers"]] == [(here, MIB)]
    write = engine.transfer_sync_write
    assert write("127.0.0.1:7001", here, said["registered"], MIB) == 0
    assert child.ask("sum") == 3 * MIB
    assert engine.get_first_buffer_address("127.0.0.1:7001") == said["registered"]
    assert write("127.0.0.1:7003", here, said["registered"], MIB) == -1
    child.kill()  # its keys stay
    assert engine.send_probe("127.0.0.1:7001") == -102
    again = spawn(serve, "127.0.0.1:7001", service.url, MIB)
    said = again.hear()
    assert said["code"] == 0
    assert write("127.0.0.1:7001", here, said["registered"], MIB) == 0
    assert again.ask("sum") == 3 * MIB
    again.result()
    assert service.key("mooncake/rpc_meta/127.0.0.1:7001") is None
    assert service.key("mooncake/ram/127.0.0.1:7001") is None
    engine.get_engine().close()
    assert service.key("mooncake/rpc_meta/127.0.0.1:7002") is None


def test_a_name_that_is_taken(service: Service) -> None:
    from mooncake.engine import TransferEngine

    engine = engine_of("127.0.0.1:7004", service)
    other = TransferEngine()
    assert other.initialize("127.0.0.1:7004", service.url, "tcp", "") == -1
    assert service.key("mooncake/rpc_meta/127.0.0.1:7004")["rpc_port"] == engine.get_rpc_port()
    engine.get_engine().close()


def test_what_another_one_has_announced_stays(service: Service) -> None:
    """One that was taken for dead ends after its successor has begun."""
    engine = engine_of("127.0.0.1:7006", service)
    key = "mooncake/rpc_meta/127.0.0.1:7006"
    assert service.ask("DELETE", f"/metadata?key={key}")[0] == 200
    successor = b'{"ip_or_host_name":"127.0.0.1","rpc_port":1}'
    assert service.ask("PUT", f"/metadata?key={key}", successor)[0] == 200
    engine.get_engine().close()
    assert service.key(key)["rpc_port"] == 1
    assert service.key("mooncake/ram/127.0.0.1:7006") is not None


def test_clusters_and_ports(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from mooncake.engine import TransferEngine

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("MC_METADATA_CLUSTER_ID", "blue")
    monkeypatch.setenv("MC_LEGACY_RPC_PORT_BINDING", "1")
    name = f"127.0.0.1:{port}"
    engine = engine_of(name, service)
    assert engine.get_rpc_port() == port
    assert service.key(f"mooncake/blue/rpc_meta/{name}")["rpc_port"] == port
    assert service.key(f"mooncake/rpc_meta/{name}") is None
    assert TransferEngine().initialize(name, service.url, "tcp", "") == -1
    engine.get_engine().close()


def test_a_forked_child_takes_nothing_away(service: Service, spawn: Spawn) -> None:
    assert spawn(forking, service.url).result() == [1, 0]
    assert service.key("mooncake/rpc_meta/127.0.0.1:7005") is None


def test_what_the_service_answers(service: Service) -> None:
    ask = service.ask
    assert ask("GET", "/metadata?key=k")[0] == 404
    assert ask("PUT", "/metadata?key=k", b"1")[0] == 200
    assert ask("PUT", "/metadata?key=k", b"2")[0] == 200
    assert ask("GET", "/metadata?key=%6B&x=1") == (200, b"2")
    assert ask("DELETE", "/metadata?key=k")[0] == 200
    assert ask("DELETE", "/metadata?key=k")[0] == 404
    for method in ("GET", "DELETE"):
        assert ask(method, "/metadata")[0] == 400
    assert ask("PUT", "/metadata", b"1")[0] == 400
    assert ask("PUT", "/metadata?key=mooncake%2Frpc_meta%2Fa", b"1")[0] == 200
    assert ask("PUT", "/metadata?key=mooncake/rpc_meta/a", b"1")[0] == 400
    assert ask("DELETE", "/metadata?key=mooncake/rpc_meta/a")[0] == 200
    assert ask("GET", "/elsewhere?key=k")[0] == 404
    assert ask("POST", "/metadata?key=k", b"1")[0] == 405
    assert ask("PUT", "/metadata?key=k")[0] == 411
    assert ask("PUT", f"/metadata?key={'k' * 2000}", b"")[0] == 413


def test_the_service_listens_on_loopback_alone(service: Service) -> None:
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    port = f":{service.port:04X}"
    assert [row[1] for row in rows if row[3] == "0A" and row[1].endswith(port)] == [
        f"0100007F{port}"
    ]


HOSTILE = [
    b"",
    b"\r\n\r\n",
    b"\0" * 1000 + b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /metadata?key=k HTTP/9.9\r\n\r\n",
    b"GET /metadata?key=k HTTP/1.1\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
    b"GET /metadata?key=k HTTP/1.1\r\nA: " + b"x" * (4 << 20),
    b"GET /metadata?" + b"key=k&" * 1000 + b" HTTP/1.1\r\n\r\n",
    b"GET http://[/metadata HTTP/1.1\r\n\r\n",
    b"PUT /metadata?key=k HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"PUT /metadata?key=k HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"PUT /metadata?key=k HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + b"x" * (1 << 20),
    b"PUT /metadata?key=k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    b"PUT /metadata?key=k HTTP/1.1\r\nContent-Length: 10\r\n\r\nshort",
]


def test_hostile_requests_change_nothing(service: Service) -> None:
    before = peak(service)
    for request in HOSTILE * 2:
        with socket.create_connection(("127.0.0.1", service.port), 10) as sock:
            try:
                sock.sendall(request)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):
                    pass
            except OSError:
                continue  # it was hung up on
    assert service.ask("GET", "/metadata?key=k")[0] == 404
    assert peak(service) - before < 8 << 10


def peak(service: Service) -> int:
    """KiB of memory at most until now."""
    with open(f"/proc/{service.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def test_connections_that_say_nothing_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from mooncake import http_metadata_server as module
    from mooncake import web

    monkeypatch.setattr(web, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(module, "AT_ONCE", 4)
    with module.MetadataServer("127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        idle = [socket.create_connection(server.server_address, 10) for _ in range(8)]
        assert [sock.recv(1) for sock in idle] == [b""] * 8
        with socket.create_connection(server.server_address, 10) as sock:
            sock.sendall(b"GET /metadata?key=k HTTP/1.1\r\n\r\n")
            assert b" 404 " in sock.recv(1 << 12)
        server.shutdown()
        thread.join()
    for sock in idle:
        sock.close()


def test_a_thread_that_cannot_be_started_costs_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    from mooncake import http_metadata_server as module

    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "AT_ONCE", 1)
    with module.MetadataServer("127.0.0.1", 0) as server:
        for _ in range(2):
            with (
                socket.create_connection(server.server_address, 10) as sock,
                monkeypatch.context() as m,
            ):
                m.setattr(threading.Thread, "start", fails)
                server.handle_request()
                assert sock.recv(1) == b""
        with socket.create_connection(server.server_address, 10) as sock:
            sock.sendall(b"GET /metadata?key=k HTTP/1.1\r\n\r\n")
            server.handle_request()
            assert b" 404 " in sock.recv(1 << 12)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number: signal.Signals) -> None:
    service = Service()
    try:
        with socket.create_connection(("127.0.0.1", service.port), 10):
            began = time.monotonic()
            service.process.send_signal(number)
            assert service.process.wait(10) == 0
            assert time.monotonic() < began + 2
    finally:
        service.process.kill()
        service.process.wait()


def test_many_at_once(service: Service) -> None:
    """One name, many who want it: one gets it."""
    statuses: list[int] = []
    lock = threading.Lock()

    def put() -> None:
        status, _ = service.ask("PUT", "/metadata?key=mooncake/rpc_meta/one", b"{}")
        with lock:
            statuses.append(status)

    threads = [threading.Thread(target=put) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [400] * 31
    assert service.ask("DELETE", "/metadata?key=mooncake/rpc_meta/one")[0] == 200

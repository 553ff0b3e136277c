"""Real sockets of every family, and what is said when they cannot be had."""

from __future__ import annotations

import errno
import importlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kvferry.address import Address, TcpAddress, UnixAddress
from kvferry.errors import PeerError, Timeout, UsageError
from kvferry.rpc import dial, dial_abstract, listen, listen_abstract

listen_module = importlib.import_module("kvferry.rpc.listen")  # the face has a function of its name


def exchange(server: socket.socket, connect: Callable[[], socket.socket]) -> None:
    with connect() as client, server.accept()[0] as accepted:
        client.sendall(b"ping")
        assert accepted.recv(16) == b"ping"
        accepted.sendall(b"pong")
        assert client.recv(16) == b"pong"
        assert client.gettimeout() is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_tcp(host: str) -> None:
    with listen(TcpAddress(host, 0)) as server:
        port = server.getsockname()[1]
        exchange(server, lambda: dial(TcpAddress(host, port), 5.0))


def test_a_tcp_port_in_use_is_named() -> None:
    with listen(TcpAddress("127.0.0.1", 0)) as server:
        taken = TcpAddress("127.0.0.1", server.getsockname()[1])
        with pytest.raises(UsageError, match=str(taken)) as caught:
            listen(taken)
    assert caught.value.cause == "address_in_use"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_somebody_else(host: str) -> None:
    with pytest.raises(UsageError) as caught:
        listen(TcpAddress(host, 0))
    assert caught.value.cause == "address"


def test_dialling_nobody() -> None:
    with listen(TcpAddress("127.0.0.1", 0)) as server:
        gone = TcpAddress("127.0.0.1", server.getsockname()[1])
    with pytest.raises(PeerError, match=str(gone)) as caught:
        dial(gone, 5.0)
    assert caught.value.cause == "unreachable"


def test_dialling_an_unknown_host() -> None:
    with pytest.raises(PeerError, match="invalid") as caught:
        dial(TcpAddress("no-such-host.invalid", 1), 5.0)
    assert caught.value.cause == "unreachable"


def test_unix(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "kv.sock"))
    with listen(address) as server:
        exchange(server, lambda: dial(address, 5.0))


def test_a_stale_socket_file_is_replaced(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "kv.sock"))
    listen(address).close()
    assert os.path.exists(address.path)
    with pytest.raises(PeerError) as caught:
        dial(address, 1.0)
    assert caught.value.cause == "unreachable"
    with listen(address) as server:
        exchange(server, lambda: dial(address, 5.0))


def test_a_live_socket_file_is_in_use(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "kv.sock"))
    with listen(address) as server:
        with pytest.raises(UsageError, match="somebody listens") as caught:
            listen(address)
        assert caught.value.cause == "address_in_use"
        server.accept()[0].close()  # the probe
        exchange(server, lambda: dial(address, 5.0))


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("precious")
    with pytest.raises(UsageError, match="not a socket"):
        listen(UnixAddress(str(file)))
    assert file.read_text() == "precious"


@pytest.mark.parametrize("path", ["/no/such/directory/kv.sock", "/proc/kv.sock"])
def test_a_directory_that_takes_no_sockets(path: str) -> None:
    address: Address = UnixAddress(path)
    with pytest.raises(UsageError, match="cannot listen") as caught:
        listen(address)
    assert caught.value.cause == "address"
    with pytest.raises(PeerError):
        dial(address, 1.0)


def test_a_full_backlog_is_a_timeout(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "kv.sock"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address.path)
        server.listen(0)
        with dial(address, 5.0), pytest.raises(Timeout, match=r"kv\.sock") as caught:
            dial(address, 0.05)
    assert caught.value.cause == "connect_timeout"


def test_abstract_names_differ() -> None:
    with listen_abstract() as one, listen_abstract() as other:
        assert one.getsockname() != other.getsockname()
        assert one.getsockname().startswith(b"\0")
        exchange(other, lambda: dial_abstract(other.getsockname(), 5.0))


def test_an_abstract_name_of_nobody() -> None:
    with listen_abstract() as gone:
        name = gone.getsockname()
    with pytest.raises(PeerError) as caught:
        dial_abstract(name, 1.0)
    assert caught.value.cause == "unreachable"


def test_a_socket_we_may_not_connect_to_is_not_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = UnixAddress(str(tmp_path / "socket"))

    def refuse(*_: object) -> socket.socket:
        raise PeerError("no", cause="unreachable") from PermissionError(errno.EACCES, "no")

    with listen(address):
        monkeypatch.setattr(listen_module, "_dial_unix", refuse)
        with pytest.raises(UsageError) as caught:
            listen(address)
        assert caught.value.cause == "address_in_use"
        assert os.path.exists(address.path)

"""MC_* variables: what is read, what is warned about, and what each changes."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from kvferry.testing import spawn

from .peer import MIB, serve


def read(**environ: str) -> Any:
    from mooncake.variables import read

    return read(environ)


@contextmanager
def initialized(hostname: str = "127.0.0.1") -> Iterator[Any]:
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    assert engine.initialize(hostname, "P2PHANDSHAKE", "tcp", "") == 0
    yield engine
    engine.get_engine().close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_defaults(caplog: Any) -> None:
    found = read()
    assert (found.transfer_timeout, found.connect_timeout) == (30.0, 5.0)
    assert (found.ports[0], found.ports[-1]) == (15000, 17000)
    assert not any((found.ipv6, found.legacy_port, found.force_tcp, found.cluster))
    assert found.bind_address is None
    assert caplog.records == []


def test_values() -> None:
    assert read(MC_TRANSFER_TIMEOUT="60").transfer_timeout == 60
    assert read(MC_TRANSFER_TIMEOUT="1").transfer_timeout == 5
    assert read(MC_HANDSHAKE_CONNECT_TIMEOUT="0.5").connect_timeout == 0.5
    assert read(MC_MIN_RPC_PORT="20000", MC_MAX_RPC_PORT="20001").ports == range(20000, 20002)
    assert read(MC_MIN_PRC_PORT="16000", MC_MAX_PRC_PORT="16000").ports == range(16000, 16001)
    assert read(MC_MIN_RPC_PORT="16001", MC_MIN_PRC_PORT="16000").ports[0] == 16001
    assert read(MC_TCP_BIND_ADDRESS="::1", MC_USE_IPV6="0").bind_address == "::1"
    assert read(MC_USE_IPV6="0").ipv6
    assert read(MC_METADATA_CLUSTER_ID="a").cluster == "a"
    assert read(MC_SLICE_SIZE="1", MC_GID_INDEX="x", HOME="/").unused == (
        "MC_GID_INDEX",
        "MC_SLICE_SIZE",
    )


@pytest.mark.parametrize(
    "environ",
    [
        {"MC_TRANSFER_TIMEOUT": "soon"},
        {"MC_TRANSFER_TIMEOUT": ""},
        {"MC_TRANSFER_TIMEOUT": "-1"},
        {"MC_TRANSFER_TIMEOUT": "nan"},
        {"MC_TRANSFER_TIMEOUT": "inf"},
        {"MC_HANDSHAKE_CONNECT_TIMEOUT": "0"},
        {"MC_MIN_RPC_PORT": "0"},
        {"MC_MIN_RPC_PORT": "99999999999999999999"},
        {"MC_MAX_PRC_PORT": "65536"},
        {"MC_MAX_RPC_PORT": "-5"},
        {"MC_MIN_RPC_PORT": "17001"},
    ],
)
def test_what_makes_no_sense_is_warned_about(environ: dict[str, str], caplog: Any) -> None:
    assert read(**environ) == read()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert next(iter(environ.values())) in record.message


def test_a_port_is_picked_from_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("MC_MIN_RPC_PORT", str(port))
    monkeypatch.setenv("MC_MAX_RPC_PORT", str(port))
    with initialized() as engine:
        assert engine.get_rpc_port() == port
        from mooncake.engine import TransferEngine

        assert TransferEngine().initialize("127.0.0.1:0", "P2PHANDSHAKE", "tcp", "") == -1
        given = free_port()
        with initialized(f"127.0.0.1:{given}") as other:
            assert other.get_rpc_port() == given
            monkeypatch.delenv("MC_MIN_RPC_PORT")
            monkeypatch.setenv("MC_MAX_RPC_PORT", "17000")
            with initialized(f"127.0.0.1:{given}") as third:
                assert 15000 <= third.get_rpc_port() <= 17000


def test_it_binds_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_TCP_BIND_ADDRESS", "127.0.0.5")
    with initialized("this.name.is.unknown.invalid") as engine:
        socket.create_connection(("127.0.0.5", engine.get_rpc_port()), 5).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", engine.get_rpc_port()), 5)


@pytest.mark.parametrize("waits", [True, False])
def test_a_transfer_that_takes_too_long(
    waits: bool, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """To a peer that stands still, over sockets: it cannot end."""
    monkeypatch.setenv("MC_FORCE_TCP", "1")
    size = 6 * MIB  # more than sockets hold, and few enough for one of them
    ours = np.ones(size, np.uint8)
    with spawn(serve, "127.0.0.1", "P2PHANDSHAKE", size) as child, initialized() as engine:
        said = child.hear()
        name, there = f"127.0.0.1:{said['port']}", said["registered"]
        here = ours.ctypes.data
        assert engine.register_memory(here, size) == 0
        assert engine.transfer_sync_write(name, here, there, 8) == 0
        channel = engine.get_engine().peers.channel(name)
        assert {channel.path.link.value, channel.foreign_path.link.value} == {"tcp"}
        engine.get_engine().transfer_timeout = 0.2  # shorter than what can be asked for
        child.stop()
        began = time.monotonic()
        if waits:
            assert engine.transfer_sync_write(name, here, there, size) == -1
        else:
            number = engine.batch_transfer_async_write(name, [here], [there], [size])
            while (state := engine.transfer_check_status(number)) == 0:
                time.sleep(0.01)
            assert state == -2
            assert engine.transfer_check_status(number) == -1
        assert 0.2 <= time.monotonic() - began < 10
        assert "[timeout]" in caplog.text
        child.resume()

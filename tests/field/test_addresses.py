"""Addresses and installing, as users of other engines met them. Names begin with the lesson's."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from unittest import mock

import numpy as np
import pytest

import kvferry as kf

MIB = 1 << 20
OPTIONAL = ("torch", "torch_npu", "matplotlib", "mooncake", "nixl", "acl", "pyverbs")


def moved(theirs: kf.Engine, ours: kf.Engine, path: str) -> bool:
    """A write and a read over `path`, and a word in either direction."""
    theirs.serve(f"echo {path}", bytes)
    with ours.connect(theirs.addresses[0], path=path) as peer:
        truth = np.random.default_rng(1).integers(0, 256, MIB, np.uint8)
        back = np.zeros(MIB, np.uint8)
        transfer = peer.write_async(kf.Batch.of(truth, peer.regions["kv"]))
        peer.notify("done", b"x", after=[transfer])
        peer.read(kf.Batch.of(back, peer.regions["kv"]), timeout=10)
        assert peer.call(f"echo {path}", b"word", timeout=10) == b"word"
        return bool((back == truth).all()) and bool(theirs.notifications(10))


@pytest.mark.parametrize("path", ["fabric/host", "tcp/host"])
def test_b1_everything_works_over_ipv6_alone(path: str) -> None:
    with kf.Engine("[::1]:0") as theirs, kf.Engine() as ours:
        theirs.allocate("kv", MIB)
        assert moved(theirs, ours, path)


@pytest.mark.parametrize(
    ("listen", "family"), [("127.0.0.1:0", socket.AF_INET), ("[::1]:0", socket.AF_INET6)]
)
def test_b2_a_server_binds_the_family_of_the_address_it_tells(
    listen: str, family: socket.AddressFamily
) -> None:
    with kf.Engine(listen) as engine:
        assert engine.addresses[0].startswith(listen[:-1])
        host, _, port = engine.addresses[0].rpartition(":")
        with socket.socket(family) as knock:
            knock.connect((host.strip("[]"), int(port)))


def test_b3_many_engines_on_one_host_need_no_ports_by_hand() -> None:
    engines = [kf.Engine("127.0.0.1:0") for _ in range(8)]
    try:
        assert len({engine.addresses for engine in engines}) == 8
        for number, engine in enumerate(engines):
            engine.allocate("kv", MIB)
            assert moved(engine, engines[number - 1], "tcp/host")
    finally:
        for engine in engines:
            engine.close()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "127.0.0.1:0", "[::]:0", "[::1]:0"])
def test_b4_literals_ask_no_name_server(listen: str) -> None:
    def numeric(host: str | None, port: object, *args: object, **kwargs: object) -> object:
        family = socket.AF_INET6 if host and ":" in host else socket.AF_INET
        socket.inet_pton(family, str(host))  # raises for a name
        return resolve(host, port, *args, **kwargs)  # type: ignore[arg-type]

    resolve = socket.getaddrinfo
    with (
        mock.patch.object(socket, "getaddrinfo", numeric),
        kf.Engine(listen) as theirs,
        kf.Engine() as ours,
    ):
        port = theirs.addresses[0].rpartition(":")[2]
        host = "[::1]" if ":" in listen[:-2] else "127.0.0.1"
        ours.connect(f"{host}:{port}").close()


def test_b5_a_peer_that_answers_as_another_is_refused_and_both_are_named() -> None:
    """What was met at a unix socket tells a TCP address that is another engine's."""
    with (
        tempfile.TemporaryDirectory() as folder,
        kf.Engine(f"unix://{folder}/a", "127.0.0.1:0") as meant,
        kf.Engine("127.0.0.1:0") as other,
        kf.Engine() as ours,
    ):
        meant._tcp.addresses = list(other.addresses)
        with pytest.raises(kf.PathRefused) as caught:
            ours.connect(meant.addresses[0], path="tcp/host")
        assert other.addresses[0] in str(caught.value)
        assert "another engine" in str(caught.value)


def test_a1_importing_loads_nothing_optional_and_needs_nothing() -> None:
    script = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import kvferry
with kvferry.Engine("127.0.0.1:0") as engine:
    print(len(engine.addresses))
assert not set(sys.modules) & set({OPTIONAL!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_a3_a_link_that_does_not_exist_is_named_and_others_work() -> None:
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        theirs.allocate("kv", MIB)
        with pytest.raises(kf.UsageError, match="rdma"):
            ours.connect(theirs.addresses[0], link="rdma")
        assert moved(theirs, ours, "tcp/host")


def test_e12_a_peer_that_is_absent_at_the_start_blocks_for_no_longer_than_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, kf.Engine() as ours:
        begin = time.monotonic()
        with pytest.raises(kf.Timeout):
            ours.connect(f"127.0.0.1:{silent.getsockname()[1]}", timeout=0.3)
        assert time.monotonic() - begin < 3

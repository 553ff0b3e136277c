"""Engines that speak TLS between hosts: what they do, what is heard on the way, who is refused."""

from __future__ import annotations

import dataclasses
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="certificates are made with the cryptography package")

import kvferry as kf
from kvferry.engine import connect
from kvferry.rpc import token
from kvferry.testing import Child
from tests.certificates import Authority, Papers
from tests.engine.conftest import MIB, over
from tests.engine.target import pattern, serve
from tests.engine.test_fork import in_child
from tests.engine.window import window
from tests.wiretap import Wiretap

HERE = "127.0.0.1"
TCP = over("tcp/host")
PORT = f"{HERE}:0"

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def papers(authority: Authority) -> Papers:
    return authority.issue(HERE)


@pytest.fixture
def under_tls(papers: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines made from here on, in children, too."""
    for name, value in papers.variables().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def hosts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is met is taken for one on another host."""
    monkeypatch.setattr(connect, "_same_host", lambda ours, theirs: False)


def given(papers: Papers | None) -> kf.Options:
    plain = dataclasses.replace(kf.config.from_environment(), quiet_grace=1.0, call_timeout=5.0)
    return plain if papers is None else dataclasses.replace(plain, **papers.options())


def place_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@pytest.mark.usefixtures("under_tls", "hosts_apart")
def test_two_processes_write_read_call_and_notify(spawn: Callable[..., Child]) -> None:
    target = spawn(serve)
    address = target.hear()
    target.ask(["allocate", "kv", 8 * MIB])
    target.ask(["fill", "kv", 2])
    with kf.Engine() as engine:
        pool = engine.allocate("pool", 8 * MIB)
        window(pool)[:] = pattern(1, 8 * MIB)
        peer = engine.connect(address, path=TCP, streams=4, inline_below=0)
        far = peer.regions["kv"]
        peer.write(kf.Batch.blocks(pool, [1, 3, 5], far, [2, 0, 1], MIB), timeout=20)
        peer.read(kf.Batch.blocks(pool, [6, 7], far, [6, 7], MIB), timeout=20)
        mine, theirs = pattern(1, 8 * MIB), pattern(2, 8 * MIB)
        assert (window(pool)[6 * MIB :] == theirs[6 * MIB :]).all()
        for here, there in ((1, 2), (3, 0), (5, 1)):
            sent = zlib.crc32(mine[here * MIB : (here + 1) * MIB])
            assert target.ask(["digest", "kv", there * MIB, MIB]) == sent
        assert peer.call("echo", b"x" * MIB) == b"x" * MIB
        with pytest.raises(kf.PeerError, match="on purpose"):
            peer.call("fail", b"")
        peer.notify("news", b"n")
        assert target.ask(["notifications", 5.0]) == [[engine.name, "news", "n"]]
    target.result()


@pytest.mark.usefixtures("hosts_apart")
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_nothing_is_heard_on_the_way(papers: Papers, tls: bool) -> None:
    options = given(papers if tls else None)
    secret = token.load(options)
    value = os.urandom(MIB)
    with (
        kf.Engine(PORT, options=options) as theirs,
        Wiretap(place_of(theirs.addresses[0])) as tap,
        kf.Engine(options=options) as ours,
    ):
        theirs.serve("a-service", lambda request: request[::-1])
        theirs.allocate("a-region", MIB)
        peer = ours.connect(tap.address, path=TCP)
        buffer = np.frombuffer(value, np.uint8).copy()
        peer.write(kf.Batch.of(buffer, peer.regions["a-region"]), timeout=10)
        assert theirs.regions["a-region"].load(MIB, 0) == value
        assert peer.call("a-service", b"a request") == b"tseuqer a"
        theirs.serve_callers("whose", lambda caller, _: repr(caller.pid).encode())
        assert peer.call("whose", b"") == b"None"  # not this process's
        heard = bytes(tap.heard)
        said = [b"a-service", b"a-region", b"a request", b"tseuqer a", value[:64], value[-64:]]
        assert [word in heard for word in said] == [not tls] * len(said)
        assert secret not in heard
        assert len(heard) > MIB


def test_unix_sockets_stay_as_they_are(papers: Papers, tmp_path: Path) -> None:
    socket = f"unix://{tmp_path}/e"
    with kf.Engine(socket, PORT, options=given(papers)) as theirs, kf.Engine() as ours:
        theirs.allocate("kv", MIB)
        assert set(ours.connect(socket).regions) == {"kv"}
    with kf.Engine(PORT, options=given(papers)) as theirs:
        theirs.allocate("kv", MIB)
        with kf.Engine(options=given(papers)) as ours:
            peer = ours.connect(theirs.addresses[0])  # and then at its door
            assert str(peer.path).startswith("fabric/")


@pytest.mark.parametrize(
    ("server", "client", "kind", "says", "logged"),
    [
        ("papers", None, kf.PeerError, "speaks TLS alone", "wrong version number"),
        (None, "papers", kf.PeerError, "without TLS itself", "this engine does not"),
        ("papers", "other", kf.RightsError, "refuses this engine's .*unknown ca", "unable to get"),
        ("other", "papers", kf.RightsError, "unable to get local issuer", "unknown ca"),
        ("elsewhere", "papers", kf.RightsError, "not valid for '127.0.0.1'", "bad certificate"),
    ],
    ids=["client without", "server without", "client of others", "server of others", "name"],
)
def test_who_does_not_fit_is_refused_at_once(
    authority: Authority,
    papers: Papers,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    server: str | None,
    client: str | None,
    kind: type[kf.Error],
    says: str,
    logged: str,
) -> None:
    caplog.set_level("INFO", "kvferry.rpc")
    others = Authority(tmp_path).issue(HERE)._replace(ca=papers.ca)
    elsewhere = authority.issue("10.1.1.1")
    has = {"papers": papers, "other": others, "elsewhere": elsewhere, None: None}
    with (
        kf.Engine(PORT, options=given(has[server])) as theirs,
        kf.Engine(options=given(has[client])) as ours,
    ):
        begun = time.monotonic()
        with pytest.raises(kind, match=says) as caught:
            ours.connect(theirs.addresses[0], timeout=10)
        assert time.monotonic() - begun < 5
        assert (caught.value.cause, caught.value.peer) == ("tls", theirs.addresses[0])
        while logged not in caplog.text:
            assert time.monotonic() - begun < 5, caplog.text
            time.sleep(0.01)
        assert not theirs.callers
        if server == "papers":
            with kf.Engine(options=given(papers)) as friend:
                friend.connect(theirs.addresses[0])


def test_half_of_tls_is_no_engine(papers: Papers) -> None:
    options = dataclasses.replace(given(papers), tls_ca=None)
    with pytest.raises(kf.UsageError, match="KVFERRY_TLS_CA") as caught:
        kf.Engine(options=options)
    assert caught.value.cause == "tls"


@pytest.fixture
def met(papers: Papers, hosts_apart: None) -> Iterator[tuple[kf.Engine, kf.Engine, kf.Channel]]:
    """Two engines over TLS, and a channel to the second's region."""
    options = dataclasses.replace(given(papers), beat=0.02, suspect_after=0.2, dead_after=0.5)
    with kf.Engine(PORT, options=options) as theirs, kf.Engine(options=options) as ours:
        theirs.allocate("kv", MIB)
        yield ours, theirs, ours.connect(theirs.addresses[0], path=TCP)


@pytest.mark.usefixtures("under_tls", "hosts_apart")
def test_a_killed_peer_is_noticed(spawn: Callable[..., Child]) -> None:
    target = spawn(serve)
    address = target.hear()
    target.ask(["allocate", "kv", MIB])
    with kf.Engine() as engine:
        pool = engine.allocate("pool", MIB)
        peer = engine.connect(address, path=TCP)
        far = peer.regions["kv"]
        peer.write(kf.Batch.of(pool, far), timeout=10)
        target.kill()
        begun = time.monotonic()
        with pytest.raises(kf.PeerError):
            peer.call("echo", b"", timeout=10)
        assert time.monotonic() - begun < 5
        with pytest.raises(kf.PeerError):
            peer.write(kf.Batch.of(pool, far), timeout=10)


def test_silence_on_the_way_is_noticed(papers: Papers, hosts_apart: None) -> None:
    options = dataclasses.replace(given(papers), beat=0.02, suspect_after=0.2, dead_after=0.5)
    with ExitStack() as undo:
        theirs = undo.enter_context(kf.Engine(PORT, options=options))
        tap = undo.enter_context(Wiretap(place_of(theirs.addresses[0])))
        ours = undo.enter_context(kf.Engine(options=options))
        theirs.serve("echo", lambda request: request)
        peer = ours.connect(tap.address, path=TCP)
        assert peer.call("echo", b"1") == b"1"
        tap.meddle = lambda data: b""
        with pytest.raises(kf.PeerError) as caught:
            peer.call("echo", b"2", timeout=10)
        assert caught.value.cause in ("silent", "connection_lost")
        tap.meddle = bytes
        assert ours.connect(tap.address, path=TCP).call("echo", b"3") == b"3"


def test_bytes_that_were_changed_are_not_believed(papers: Papers, hosts_apart: None) -> None:
    with ExitStack() as undo:
        theirs = undo.enter_context(kf.Engine(PORT, options=given(papers)))
        tap = undo.enter_context(Wiretap(place_of(theirs.addresses[0])))
        ours = undo.enter_context(kf.Engine(options=given(papers)))
        region = theirs.allocate("kv", MIB)
        window(region)[:] = 7
        peer = ours.connect(tap.address, path=TCP)
        far, into = peer.regions["kv"], np.full(MIB, 9, np.uint8)
        tap.meddle = lambda data: data[:-1] + bytes([data[-1] ^ 0x40])
        with pytest.raises(kf.PeerError):
            peer.read(kf.Batch.of(into, far), timeout=10)
        assert set(into) <= {7, 9}


def test_a_child_says_nothing_in_its_parents_name(
    met: tuple[kf.Engine, kf.Engine, kf.Channel],
) -> None:
    ours, theirs, peer = met
    theirs.serve("echo", lambda request: request)

    def body() -> None:
        with pytest.raises(kf.ForkedError):
            peer.call("echo", b"")
        assert ours._tls is not None
        assert not ours._tls._relays

    assert in_child(body) == 0
    assert peer.call("echo", b"parent") == b"parent"


def test_relays_end_with_their_channel_and_engine(
    met: tuple[kf.Engine, kf.Engine, kf.Channel],
) -> None:
    ours, theirs, peer = met
    far, buffer = peer.regions["kv"], np.zeros(MIB, np.uint8)
    peer.write(kf.Batch.of(buffer, far), timeout=10)
    assert ours._tls is not None
    assert theirs._tls is not None
    assert len(ours._tls._relays) >= 3  # control, beats, a wire
    peer.close()
    deadline = time.monotonic() + 5
    while ours._tls._relays or theirs._tls._relays:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ours.connect(theirs.addresses[0], path=TCP)
    theirs.close()
    assert not theirs._tls._relays

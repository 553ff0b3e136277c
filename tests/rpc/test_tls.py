"""TLS under connections: what comes through, who is refused, and what strangers can do."""

from __future__ import annotations

import datetime
import os
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="certificates are made with the cryptography package")

from kvferry.address import TcpAddress
from kvferry.config import Options
from kvferry.errors import ClosedError, Error, PeerError, RightsError, Timeout, UsageError
from kvferry.rpc import Connection, Poller, peer, relay, tls
from kvferry.rpc.tls import Tls
from tests.certificates import Authority, Papers
from tests.rpc.conftest import echo, eventually
from tests.wiretap import Wiretap

HERE = "127.0.0.1"
HOUR = datetime.timedelta(hours=1)
MIB = 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("papers")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module")
def papers(authority: Authority) -> Papers:
    return authority.issue(HERE, "localhost")


def told(papers: Papers, *, check_host: bool = True) -> Options:
    return Options(token_file=Path("none"), tls_check_host=check_host, **papers.options())


def made(papers: Papers, **more: bool) -> Tls:
    loaded = tls.load(told(papers, **more))
    assert loaded is not None
    return loaded


class Server:
    """Accepts whoever has shaken hands, and answers with what was asked."""

    def __init__(self, papers: Papers | None, patience: float = 10.0) -> None:
        self.tls = None if papers is None else made(papers)
        self.poller = Poller("server")
        self.met: list[socket.socket] = []
        self.connections: list[Connection] = []
        self.sock = socket.create_server((HERE, 0))
        self.place = self.sock.getsockname()
        self.accept: Callable[[socket.socket], Connection | None] = self.serve
        self.poller.listen(
            self.sock, lambda sock: self.accept(sock), tls=self.tls, patience=patience
        )

    def serve(self, sock: socket.socket) -> Connection:
        connection = Connection(sock, echo)
        connection.authenticated = True
        self.connections.append(connection)
        return connection

    def keep(self, sock: socket.socket) -> None:
        self.met.append(sock)

    def close(self) -> None:
        self.poller.forget(self.sock)
        self.sock.close()
        self.poller.close()
        for sock in self.met:
            sock.close()
        if self.tls is not None:
            self.tls.close()


@pytest.fixture
def server(papers: Papers) -> Iterator[Server]:
    started = Server(papers)
    yield started
    started.close()


@pytest.fixture
def client(papers: Papers) -> Iterator[Tls]:
    loaded = made(papers)
    yield loaded
    loaded.close()


def dial(client: Tls, place: tuple[str, int], host: str = HERE) -> socket.socket:
    return client.dial(socket.create_connection(place), TcpAddress(host, place[1]), 10.0)


Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends(server: Server, client: Tls) -> Iterator[Ends]:
    """Plain ends of one connection: who dialled and who accepted."""
    server.accept = server.keep
    here = dial(client, server.place)
    assert eventually(lambda: len(server.met) == 1)
    yield here, server.met[0]
    here.close()


def receive(sock: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size and (data := sock.recv(size - len(got))):
        got += data
    return bytes(got)


def undisturbed(client: Tls, server: Server) -> None:
    """Somebody welcome is served."""
    poller = Poller("client")
    connection = Connection(dial(client, server.place), echo)
    poller.watch(connection)
    try:
        assert connection.call(b"undisturbed", timeout=5.0)[0] == b"undisturbed"
    finally:
        connection.close()
        poller.close()


# ---- what comes through ----


def test_bytes_pass_both_ways_at_once(ends: Ends) -> None:
    here, there = ends
    said = os.urandom(3 * MIB + 17), os.urandom(2 * MIB + 1)
    with ThreadPoolExecutor(4) as threads:
        got = (
            threads.submit(receive, there, len(said[0])),
            threads.submit(receive, here, len(said[1])),
        )
        threads.submit(here.sendall, said[0])
        threads.submit(there.sendall, said[1])
        assert (got[0].result(), got[1].result()) == said


def test_each_direction_ends_for_itself(ends: Ends) -> None:
    here, there = ends
    for near, far in (ends, ends[::-1]):
        near.sendall(b"last words")
        near.shutdown(socket.SHUT_WR)
        assert receive(far, 100) == b"last words"
        if near is here:
            there.sendall(b"y" * MIB)
            assert receive(here, MIB) == b"y" * MIB
    assert receive(here, 1) == receive(there, 1) == b""


def test_the_last_words_of_who_closes_arrive(ends: Ends) -> None:
    here, there = ends
    there.sendall(b"unread")
    here.sendall(b"z" * 1000)
    here.close()
    assert receive(there, 2000) == b"z" * 1000


def test_a_plain_end_is_no_peer_of_this_host(ends: Ends, server: Server) -> None:
    here, there = ends
    for end in ends:
        assert end.family == socket.AF_INET
        assert peer.credentials(end) is None
    assert here.getpeername() == server.place == there.getsockname()
    assert there.getpeername() == here.getsockname()
    assert peer.name(here) == "{}:{}".format(*server.place)


def test_options_are_of_the_connection(ends: Ends, server: Server) -> None:
    here, there = ends
    assert not here.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    connection = Connection(here, echo)
    assert connection.credentials is None
    for option in (socket.TCP_NODELAY, socket.TCP_KEEPIDLE):
        assert here.getsockopt(socket.IPPROTO_TCP, option)
    with pytest.raises(UsageError, match="no poller"):
        connection.call(b"", [0])
    connection.close()
    with pytest.raises(UsageError, match="unix sockets only"):
        Connection(there, echo)._check(b"", [0])


def test_who_does_not_read_holds_up_who_writes(ends: Ends) -> None:
    here, there = ends
    here.setblocking(False)
    piece, sent = b"p" * MIB, 0
    while select.select([], [here], [], 0.2)[1]:
        sent += here.send(piece)
        assert sent < 64 * MIB
    got = 0
    while got < sent:
        got += len(there.recv(MIB))
    assert select.select([], [here], [], 5.0)[1]


# ---- the end ----


def test_the_connection_ends_when_its_user_is_gone(
    ends: Ends, server: Server, client: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the peer reads nothing, and does not go."""
    monkeypatch.setattr(relay, "LINGER", 0.1)
    here, _ = ends
    here.setblocking(False)
    while select.select([], [here], [], 0.1)[1]:
        here.send(b"p" * MIB)
    here.shutdown(socket.SHUT_RDWR)
    assert eventually(lambda: not client._relays)


def test_closing_cuts_what_does_not_end(
    ends: Ends, client: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "JOIN_TIME", 0.1)
    here, _ = ends
    threads = [each._thread for each in client._relays]
    client.close()
    assert not any(thread is not None and thread.is_alive() for thread in threads)
    assert here.recv(1) == b""
    client.close()


def test_after_the_end_nobody_shakes_hands(server: Server, client: Tls) -> None:
    client.close()
    with pytest.raises(ClosedError):
        dial(client, server.place)


def test_a_child_closes_what_it_inherited(ends: Ends, server: Server, client: Tls) -> None:
    here, there = ends
    inherited = [sock.fileno() for each in client._relays for sock in (each._sock, each._inner)]
    child = os.fork()
    if not child:
        client.forked()
        os._exit(sum(os.path.exists(f"/proc/self/fd/{fd}") for fd in inherited))
    assert os.waitpid(child, 0)[1] == 0
    here.sendall(b"still here")
    assert receive(there, 10) == b"still here"


# ---- who is refused ----


def refused(client: Tls, server: Server, caplog: pytest.LogCaptureFixture) -> tuple[Error, str]:
    """What the client raises, and what the server says of it."""
    caplog.set_level("INFO", "kvferry.rpc")
    begun = time.monotonic()
    with pytest.raises((RightsError, PeerError)) as caught:
        dial(client, server.place)
    assert eventually(lambda: "was refused" in caplog.text)
    assert time.monotonic() - begun < 5
    assert caught.value.cause == "tls"
    return caught.value, caplog.text


@pytest.mark.parametrize("who", ["client", "server"])
@pytest.mark.parametrize(
    ("what", "says", "hears"),
    [
        ("another authority", "self-signed certificate in certificate chain", "unknown ca"),
        ("expired", "has expired", "certificate expired"),
    ],
)
def test_a_bad_certificate_is_refused_on_both_sides(
    authority: Authority,
    papers: Papers,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    who: str,
    what: str,
    says: str,
    hears: str,
) -> None:
    if what == "expired":
        bad = authority.issue(HERE, valid=-HOUR, called="late")
    else:
        bad = Authority(folder, "other").issue(HERE, called="others")
        bad = bad._replace(ca=papers.ca)  # it believes the right ones itself
    server = Server(bad if who == "server" else papers)
    client = made(bad if who == "client" else papers)
    error, log = refused(client, server, caplog)
    server.close()
    if what != "expired":
        says = "unable to get local issuer certificate"
    by_client = f"the peer's certificate is refused: {'certificate ' * (what == 'expired')}{says}"
    mine, theirs = (str(error), log) if who == "server" else (log, str(error))
    assert isinstance(error, RightsError)
    assert by_client in mine
    assert f"the peer refuses this engine's certificate: {hears}" in theirs


def test_the_name_that_was_dialled_stands_in_the_certificate(
    authority: Authority, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(authority.issue("10.0.0.1", "elsewhere", called="elsewhere"))
    with ExitStack() as undo:
        undo.callback(server.close)
        for host in (HERE, "localhost"):
            with pytest.raises(RightsError, match=f"not valid for '{host}'") as caught:
                dial(made(papers), server.place, host)
            assert (caught.value.cause, caught.value.peer) == ("tls", f"{host}:{server.place[1]}")
        dial(made(papers), server.place, "elsewhere").close()
        dial(made(papers, check_host=False), server.place).close()


def test_a_zone_is_not_part_of_a_name(authority: Authority, papers: Papers) -> None:
    server = Server(authority.issue("fe80::1", called="zone"))
    dial(made(papers), server.place, "fe80::1%eth0").close()
    server.close()


def test_what_is_no_name_is_refused(client: Tls, server: Server) -> None:
    for host in ("", ".", "x" * 300, "a\0b", "é" * 70):
        with pytest.raises((PeerError, RightsError)) as caught:
            dial(client, server.place, host)
        assert caught.value.cause == "tls"


def test_who_shows_no_certificate_is_refused(
    server: Server, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kvferry.rpc")
    bare = ssl.create_default_context(cafile=papers.ca)
    with (
        socket.create_connection(server.place) as raw,
        bare.wrap_socket(raw, server_hostname=HERE) as sock,
        pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
    ):
        sock.recv(1)
    assert eventually(lambda: "shows no certificate" in caplog.text)


def test_older_tls_is_refused(
    server: Server, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kvferry.rpc")
    old = ssl.create_default_context(cafile=papers.ca)
    old.load_cert_chain(papers.cert, papers.key)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(server.place) as raw,
        pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"),
    ):
        old.wrap_socket(raw, server_hostname=HERE)
    assert eventually(lambda: "no TLS 1.3: unsupported protocol" in caplog.text)


def test_a_client_without_tls_hears_why(
    server: Server, client: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kvferry.rpc")
    poller = Poller("client")
    connection = Connection(socket.create_connection(server.place), echo)
    poller.watch(connection)
    with pytest.raises(PeerError, match="speaks TLS alone") as caught:
        connection.call(b"hello", timeout=5.0)
    assert caught.value.cause == "tls"
    poller.close()
    assert eventually(lambda: "no TLS 1.3: wrong version number" in caplog.text)
    undisturbed(client, server)


def test_a_server_without_tls_is_noticed(client: Tls, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kvferry.rpc")
    plain = Server(None)
    with pytest.raises(PeerError, match="hung up in the TLS handshake") as caught:
        dial(client, plain.place)
    assert caught.value.cause == "tls"
    assert eventually(lambda: "speaks TLS, and this engine does not" in caplog.text)
    plain.close()


def test_a_silent_server_is_not_waited_for(client: Tls) -> None:
    with socket.create_server((HERE, 0)) as silent:
        sock = socket.create_connection(silent.getsockname())
        with pytest.raises(Timeout) as caught:
            client.dial(sock, TcpAddress(*silent.getsockname()), 0.1)
    assert caught.value.cause == "connect_timeout"


# ---- strangers, and who meddles ----


def test_slow_ones_hold_up_nobody_and_are_hung_up_on(papers: Papers, client: Tls) -> None:
    server = Server(papers, patience=0.5)
    before = threading.active_count()
    strangers = [socket.create_connection(server.place) for _ in range(100)]
    for slow in strangers[::2]:
        slow.sendall(b"\x16\x03\x01\x02\x00\x01")
    undisturbed(client, server)
    assert threading.active_count() < before + 20
    for stranger in strangers:
        stranger.settimeout(5.0)
        assert stranger.recv(100) == b""
        stranger.close()
    server.close()


JUNK = [
    b"\0" * 1000,
    os.urandom(5000),
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\xff\xff" + b"x" * 70000,
    b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\x00",
    b"\x16\x03\x03\x00\x01\x01" * 5000,
    b"\x14\x03\x03\x00\x01\x01" * 5000,
    b"\x17\x03\x03\x00\x20" + b"x" * 32,
    b"\x15\x03\x03\x00\x02\x01\x00",
]


def test_junk_is_hung_up_on(server: Server, client: Tls) -> None:
    for junk in JUNK:
        with socket.create_connection(server.place) as stranger, suppress(OSError):
            stranger.settimeout(5.0)
            stranger.sendall(junk)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(1000):
                pass
        assert not server.connections
    undisturbed(client, server)


def test_a_handshake_that_is_cut_anywhere_leaves_nothing(server: Server, papers: Papers) -> None:
    client = made(papers)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = client._client.wrap_bio(incoming, outgoing, server_hostname=HERE)
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    hello = outgoing.read()
    for size in range(0, len(hello), 29):
        with socket.create_connection(server.place) as stranger:
            stranger.sendall(hello[:size])
    undisturbed(client, server)
    client.close()


def test_a_record_that_was_meddled_with_breaks_the_connection(
    server: Server, client: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kvferry.rpc")
    with Wiretap(server.place) as tap:
        poller = Poller("client")
        connection = Connection(dial(client, tap.place), echo)
        poller.watch(connection)
        assert connection.call(b"before", timeout=5.0)[0] == b"before"
        tap.meddle = lambda data: data[:-1] + bytes([data[-1] ^ 1])
        with pytest.raises(PeerError, match="bad record mac") as caught:
            connection.call(b"after", timeout=5.0)
        assert caught.value.cause == "tls"
        assert eventually(lambda: "broke off TLS: bad record mac" in caplog.text)
        poller.close()
        assert b"before" not in tap.heard


def test_a_record_that_is_cut_short_is_an_end(server: Server, client: Tls) -> None:
    with Wiretap(server.place) as tap:
        poller = Poller("client")
        connection = Connection(dial(client, tap.place), echo)
        poller.watch(connection)
        assert connection.call(b"before", timeout=5.0)[0] == b"before"
        tap.meddle = lambda data: None
        with pytest.raises(PeerError) as caught:
            connection.call(b"after", timeout=5.0)
        assert caught.value.cause == "connection_lost"
        assert eventually(lambda: not client._relays)
        poller.close()


class Meddler:
    """Does one thing to the byte at a random place on the way to the client."""

    KINDS = ("flip", "cut", "drop", "add", "repeat")

    def __init__(self, chance: random.Random) -> None:
        self.kind = chance.choice(self.KINDS)
        self._left = chance.randrange(9000)

    def __call__(self, data: bytes) -> bytes | None:
        at, self._left = self._left, self._left - len(data)
        if not 0 <= at < len(data):
            return data
        if self.kind == "cut":
            return None
        head, byte, tail = data[:at], data[at], data[at + 1 :]
        changed = {
            "flip": head + bytes([byte ^ 0x20]) + tail,
            "drop": head + tail,
            "add": head + b"add" + data[at:],
            "repeat": data + data,
        }
        return changed[self.kind]


@pytest.mark.parametrize("cases", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_whatever_is_meddled_with_nothing_wrong_is_believed(
    server: Server, client: Tls, cases: int
) -> None:
    chance = random.Random(cases)
    for _ in range(cases):
        with Wiretap(server.place) as tap, ExitStack() as undo:
            tap.meddle = Meddler(chance)
            poller = Poller("client")
            undo.callback(poller.close)
            with suppress(PeerError, RightsError, Timeout):
                sock = socket.create_connection(tap.place)
                plain = client.dial(sock, TcpAddress(*tap.place), 0.3)
                connection = Connection(plain, echo)
                connection.limit = MIB
                poller.watch(connection)
                for size in (10, 1000, 5000, 3000):
                    body = os.urandom(size)
                    assert connection.call(body, timeout=0.3)[0] == body
        assert eventually(lambda: not client._relays)
    undisturbed(client, server)


# ---- the files ----


def test_without_files_there_is_no_tls() -> None:
    assert tls.load(Options(token_file=Path("none"))) is None


def test_all_three_are_given_or_none(papers: Papers) -> None:
    for left_out in ("tls_cert", "tls_key", "tls_ca"):
        files = papers.options() | {left_out: None}
        with pytest.raises(UsageError, match=f"KVFERRY_{left_out.upper()} is missing") as caught:
            tls.load(Options(token_file=Path("none"), **files))
        assert caught.value.cause == "tls"


def test_a_key_that_others_may_read_is_refused(papers: Papers, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(papers.key.read_bytes())
    key.chmod(0o640)
    with pytest.raises(RightsError, match=r"open to others .*chmod 600") as caught:
        tls.load(told(papers._replace(key=key)))
    assert caught.value.cause == "tls"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(RightsError, match="not a regular file"):
        tls.load(told(papers._replace(key=fifo)))


LOCKED = b"""-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAg=
-----END ENCRYPTED PRIVATE KEY-----
"""


def test_files_that_are_none_are_refused(papers: Papers, tmp_path: Path) -> None:
    for which, content in product(("cert", "key", "ca"), (None, b"", b"junk", LOCKED)):
        file = tmp_path / which
        file.unlink(missing_ok=True)
        if content is not None:
            file.touch(0o600)
            file.write_bytes(content)
        with pytest.raises(UsageError, match=f"{file}.* cannot be used") as caught:
            tls.load(told(papers._replace(**{which: file})))
        assert caught.value.cause == "tls"


def test_a_key_of_another_certificate_is_refused(authority: Authority, papers: Papers) -> None:
    other = authority.issue(HERE, called="another")
    with pytest.raises(UsageError, match="KEY_VALUES_MISMATCH"):
        tls.load(told(papers._replace(key=other.key)))

"""The page and the rest by HTTP: who is answered what, and that strangers get nothing and break
nothing."""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kvferry.errors import UsageError
from kvferry.watch import Server, patient
from kvferry.watch import server as servers
from kvferry.watch.page import page
from tests.watch.served import KEY, ask, bearing, said, served

PLACES = ["/", "/live", "/metrics", "/snapshot", "/events"]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X"]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as server:
        yield server.where.port


def plain(path: str, method: str = "GET", *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode()


@pytest.mark.parametrize("method", METHODS)
def test_strangers_learn_nothing(port: int, method: str) -> None:
    for path in [*PLACES, "/nothing", "*", "http://elsewhere/"]:
        without, wrong = plain(path, method), plain(path, method, "Authorization: Bearer no")
        for request, status in (without, 401), (wrong, 403):
            answer = ask(port, request)
            assert answer.status == status
            assert b"kvferry top --url" in answer.body or method == "HEAD"
            assert b"a:1" not in answer.body


def test_a_browser_enters_once_and_has_a_clean_address_then(port: int) -> None:
    entered = ask(port, plain(f"/?key={KEY}"))
    assert (entered.status, entered.headers["location"], entered.body) == (303, "/", b"")
    cookie = entered.headers["set-cookie"].split(";")[0]
    assert ask(port, plain("/", "GET", f"Cookie: {cookie}")).body == page().body
    assert ask(port, plain("/?key=other", "GET", f"Cookie: {cookie}")).status == 403
    assert ask(port, plain(f"/metrics?key={KEY}")).status == 403


def test_those_with_the_key_are_answered(port: int) -> None:
    shown = ask(port, bearing("/"))
    assert shown.headers["content-security-policy"] == page().policy
    assert shown.headers["cache-control"] == "no-store"
    metrics = ask(port, bearing("/metrics"))
    assert metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert metrics.body.endswith(b"# EOF\n")
    seen = json.loads(ask(port, bearing("/snapshot")).body)
    assert [each["address"] for each in seen["nodes"]] == ["a:1"]
    head = ask(port, bearing("/", "HEAD"))
    assert (head.body, int(head.headers["content-length"])) == (b"", len(page().body))
    assert ask(port, bearing("/nothing")).status == 404
    refused = ask(port, bearing("/", "POST", "Content-Length: 0"))
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


def test_a_stream_tells_the_past_and_then_what_is_new(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.sendall(bearing("/live"))
        got = b""
        while got.count(b"event: view") < 3:
            got += sock.recv(1 << 16)
    frames = re.findall(rb"event: (\w+)\ndata: (.*)\n\n", got)
    assert frames[0][0] == b"past"
    views = [json.loads(data) for name, data in frames if name == b"view"]
    times = [view["at"] for view in views]
    assert times == sorted(set(times))
    assert views[-1]["totals"]["reads"] > 0
    assert b"text/event-stream" in got


def test_only_the_file_itself_may_act() -> None:
    text = page().body.decode()
    assert re.findall(r"<(script|style)[ >]", text) == ["style", "script"]
    assert not re.search(r"(?:src|href)=\"(?!data:|#)|url\(|@import|\bon\w+=\"|style=\"", text)
    assert "unsafe" not in page().policy
    script = text[text.index("<script>") :]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)
    named = set(re.findall(r"\$\(\"(\w+)\"\)", script))
    assert named <= set(re.findall(r"id=\"(\w+)\"", text))


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nCookie: " + b"k" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", None),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET / HTTP/x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / \xff\xfe HTTP/1.1\r\n\r\n", 400),
        (b"GET /%00%ff?a=%gg HTTP/1.1\r\nCookie: \xff\xfe\r\n\r\n", 401),
        (b"GET / HTTP/1.1\r\nAuthorization: Bearer " + b"\xff" * 300 + b"\r\n\r\n", 403),
        (b"GET /?key=%ff%fe HTTP/1.1\r\n\r\n", 403),
    ],
)
def test_what_is_no_request_is_refused(port: int, request_: bytes, status: int | None) -> None:
    told = said(port, request_)
    if status is None:
        assert re.match(rb"HTTP/1\.1 4\d\d |$", told)
    else:
        assert told.startswith(b"HTTP/1.1 %d " % status)


def test_noise_changes_nothing(port: int) -> None:
    chance = random.Random(7)
    valid = [bearing("/snapshot"), plain(f"/?key={KEY}"), plain("/", "GET", f"Cookie: a={KEY}")]
    for at in range(150):
        noise = bytearray(chance.choice(valid))
        for _ in range(chance.randrange(1, 12)):
            where = chance.randrange(len(noise))
            noise[where : where + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
        with socket.create_connection(("127.0.0.1", port), 5) as sock:
            try:
                sock.sendall(noise[: chance.randrange(len(noise))] if at % 3 else noise)
                sock.shutdown(socket.SHUT_WR)
                if at % 4:
                    told = sock.recv(1 << 16)
                    assert told == b"" or told.startswith(b"HTTP/1.1 ")
            except ConnectionError:
                pass
    assert ask(port, bearing("/snapshot")).status == 200


def test_who_is_slow_or_one_too_many_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "PATIENCE", 0.6)
    monkeypatch.setattr(servers, "PLAIN", 4)
    monkeypatch.setattr(servers, "STREAMS", 2)
    with served() as server, ExitStack() as stack:
        port = server.where.port

        def connected(request: bytes) -> socket.socket:
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            sock.sendall(request)
            return sock

        streams = [connected(bearing("/live")) for _ in "ab"]
        for sock in streams:
            assert sock.recv(20).startswith(b"HTTP/1.1 200")
        assert ask(port, bearing("/live")).status == 503
        began = time.monotonic()
        slow = [connected(b"GET / HTTP/1.1\r\n") for _ in range(4)]
        assert said(port, bearing("/snapshot")).startswith(b"HTTP/1.1 503")
        trickling = threading.Thread(target=trickle, args=[slow[0]])
        trickling.start()
        for sock in slow[1:]:
            assert sock.recv(20).startswith(b"HTTP/1.1 431")
        assert 0.4 < time.monotonic() - began < 3
        trickling.join()
        assert ask(port, bearing("/snapshot")).status == 200  # there is a thread again


def trickle(sock: socket.socket) -> None:
    """A byte now and then does not buy time."""
    try:
        for _ in range(100):
            sock.sendall(b"a")
            time.sleep(0.05)
    except ConnectionError:
        pass


def test_it_ends_at_once_whoever_is_there() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(served())
        socks = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.where.port), 10))
            for _ in range(3)
        ]
        socks[0].sendall(bearing("/live"))
        assert socks[0].recv(20)
        socks[1].sendall(b"GET ")
        began = time.monotonic()
        server.close()
        server.close()
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("address", ["nowhere", "unix:///tmp/a", "127.0.0.1:70000", "256.0.0.1:1"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(UsageError) as raised, served(at=address):
        pass
    assert raised.value.cause == "address"


def test_an_address_that_is_taken(port: int) -> None:
    with pytest.raises(UsageError, match="in use"), served(at=f"127.0.0.1:{port}"):
        pass


def test_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    with served(at="[::1]:0") as server:
        assert isinstance(server, Server)
        assert server.page == f"http://[::1]:{server.where.port}"

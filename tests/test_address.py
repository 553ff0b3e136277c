"""Addresses: what they mean, that they survive being printed, and that junk is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvferry.address import TcpAddress, UnixAddress, parse
from kvferry.errors import UsageError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:1", TcpAddress("localhost", 1)),
        ("kv://10.0.0.1:26000", TcpAddress("10.0.0.1", 26000)),
        ("[::1]:65535", TcpAddress("::1", 65535)),
        ("kv://[fe80::1%eth0]:80", TcpAddress("fe80::1%eth0", 80)),
        ("a.b-c.example:00080", TcpAddress("a.b-c.example", 80)),
        ("unix:///run/kv.sock", UnixAddress("/run/kv.sock")),
        ("unix:///with space/ünï", UnixAddress("/with space/ünï")),
        ("unix://" + "/" + "x" * 106, UnixAddress("/" + "x" * 106)),
    ],
)
def test_good(text: str, address: TcpAddress | UnixAddress) -> None:
    assert parse(text) == address
    assert parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":1",
        "host:x",
        "host:-1",
        "host:+1",
        "host:1 ",
        " host:1",
        "host:1\n",
        "host:65536",
        "host:100000",
        "host:٣",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[host]:80",
        "[]:1",
        "http://host:1",
        "kv://",
        "kv://kv://host:1",
        "kv://host:1/",
        "host:1/path",
        "unix://",
        "unix://relative",
        "unix:///",
        "unix:///dir/",
        "unix:/run/x",
        "unix:///a\0b",
        "unix:///" + "x" * 107,
        "unix:///" + "é" * 54,
    ],
)
def test_bad(text: str) -> None:
    with pytest.raises(UsageError, match="bad address") as caught:
        parse(text)
    assert caught.value.cause == "address"
    assert repr(text) in str(caught.value)


def test_port_0_is_for_listening() -> None:
    assert parse("h:0", listening=True) == TcpAddress("h", 0)
    with pytest.raises(UsageError, match="port 0"):
        parse("h:0")


HOST = st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9.-]{0,20}", fullmatch=True)
V6 = st.ip_addresses(v=6).map(str)
PATH = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)


@given(st.one_of(HOST, V6), st.integers(0, 65535))
def test_tcp_round_trip(host: str, port: int) -> None:
    address = TcpAddress(host, port)
    assert parse(str(address), listening=True) == address
    assert parse(f"kv://{address}", listening=True) == address


@given(PATH.filter(lambda path: not path.endswith("/")))
def test_unix_round_trip(path: str) -> None:
    address = UnixAddress("/" + path)
    assert parse(str(address)) == address


@given(
    st.one_of(
        st.text(max_size=40),
        st.text(alphabet="kvunix:/[]0123456789.%a\0\n -", max_size=30),
        st.from_regex(r"(kv://|unix://)?.{0,10}(:[0-9]{0,6})?"),
    ),
    st.booleans(),
)
@example("[::1%]:1", False)
def test_junk_is_refused_or_survives(text: str, listening: bool) -> None:
    try:
        address = parse(text, listening=listening)
    except UsageError:
        return
    assert parse(str(address), listening=listening) == address


@pytest.mark.parametrize(
    "text",
    [
        "\udc80:1",
        "unix:///run/\udc80.sock",
        "unix:///\ud800",
    ],
    ids=ascii,
)
def test_text_that_is_no_utf_8_is_refused_or_survives(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse(str(parse(text))) == parse(text)

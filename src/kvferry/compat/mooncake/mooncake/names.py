"""From what callers say about where an engine is, to addresses."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from kvferry.address import TcpAddress
from kvferry.errors import UsageError

__all__ = ["Named", "joined", "numeric", "parse", "wildcard"]

_NAME = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]\s]+))(?::(?P<port>[0-9]{1,5}))?")


class Named(NamedTuple):
    """A host without brackets and, where one was said, a port above 0."""

    host: str
    port: int | None


def parse(text: str) -> Named:
    """ "host", "host:port", "[IPv6]", "[IPv6]:port" or a bare IPv6 address. Port 0 says nothing."""
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    match = _NAME.fullmatch(text)
    if match is None or int(match["port"] or 0) > 65535 or not _fits(match["v6"]):
        raise UsageError(f"bad host name {text!r}: expected host or host:port", cause="address")
    return Named(match["v6"] or match["host"], int(match["port"] or 0) or None)


def _fits(v6: str | None) -> bool:
    if v6 is None:
        return True
    try:
        return ipaddress.ip_address(v6).version == 6
    except ValueError:
        return False


def numeric(host: str, ipv6: bool) -> str:
    """An address of `host`: IPv6 first where that is wanted, IPv4 first otherwise.

    Blocks while the name is looked up. Raises UsageError when nobody knows it.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except OSError as error:
        raise UsageError(f"host {host!r}: {error.strerror}", cause="address") from error
    wanted = socket.AF_INET6 if ipv6 else socket.AF_INET
    found.sort(key=lambda each: each[0] != wanted)
    return str(found[0][4][0])


def wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def joined(host: str, port: int) -> str:
    """ "host:port", with brackets where they are needed."""
    return str(TcpAddress(host, port))

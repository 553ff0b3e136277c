"""Where an engine listens: ``host:port``, ``kv://host:port`` or ``unix:///path``.

IPv6 hosts stand in brackets. Port 0 asks the kernel for a free port and is for listening only.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .errors import UsageError

__all__ = ["Address", "TcpAddress", "UnixAddress", "parse"]

# sun_path is 108 bytes with its terminating zero.
UNIX_PATH_MAX = 107

_TCP = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s:/\[\]\x00-\x20\x7f]+)):(?P<port>[0-9]{1,5})"
)


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host, without brackets, and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket file, as an absolute path."""

    path: str

    def __str__(self) -> str:
        return f"unix://{self.path}"


Address = TcpAddress | UnixAddress


def parse(text: str, *, listening: bool = False) -> Address:
    """The address that `text` names.

    Raises UsageError that quotes the text and says what is wrong with it. Port 0 is refused
    unless `listening`.
    """
    if not isinstance(text, str):
        raise UsageError(f"an address is a str, not {type(text).__name__}", cause="address")
    if text.startswith("unix://"):
        return _unix(text)
    match = _TCP.fullmatch(text.removeprefix("kv://"))
    if match is None:
        raise _refused(text, "expected host:port, [IPv6]:port, kv://host:port or unix:///path")
    port = int(match["port"])
    if port > 65535:
        raise _refused(text, f"port {port} is above 65535")
    if port == 0 and not listening:
        raise _refused(text, "port 0 can be listened on, not connected to")
    return TcpAddress(match["v6"] or match["host"], port)


def _unix(text: str) -> UnixAddress:
    path = text.removeprefix("unix://")
    if not path.startswith("/"):
        raise _refused(text, "a unix address holds an absolute path, as in unix:///run/kv.sock")
    if "\0" in path or path.endswith("/"):
        raise _refused(text, "the path does not name a file")
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise _refused(text, "the path cannot be a file's name") from None
    if length > UNIX_PATH_MAX:
        raise _refused(text, f"the path is longer than {UNIX_PATH_MAX} bytes")
    return UnixAddress(path)


def _refused(text: str, why: str) -> UsageError:
    return UsageError(f"bad address {text!r}: {why}", cause="address")

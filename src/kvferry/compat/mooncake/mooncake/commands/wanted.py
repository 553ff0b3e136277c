"""What the flags of a master come to: addresses, spans, settings. Pure but for `interface`."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import NamedTuple

from kvferry.store.directory import Spans

from ..settings import LONGEST, Settings
from .flags import BadFlag, Flags

__all__ = ["Wanted", "duration", "wanted"]

SECOND = 1_000_000_000
MILLISECONDS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
PORTS = range(65536)
ANYWHERE = {"0.0.0.0", "::"}
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
SIOCGIFADDR = 0x8915  # linux/sockios.h
LONGEST_TTL = 86_400  # seconds


class Wanted(NamedTuple):
    """host, port      of the directory
    admin, metadata  where HTTP is answered; metadata None: by nobody
    etcd             endpoints through which one of several is elected; none: this one leads
    """

    host: str
    port: int
    admin: tuple[str, int]
    metadata: tuple[str, int] | None
    etcd: tuple[str, ...]
    cluster: str
    spans: Spans
    settings: Settings

    @property
    def listen(self) -> str:
        return _joined(self.host, self.port)

    @property
    def reached(self) -> str:
        """From this host."""
        return f"kv://{_joined(LOOPBACK.get(self.host, self.host), self.port)}"


def wanted(flags: Flags) -> Wanted:
    """Raises BadFlag for values that do not go together, or mean nothing."""
    name = flags.text("rpc_interface")
    host = interface(name) if name else flags.text("rpc_address")
    port = _port(flags, "rpc_port") or _port(flags, "port")
    if not port:
        raise BadFlag("a master has a port")
    etcd = _etcd(flags) if flags.switch("enable_ha") else ()
    if etcd and host in ANYWHERE:
        raise BadFlag(f"--enable_ha: others reach no master at {host}, say --rpc_address")
    admin = flags.text("metrics_host"), _port(flags, "metrics_port")
    at = flags.text("http_metadata_server_host"), _port(flags, "http_metadata_server_port")
    metadata = at if flags.switch("enable_http_metadata_server") else None
    cluster = flags.text("cluster_id")
    return Wanted(host, port, admin, metadata, etcd, cluster, _spans(flags), _settings(flags))


def duration(flags: Flags, name: str) -> float:
    """Seconds: of milliseconds, or of a number with ms, s, m or h."""
    text = flags.text(name)
    digits = text.rstrip("hms")
    unit = MILLISECONDS.get(text[len(digits) :])
    if unit is None or not digits.isdecimal() or len(digits) > 12:
        raise BadFlag(f"--{name}: {text!r} is no time, such as 10000, 500ms or 10s")
    return int(digits) * unit / 1000


def interface(name: str) -> str:
    """The IPv4 address of a network interface. Raises BadFlag where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            told = fcntl.ioctl(asking, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError as error:
            raise BadFlag(f"--rpc_interface: {name}: {error.strerror}") from None
    return socket.inet_ntoa(told[20:24])


def _etcd(flags: Flags) -> tuple[str, ...]:
    kind = flags.text("ha_backend_type")
    if kind != "etcd":
        raise BadFlag(f"--ha_backend_type: {kind!r} is not here, etcd is")
    text = flags.text("ha_backend_connstring") or flags.text("etcd_endpoints")
    found = tuple(filter(None, (each.strip() for each in text.split(";"))))
    if not found:
        raise BadFlag("--enable_ha: --etcd_endpoints says where etcd is")
    return found


def _spans(flags: Flags) -> Spans:
    """A client is a suspect after a third of its time, and is to be heard of twice before."""
    ttl = flags.number("client_ttl")
    if not 1 <= ttl <= LONGEST_TTL:
        raise BadFlag(f"--client_ttl: {ttl} is not from 1 to {LONGEST_TTL} seconds")
    suspect = min(3 * SECOND, ttl * SECOND // 3)
    return Spans(beat=min(SECOND, suspect // 2), suspect=suspect, dead=ttl * SECOND)


def _settings(flags: Flags) -> Settings:
    high, share = flags.ratio("eviction_high_watermark_ratio"), flags.ratio("eviction_ratio")
    lease = duration(flags, "default_kv_lease_ttl")
    if lease > LONGEST:
        raise BadFlag(f"--default_kv_lease_ttl: {LONGEST:.0f} seconds at most")
    if not (0 < high < 1 and 0 < share < high):
        raise BadFlag("--eviction_ratio and --eviction_high_watermark_ratio: 0 < ratio < high < 1")
    return Settings(lease, high, high - share)


def _port(flags: Flags, name: str) -> int:
    if flags.number(name) not in PORTS:
        raise BadFlag(f"--{name}: {flags.number(name)} is no port")
    return flags.number(name)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

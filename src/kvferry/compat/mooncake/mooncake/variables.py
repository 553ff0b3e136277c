"""The MC_* environment variables that mean something here, and the one place that reads them.

MC_TRANSFER_TIMEOUT           seconds a transfer may take, at least 5; default 30
MC_HANDSHAKE_CONNECT_TIMEOUT  seconds to connect to a peer, and for a probe; default 5
MC_MIN_RPC_PORT, MC_MAX_RPC_PORT
                              where a port to listen on is picked; default 15000 to 17000.
                              MC_MIN_PRC_PORT and MC_MAX_PRC_PORT are read, too
MC_TCP_BIND_ADDRESS           listen there, instead of at the host that initialize names
MC_USE_IPV6                   set: a host name means its IPv6 address first
MC_METADATA_CLUSTER_ID        goes into the keys at a metadata service
MC_LEGACY_RPC_PORT_BINDING    set: listen on the port that initialize names, or not at all
MC_FORCE_TCP                  set: bytes cross over sockets even where there is a shorter way

MOONCAKE_CONFIG_PATH, MOONCAKE_MASTER, MOONCAKE_TE_META_DATA_SERVER, MOONCAKE_GLOBAL_SEGMENT_SIZE,
MOONCAKE_LOCAL_BUFFER_SIZE, MOONCAKE_PROTOCOL, MOONCAKE_DEVICE, MOONCAKE_LOCAL_HOSTNAME,
MOONCAKE_TENANT_ID, MOONCAKE_ENABLE_SSD_OFFLOAD, MOONCAKE_OFFLOAD_FILE_STORAGE_PATH,
MOONCAKE_ENABLE_CLIENT_HTTP_SERVER, MOONCAKE_CLIENT_HTTP_PORT
                              what MooncakeConfig.load_from_env finds

A switch among the MC_* is on when it is set, whatever it is set to. All other MC_* variables tune
transports that are not here, and change nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Offload", "Variables", "offload", "read", "store_settings"]

logger = logging.getLogger("mooncake")

SHORTEST_TRANSFER_TIMEOUT = 5.0
LONGEST = 1e6  # seconds
PORT_MAX = 65535

NUMBERS = {"MC_TRANSFER_TIMEOUT", "MC_HANDSHAKE_CONNECT_TIMEOUT"}
PORTS = {"MC_MIN_RPC_PORT", "MC_MAX_RPC_PORT", "MC_MIN_PRC_PORT", "MC_MAX_PRC_PORT"}
TEXTS = {"MC_TCP_BIND_ADDRESS", "MC_METADATA_CLUSTER_ID"}
SWITCHES = {"MC_USE_IPV6", "MC_LEGACY_RPC_PORT_BINDING", "MC_FORCE_TCP"}


# Of MOONCAKE_*: which field of a MooncakeConfig it is.
SETTINGS = {
    "MASTER": "master_server_address",
    "TE_META_DATA_SERVER": "metadata_server",
    "GLOBAL_SEGMENT_SIZE": "global_segment_size",
    "LOCAL_BUFFER_SIZE": "local_buffer_size",
    "PROTOCOL": "protocol",
    "DEVICE": "device_name",
    "LOCAL_HOSTNAME": "local_hostname",
    "TENANT_ID": "tenant_id",
    "ENABLE_SSD_OFFLOAD": "enable_ssd_offload",
    "OFFLOAD_FILE_STORAGE_PATH": "ssd_offload_path",
    "ENABLE_CLIENT_HTTP_SERVER": "enable_client_http_server",
    "CLIENT_HTTP_PORT": "client_http_port",
}


@dataclass(frozen=True, slots=True)
class Variables:
    """What was found. `ports` are those to pick from; `unused` are MC_* that change nothing."""

    transfer_timeout: float = 30.0
    connect_timeout: float = 5.0
    ports: range = range(15000, 17001)
    bind_address: str | None = None
    ipv6: bool = False
    cluster: str = ""
    legacy_port: bool = False
    force_tcp: bool = False
    unused: tuple[str, ...] = ()


DEFAULT = Variables()


def read(environ: Mapping[str, str] = os.environ) -> Variables:
    """What the environment says. A value that makes no sense is warned about and not used."""
    known = NUMBERS | PORTS | TEXTS | SWITCHES
    timeout = _seconds(environ, "MC_TRANSFER_TIMEOUT", DEFAULT.transfer_timeout)
    return Variables(
        transfer_timeout=max(timeout, SHORTEST_TRANSFER_TIMEOUT),
        connect_timeout=_seconds(environ, "MC_HANDSHAKE_CONNECT_TIMEOUT", DEFAULT.connect_timeout),
        ports=_ports(environ),
        bind_address=environ.get("MC_TCP_BIND_ADDRESS") or None,
        ipv6="MC_USE_IPV6" in environ,
        cluster=environ.get("MC_METADATA_CLUSTER_ID", ""),
        legacy_port="MC_LEGACY_RPC_PORT_BINDING" in environ,
        force_tcp="MC_FORCE_TCP" in environ,
        unused=tuple(sorted(n for n in environ if n.startswith("MC_") and n not in known)),
    )


def store_settings(environ: Mapping[str, str] = os.environ) -> tuple[str | None, dict[str, str]]:
    """The file that MOONCAKE_CONFIG_PATH names, and fields of a MooncakeConfig that are set."""
    found = {
        field: environ[f"MOONCAKE_{name}"]
        for name, field in SETTINGS.items()
        if f"MOONCAKE_{name}" in environ
    }
    return environ.get("MOONCAKE_CONFIG_PATH") or None, found


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST:
        _warn(name, text, f"{default:g} s")
        return default
    return seconds


def _ports(environ: Mapping[str, str]) -> range:
    default = DEFAULT.ports
    low = _port(environ, ("MC_MIN_RPC_PORT", "MC_MIN_PRC_PORT"), default[0])
    high = _port(environ, ("MC_MAX_RPC_PORT", "MC_MAX_PRC_PORT"), default[-1])
    if low > high:
        logger.warning(
            "ports %d to %d are none: %d to %d are used", low, high, default[0], default[-1]
        )
        return default
    return range(low, high + 1)


def _port(environ: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for name in names:
        text = environ.get(name)
        if text is None:
            continue
        if text.isdecimal() and len(text) < 6 and 0 < int(text) <= PORT_MAX:
            return int(text)
        _warn(name, text, str(default))
    return default


def _warn(name: str, text: str, default: str) -> None:
    logger.warning("%s is %r, which makes no sense: %s is used", name, text, default)


class Offload(NamedTuple):
    """Where a client's disk is, and how many bytes it may take there; None: nothing was said."""

    folder: str | None
    size: str | None


def offload(environ: Mapping[str, str] = os.environ) -> Offload:
    """MOONCAKE_OFFLOAD_FILE_STORAGE_PATH and MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES."""
    folder = environ.get("MOONCAKE_OFFLOAD_FILE_STORAGE_PATH") or None
    return Offload(folder, environ.get("MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES") or None)

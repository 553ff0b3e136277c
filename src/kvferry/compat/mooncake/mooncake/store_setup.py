"""What `setup` is told, in any of its forms. Nothing is done here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvferry.errors import UsageError

from .names import joined, numeric, parse

__all__ = ["Setup", "bytes_of", "of_config", "setup_of"]

MASTER_PORT = 50051
DEFAULT_MASTER = f"127.0.0.1:{MASTER_PORT}"
DEFAULT_BYTES = 16 << 20
DEFAULT_TENANT = "default"
UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}  # powers of two
TRUE = {"1", "true", "yes", "on"}

_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([kmgt]?)(?:i?b)?")


@dataclass(frozen=True, slots=True)
class Setup:
    """global_segment_size  bytes that this process contributes; 0: none
    local_buffer_size  a hint: values may be larger
    protocol, devices  hints
    """

    local_hostname: str
    metadata_server: str
    global_segment_size: int
    local_buffer_size: int
    protocol: str
    devices: str
    master: str
    ssd: str | None = None
    tenant: str | None = None
    http_port: int | None = None

    def directory(self) -> str:
        """Address of the master as kvferry takes it. Raises UsageError for what names none, such as
        etcd://. Blocks while a name is looked up."""
        text = self.master.removeprefix("kv://")
        if "://" in text:
            raise UsageError(f"a master is host:port, not {self.master!r}", cause="address")
        named = parse(text)
        return f"kv://{joined(numeric(named.host, ipv6=False), named.port or MASTER_PORT)}"

    def listening(self) -> list[str]:
        """Where this process may listen, to be tried in this order. Blocks as `directory`."""
        named = parse(self.local_hostname)
        host = numeric(named.host, ipv6=False)
        return [joined(host, port) for port in (named.port, 0) if port is not None]


def setup_of(
    local_hostname: str,
    metadata_server: str,
    global_segment_size: int | str,
    local_buffer_size: int | str,
    protocol: str,
    rdma_devices: str,
    master_server_addr: str,
    enable_ssd_offload: bool = False,
    ssd_offload_path: str = "",
    tenant_id: str = DEFAULT_TENANT,
    enable_client_http_server: bool = False,
    client_http_port: int = 9300,
) -> Setup:
    """Raises UsageError for sizes that are none, and for an SSD without a folder."""
    if enable_ssd_offload and not ssd_offload_path:
        raise UsageError("enable_ssd_offload needs ssd_offload_path", cause="ssd_folder")
    return Setup(
        local_hostname,
        metadata_server,
        bytes_of(global_segment_size),
        bytes_of(local_buffer_size),
        protocol,
        rdma_devices,
        master_server_addr,
        ssd_offload_path if enable_ssd_offload else None,
        None if tenant_id in ("", DEFAULT_TENANT) else tenant_id,
        client_http_port if enable_client_http_server else None,
    )


def of_config(config: Mapping[str, Any]) -> Setup:
    """Of a dict, whose values may be text. Both spellings of the master and the devices count;
    other keys do not. Raises UsageError."""
    said = {key: str(value) for key, value in config.items()}
    for name in ("local_hostname", "metadata_server"):
        if not said.get(name):
            raise UsageError(f"setup needs {name}", cause="setup")
    return setup_of(
        said["local_hostname"],
        said["metadata_server"],
        said.get("global_segment_size", DEFAULT_BYTES),
        said.get("local_buffer_size", DEFAULT_BYTES),
        said.get("protocol", "tcp"),
        said.get("rdma_devices", said.get("device_name", "")),
        said.get("master_server_addr", said.get("master_server_address", DEFAULT_MASTER)),
        said.get("enable_ssd_offload", "").lower() in TRUE,
        said.get("ssd_offload_path", ""),
        said.get("tenant_id", DEFAULT_TENANT),
        said.get("enable_client_http_server", "").lower() in TRUE,
        _number(said.get("client_http_port", "9300")),
    )


def bytes_of(size: int | str) -> int:
    """16777216, "16777216", "16MB", "1.5 gb" and "16m" are sizes. Raises UsageError for others."""
    found = _SIZE.fullmatch(str(size).strip().lower())
    if found is None:
        raise UsageError(f"{size!r} is no size, such as 16777216 or 16MB", cause="bad_size")
    number, unit = found[1], 1 << UNITS[found[2]]
    return int(number) * unit if number.isdecimal() else int(float(number) * unit)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{text!r} is no port", cause="bad_size")
    return int(text)

"""MooncakeConfig: what programs pass on to `setup`, from a file or from the environment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kvferry.errors import UsageError

from . import variables
from .store_setup import TRUE, bytes_of

__all__ = ["DEFAULT_GLOBAL_SEGMENT_SIZE", "DEFAULT_LOCAL_BUFFER_SIZE", "MooncakeConfig"]

DEFAULT_GLOBAL_SEGMENT_SIZE = 3355443200
DEFAULT_LOCAL_BUFFER_SIZE = 1 << 30
FALSE = {"0", "false", "no", "off", ""}

REQUIRED = ("local_hostname", "metadata_server", "master_server_address")


@dataclass
class MooncakeConfig:
    """Sizes in bytes. See `setup` for what each means."""

    local_hostname: str
    metadata_server: str
    global_segment_size: int
    local_buffer_size: int
    protocol: str
    device_name: str | None
    master_server_address: str
    enable_ssd_offload: bool = False
    ssd_offload_path: str = ""
    tenant_id: str = "default"
    enable_client_http_server: bool = False
    client_http_port: int = 9300

    @staticmethod
    def from_file(file_path: str) -> MooncakeConfig:
        """Of a JSON object with these fields, sizes as numbers or "4gb". Raises ValueError for what
        is missing or makes no sense, OSError where there is no file."""
        with open(file_path) as file:
            return _made(json.load(file))

    @staticmethod
    def load_from_env() -> MooncakeConfig:
        """Of the file that MOONCAKE_CONFIG_PATH names or, where it names none, of MOONCAKE_MASTER
        and others. Raises ValueError."""
        path, found = variables.store_settings()
        if path:
            return MooncakeConfig.from_file(path)
        if "master_server_address" not in found:
            raise ValueError("neither MOONCAKE_CONFIG_PATH nor MOONCAKE_MASTER is set")
        return _made({"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", **found})


def _made(said: dict[str, Any]) -> MooncakeConfig:
    for name in REQUIRED:
        if not said.get(name) or not isinstance(said[name], str):
            raise ValueError(f"the config has no {name}")
    return MooncakeConfig(
        local_hostname=said["local_hostname"],
        metadata_server=said["metadata_server"],
        global_segment_size=_size(said, "global_segment_size", DEFAULT_GLOBAL_SEGMENT_SIZE),
        local_buffer_size=_size(said, "local_buffer_size", DEFAULT_LOCAL_BUFFER_SIZE),
        protocol=said.get("protocol", "tcp"),
        device_name=said.get("device_name", ""),
        master_server_address=said["master_server_address"],
        enable_ssd_offload=_switch(said, "enable_ssd_offload"),
        ssd_offload_path=said.get("ssd_offload_path", ""),
        tenant_id=said.get("tenant_id", "default"),
        enable_client_http_server=_switch(said, "enable_client_http_server"),
        client_http_port=int(said.get("client_http_port", 9300)),
    )


def _size(said: dict[str, Any], name: str, default: int) -> int:
    try:
        return bytes_of(said.get(name, default))
    except UsageError as error:
        raise ValueError(f"{name}: {error}") from None


def _switch(said: dict[str, Any], name: str) -> bool:
    text = str(said.get(name, "")).strip().lower()
    if text not in TRUE | FALSE:
        raise ValueError(f"{name} is {text!r}, not true or false")
    return text in TRUE

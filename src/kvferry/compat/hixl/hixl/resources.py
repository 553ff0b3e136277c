"""GlobalResourceConfig: what JSON text may say about resources. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .checks import Check, fraction, number, objects_of, one_of, path, truth, wrong
from .codes import OPTION_GLOBAL_RESOURCE_CONFIG, PARAM_INVALID
from .failures import Refused

__all__ = ["Resources", "parse_resources"]

PROTOCOLS = {
    "roce:device",
    "hccs:device",
    "ub_ctp:device",
    "uboe:device",
    "ub_rtp:device",
    "roce:host",
    "ub_ctp:host",
    "ub_ctp",
}

LIMIT = "transfer_config.max_transfer_count_per_batch"

# What has a meaning over host memory: key -> (field of Resources, check).
_USED: dict[str, tuple[str, Check]] = {
    "fabric_memory.max_capacity": ("capacity_tb", number(1, 1024)),
    "fabric_memory.task_stream_num": ("task_streams", number(1, 8)),
    "fabric_memory.enable_aicpu_unfold": ("aicpu_unfold", truth),
    LIMIT: ("transfers_per_batch", number(1, 1920)),
    "connect_pool.thread_num": ("connect_threads", number(1, 64)),
    "connect_pool.task_queue_capacity": ("connect_capacity", number(1, 65535)),
    "local_comm_res_path": ("comm_res_path", path),
}

# What is checked, and has none.
_HINTS: dict[str, Check] = {
    "fabric_memory.start_address": number(0, 1024),
    "comm_resource_config.protocol_desc": one_of(PROTOCOLS),
    "comm_resource_config.listen_port": number(1, 65535),
    "comm_resource_config.qos": number(0, 7),
    "comm_resource_config.max_active_channels": number(1, 8192),
    "channel_pool.max_channel": number(1, 512),
    "channel_pool.high_waterline": fraction,
    "channel_pool.low_waterline": fraction,
}

_GROUPS = {key.partition(".")[0] for key in [*_USED, *_HINTS] if "." in key}


class Resources(NamedTuple):
    """What was configured, with HIXL's defaults.

    capacity_tb          that malloc_mem gives at most, in TiB
    task_streams         of a transfer under FabricMem with host unfold
    aicpu_unfold         a coprocessor unfolds batches under FabricMem, not the host
    transfers_per_batch  a coprocessor's logical batch
    hints                keys that were given and have no effect
    """

    capacity_tb: int = 32
    task_streams: int = 1
    aicpu_unfold: bool = True
    transfers_per_batch: int = 1920
    connect_threads: int = 2
    connect_capacity: int = 128
    comm_res_path: str = ""
    hints: tuple[str, ...] = ()


def parse_resources(text: str) -> Resources:
    """Raises Refused, naming the key and its range."""
    given: dict[str, object] = {}
    for key, value in _flat(objects_of(OPTION_GLOBAL_RESOURCE_CONFIG, text)):
        if key in given:
            raise Refused(PARAM_INVALID, f"{key} is given twice, flat and nested")
        given[key] = value
    fields: dict[str, object] = {}
    hints = []
    for key, value in given.items():
        if key in _USED:
            field, check = _USED[key]
            fields[field] = check(key, value)
        elif key in _HINTS:
            _HINTS[key](key, value)
            hints.append(key)
        else:
            known = ", ".join([*_USED, *_HINTS])
            raise Refused(PARAM_INVALID, f"{key} is no key of the resources; known: {known}")
    _check_waterlines(given)
    return _agreeing(Resources(**fields, hints=tuple(hints)))  # type: ignore[arg-type]


def _flat(given: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Keys with their group before a dot, wherever the group was an object."""
    for key, value in given.items():
        if key in _GROUPS and isinstance(value, dict):
            for inner, each in value.items():
                yield f"{key}.{inner}", each
        else:
            yield key, value


def _agreeing(found: Resources) -> Resources:
    if found.aicpu_unfold and found.task_streams != 1:
        raise wrong(
            "fabric_memory.task_stream_num",
            found.task_streams,
            "1, as fabric_memory.enable_aicpu_unfold demands (it is true unless it is given)",
        )
    return found


def _check_waterlines(given: Mapping[str, object]) -> None:
    high, low = "channel_pool.high_waterline", "channel_pool.low_waterline"
    if (high in given) != (low in given):
        raise Refused(PARAM_INVALID, f"{high} and {low} go together, and one of them is missing")
    if high in given and not fraction(low, given[low]) < fraction(high, given[high]):
        raise wrong(low, given[low], f"below {high}, which is {given[high]!r}")

"""What initialize is told, checked and settled before anything is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import kvferry as kf
from kvferry.submit import PoolSpec

from . import codes
from .checks import Check, flag, number, objects_of
from .failures import Refused
from .resources import Resources, parse_resources

__all__ = ["POOL_OFF", "Settings", "parse_options"]

POOL_OFF = "0:0"
POOL_DEFAULT = "4:8"

COMM_RES_VERSIONS = ("1.0", "1.2", "1.3")

# How options were spelled before.
_OLDER = {
    "adxl.RdmaTrafficClass": codes.OPTION_RDMA_TRAFFIC_CLASS,
    "adxl.RdmaServiceLevel": codes.OPTION_RDMA_SERVICE_LEVEL,
    "adxl.BufferPool": codes.OPTION_BUFFER_POOL,
    "adxl.LocalCommRes": codes.OPTION_LOCAL_COMM_RES,
}


class Settings(NamedTuple):
    """What was asked for.

    buffer_pool  "NUM:SIZE_MB" as it was given; None: it was not
    hints        keys that were given and have no effect over host memory
    """

    fabric_mem: bool
    auto_connect: bool
    buffer_pool: str | None
    resources: Resources
    hints: tuple[str, ...]

    @property
    def pool(self) -> str:
        """The pool that is staged through."""
        default = POOL_OFF if self.fabric_mem else POOL_DEFAULT
        return self.buffer_pool or default


def parse_options(options: Mapping[str, str]) -> Settings:
    """Raises Refused, naming the key and its range."""
    given = _spelled(options)
    for key in given:
        if key not in _CHECKS:
            known = ", ".join(_CHECKS)
            raise Refused(codes.PARAM_INVALID, f"{key} is no option; known: {known}")
    found = {key: _CHECKS[key](key, value) for key, value in given.items()}
    resources: Resources = found.get(codes.OPTION_GLOBAL_RESOURCE_CONFIG, Resources())
    hints = [key for key in _WITHOUT_EFFECT if given.get(key)]
    return Settings(
        found.get(codes.OPTION_ENABLE_USE_FABRIC_MEM, False),
        found.get(codes.OPTION_AUTO_CONNECT, False),
        found.get(codes.OPTION_BUFFER_POOL),
        resources,
        (*hints, *resources.hints, *(["local_comm_res_path"] if resources.comm_res_path else [])),
    )


def _spelled(options: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for key, value in options.items():
        now = _OLDER.get(key, key)
        if now in given:
            raise Refused(codes.PARAM_INVALID, f"{now} is given twice, in two spellings")
        given[now] = value
    return given


def _pool(key: str, value: object) -> str:
    try:
        PoolSpec.parse(str(value))
    except kf.UsageError as error:
        raise Refused(codes.PARAM_INVALID, f"{key}: {error.args[0]}") from None
    return str(value)


def _comm_res(key: str, value: object) -> str:
    if value:
        version = objects_of(key, value).get("version")
        if version not in COMM_RES_VERSIONS:
            known = ", ".join(COMM_RES_VERSIONS)
            raise Refused(codes.PARAM_INVALID, f"{key} has version {version!r}, not one of {known}")
    return str(value)


def _resources(key: str, value: object) -> Resources:
    return parse_resources(str(value))


_CHECKS: dict[str, Check] = {
    codes.OPTION_ENABLE_USE_FABRIC_MEM: flag,
    codes.OPTION_AUTO_CONNECT: flag,
    codes.OPTION_BUFFER_POOL: _pool,
    codes.OPTION_GLOBAL_RESOURCE_CONFIG: _resources,
    codes.OPTION_RDMA_TRAFFIC_CLASS: number(0, 255, multiple_of=4),
    codes.OPTION_RDMA_SERVICE_LEVEL: number(0, 7),
    codes.OPTION_LOCAL_COMM_RES: _comm_res,
}

_WITHOUT_EFFECT = (
    codes.OPTION_RDMA_TRAFFIC_CLASS,
    codes.OPTION_RDMA_SERVICE_LEVEL,
    codes.OPTION_LOCAL_COMM_RES,
)

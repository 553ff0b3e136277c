"""Whose memory an engine allocates and shares, as its options say.

What a device library needs is imported when somebody asks for it: nobody else pays for that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from .. import _core, config
from ..errors import UsageError
from ..link import Driver, FabricDriver
from ..runtime import HostRuntime, Runtime

if TYPE_CHECKING:
    from ..runtime.cann import CannRuntime

__all__ = ["device_memory", "fabric_driver", "memory_runtime"]

# By device, while engines of this process use it. ACL exports a handle once in a process, and
# imports one once for a process and device: so the engines of a process must share what did.
_shared: dict[int, _Shared] = {}
_lock = threading.Lock()


@contextmanager
def memory_runtime(options: config.Options, host: HostRuntime) -> Iterator[Runtime]:
    """The runtime that `options` ask for, while an engine lives.

    Raises UsageError for a runtime that is not known, and for a device that another engine of this
    process uses with other options; Unsupported, with each library that was tried, where it is not
    there, and ForkedError where the parent process has it.
    """
    if options.runtime == "host":
        yield host
        return
    if options.runtime != "cann":
        raise UsageError(
            f"unknown runtime {options.runtime!r}: know {', '.join(config.RUNTIMES)}",
            cause="runtime",
        )
    settings = _Settings(*(getattr(options, name) for name in _Settings._fields))
    with _lock:
        shared = _shared.get(options.device)
        if shared is None:
            shared = _shared[options.device] = _Shared(_open(options), settings)
        shared.runtime.device.check()
        shared.check(settings)
        shared.users += 1
    try:
        yield shared.runtime
    finally:
        with _lock:
            shared.users -= 1
            if not shared.users:
                del _shared[options.device]
                shared.runtime.close()


class _Settings(NamedTuple):
    """The options on which the engines that share a runtime must agree."""

    acl_library: str | None
    acl_sharing: str
    acl_pids: bool
    va_start: int
    va_capacity: int


class _Shared:
    """A runtime, what it was made with, and how many engines use it."""

    def __init__(self, runtime: CannRuntime, settings: _Settings) -> None:
        self.runtime = runtime
        self.users = 0
        self._settings = settings

    def check(self, wanted: _Settings) -> None:
        pairs = zip(_Settings._fields, self._settings, wanted, strict=True)
        differ = [f"{name} {has!r}, not {asked!r}" for name, has, asked in pairs if has != asked]
        if differ:
            raise UsageError(
                "an engine of this process uses the device already, and they share it: with "
                + ", ".join(differ),
                cause="device_options",
            )


def _open(options: config.Options) -> CannRuntime:
    from ..runtime.cann import CannIpcRuntime, CannRuntime, open_library

    library, device = open_library(options.acl_library), options.device
    validate, start, size = options.acl_pids, options.va_start, options.va_capacity
    if options.acl_sharing == "ipc-key":
        return CannIpcRuntime(
            library, device, validate_pids=validate, va_start=start, va_capacity=size
        )
    return CannRuntime(
        library,
        device,
        shared=options.acl_sharing,
        validate_pids=validate,
        va_start=start,
        va_capacity=size,
    )


def device_memory(runtime: Runtime) -> _core.SpanTable | None:
    """Where memory lies that only the runtime reaches, until it is unmapped; None: nowhere."""
    if isinstance(runtime, HostRuntime):
        return None
    return _cann(runtime).aliases


def fabric_driver(runtime: Runtime, engines: _core.CopyEngines, epoch: int) -> Driver:
    """What shares the runtime's memory with peers; `engines` carry its streams' copies out."""
    if isinstance(runtime, HostRuntime):
        return FabricDriver(runtime)
    from ..link.cann import CannDriver

    return CannDriver(_cann(runtime), engines, epoch)


def _cann(runtime: Runtime) -> CannRuntime:
    from ..runtime.cann import CannRuntime

    assert isinstance(runtime, CannRuntime), "there are two"
    return runtime

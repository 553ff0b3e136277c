"""Timeouts as points in time, on the clock that native waits use."""

from __future__ import annotations

from .. import _core
from ..errors import UsageError

__all__ = ["deadline_after"]


def deadline_after(timeout: float) -> int:
    """The point in nanoseconds of the monotonic clock that is `timeout` seconds from now."""
    if not 0 <= timeout < 1e9:
        raise UsageError(f"timeout is {timeout}, not from 0 to 1e9 seconds", cause="timeout")
    return _core.now() + int(timeout * 1e9)

"""Who and where this process is: facts two engines compare before they choose a link."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ..link import DRIVERS, Facts

__all__ = ["facts_of_a_new_engine"]


def facts_of_a_new_engine() -> Facts:
    """Facts of this process, with an epoch nobody had before."""
    return Facts(
        epoch=secrets.randbits(63) + 1,
        boot=_read("/proc/sys/kernel/random/boot_id"),
        network=_namespace("net"),
        links=tuple(driver.kind.value for driver in DRIVERS),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _namespace(kind: str) -> int:
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:
        return 0

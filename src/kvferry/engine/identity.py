"""Who and where this process is: facts two engines compare before they choose a link."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from ..link import Driver, Facts

__all__ = ["facts_of", "new_epoch"]


def new_epoch() -> int:
    """A number that no engine had before."""
    return secrets.randbits(63) + 1


def facts_of(epoch: int, drivers: Iterable[Driver], beat: float) -> Facts:
    """Facts of an engine in this process that beats every `beat` seconds, as they stand."""
    return Facts(
        epoch=epoch,
        boot=_read("/proc/sys/kernel/random/boot_id"),
        network=_namespace("net"),
        links={driver.kind.value: driver.facts() for driver in drivers},
        beat_ms=int(beat * 1000),
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

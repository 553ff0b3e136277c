"""One answer of the doctor."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Finding", "State", "Verdict"]


class State(str, Enum):
    """ok: works; warn: works less well, or not for all; fail: kvferry needs it."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """What was examined, how it stands, and what that means: a reason and a remedy unless ok."""

    name: str
    state: State
    detail: str


class Verdict(NamedTuple):
    """A finding before it has a name."""

    state: State
    detail: str

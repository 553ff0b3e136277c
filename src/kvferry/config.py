"""Options, and the one place where environment variables are read.

KVFERRY_TOKEN         the shared secret itself
KVFERRY_TOKEN_FILE    a file that holds it; default: a 0600 file of this user, made on first use
KVFERRY_COPY_ENGINES  native copy threads of an engine; default: the usable processors, 8 at most
KVFERRY_BOUNCE        the pool of staging paths, NUM:SIZE_MB; 0:0 stages nothing; default: 4:8
KVFERRY_STATS_EVERY   seconds between two dumps of statistics to the log; default: 0, none
KVFERRY_PTRACER       1: every process of this user may reach this one's memory over cma, also where
                      Yama allows that to its ancestors alone; default: 0
KVFERRY_BEAT          seconds between two beats; default: 10
KVFERRY_SUSPECT_AFTER seconds of silence after which a peer is suspected; default: 30
KVFERRY_DEAD_AFTER    seconds of silence after which it is dead; default: 120
KVFERRY_ACL_LIBRARY   the library with CANN's ACL functions, a path or a name;
                      default: libascendcl.so and its newer names
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError

__all__ = ["Options", "from_environment"]

MAX_COPY_ENGINES = 64


@dataclass(frozen=True, slots=True)
class Options:
    """What an engine can be told; every field has a default that suits one user on one host.

    token_file    where the shared secret is read from, and made when it is missing
    token         the shared secret itself; wins over the file
    copy_engines  native threads that carry out stream copies, started at first use
    quiet_grace   seconds to wait for quiet after an abort, before NotQuiet
    call_timeout  seconds a control call may take when its caller names none
    inline_below  bytes; smaller batches are copied by their caller even under a host path
    notifications how many undelivered notifications are kept before senders are refused
    bounce        the pool of staging paths, "NUM:SIZE_MB"; "0:0" stages nothing
    stats_every   seconds between two dumps of statistics to the logger kvferry.stats; 0: none
    ptracer       let every process of this user into this one, where Yama allows ancestors alone
    beat          seconds between two beats by which peers know that this engine lives
    suspect_after seconds of silence after which a peer is suspected
    dead_after    seconds of silence after which a suspect is dead, and its channels end
    acl_library   where CANN's ACL functions are, instead of where they are usually found
    """

    token_file: Path
    token: bytes | None = None
    copy_engines: int = 2
    quiet_grace: float = 5.0
    call_timeout: float = 10.0
    inline_below: int = 64 << 10
    notifications: int = 1024
    bounce: str = "4:8"
    stats_every: float = 0.0
    ptracer: bool = False
    beat: float = 10.0
    suspect_after: float = 30.0
    dead_after: float = 120.0
    acl_library: str | None = None


def from_environment(environ: Mapping[str, str] = os.environ) -> Options:
    """Options as the environment and this machine suggest. Raises UsageError on a bad value."""
    token = environ.get("KVFERRY_TOKEN")
    if token == "":
        raise UsageError("KVFERRY_TOKEN is set but empty", cause="token")
    file = environ.get("KVFERRY_TOKEN_FILE")
    return Options(
        token=None if token is None else os.fsencode(token),
        token_file=Path(file) if file else _default_token_file(environ),
        copy_engines=_copy_engines(environ),
        bounce=environ.get("KVFERRY_BOUNCE", "4:8"),
        stats_every=_seconds(environ, "KVFERRY_STATS_EVERY", "0"),
        ptracer=_ptracer(environ.get("KVFERRY_PTRACER", "0")),
        beat=_seconds(environ, "KVFERRY_BEAT", "10"),
        suspect_after=_seconds(environ, "KVFERRY_SUSPECT_AFTER", "30"),
        dead_after=_seconds(environ, "KVFERRY_DEAD_AFTER", "120"),
        acl_library=environ.get("KVFERRY_ACL_LIBRARY") or None,
    )


def _default_token_file(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "kvferry" / "token"


def _copy_engines(environ: Mapping[str, str]) -> int:
    text = environ.get("KVFERRY_COPY_ENGINES")
    if text is None:
        return min(len(os.sched_getaffinity(0)), 8)
    plain = text.isdecimal() and len(text) < 10
    if not plain or not 1 <= int(text) <= MAX_COPY_ENGINES:
        raise UsageError(
            f"KVFERRY_COPY_ENGINES is {text!r}, not a number from 1 to {MAX_COPY_ENGINES}",
            cause="environment",
        )
    return int(text)


def _seconds(environ: Mapping[str, str], name: str, default: str) -> float:
    text = environ.get(name, default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise UsageError(f"{name} is {text!r}, not seconds from 0 to 1e6", cause="environment")
    return seconds


def _ptracer(text: str) -> bool:
    if text not in ("0", "1"):
        raise UsageError(f"KVFERRY_PTRACER is {text!r}, not 0 or 1", cause="environment")
    return text == "1"

"""Options, and the one place where environment variables are read.

KVFERRY_TOKEN         the shared secret itself
KVFERRY_TOKEN_FILE    a file that holds it; default: a 0600 file of this user, made on first use
KVFERRY_TLS_CERT      this process's certificate, which turns TLS on; with the next two, in PEM
KVFERRY_TLS_KEY       the key of it, which nobody else may read
KVFERRY_TLS_CA        the authority that signs everybody's
KVFERRY_TLS_CHECK_HOST
                      0: a peer's certificate need not name the host that was dialled; default: 1
KVFERRY_COPY_ENGINES  native copy threads of an engine; default: the usable processors, 8 at most
KVFERRY_BOUNCE        the pool of staging paths, NUM:SIZE_MB; 0:0 stages nothing; default: 4:8
KVFERRY_STATS_EVERY   seconds between two dumps of statistics to the log; default: 0, none
KVFERRY_PTRACER       1: every process of this user may reach this one's memory over cma, also where
                      Yama allows that to its ancestors alone; default: 0
KVFERRY_BEAT          seconds between two beats; default: 10
KVFERRY_SUSPECT_AFTER seconds of silence after which a peer is suspected; default: 30
KVFERRY_DEAD_AFTER    seconds of silence after which it is dead; default: 120
KVFERRY_RUNTIME       whose memory engines allocate: host, or cann (Ascend, through CANN's ACL);
                      default: host
KVFERRY_DEVICE        the device of the cann runtime, as ACL counts them; default: 0
KVFERRY_ACL_SHARING   how its memory is shared: vmm-fabric, vmm-default (one server) or ipc-key
                      (one server, device memory alone); default: vmm-fabric
KVFERRY_ACL_PIDS      0: whoever has a handle may import it; default: 1, processes that were let in
KVFERRY_ACL_LIBRARY   the library with CANN's ACL functions, a path or a name;
                      default: libascendcl.so and its newer names
KVFERRY_VA_CAPACITY   bytes of addresses that are reserved for a device's mappings, "32T", "2048G"
                      or a number, 1 to 1024 TB; default: 32T
KVFERRY_VA_START      where they begin, 0 to 1024 TB; default: 40T
KVFERRY_HIXL          lets the vendor's engine move bytes, where its Python module is installed: its
                      own name, "ip:port", or 1 for a free port on loopback; default: 0, not at all
KVFERRY_HIXL_OPTIONS  what it is initialised with, a JSON object of strings; default: {}
XDG_RUNTIME_DIR       where this host's node has its socket, "kvferry"; default: there is none
XDG_CACHE_HOME        where what was downloaded is kept, "kvferry"; default: ~/.cache
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError

__all__ = ["Options", "from_environment"]

MAX_COPY_ENGINES = 64

# What a name may be; the first is the default.
RUNTIMES = ("host", "cann")
ACL_SHARING = ("vmm-fabric", "vmm-default", "ipc-key")

TB = 1 << 40
MAX_VA = 1024  # TB
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": TB}


@dataclass(frozen=True, slots=True)
class Options:
    """What an engine can be told; every field has a default that suits one user on one host.

    token_file    where the shared secret is read from, and made when it is missing
    token         the shared secret itself; wins over the file
    tls_cert, tls_key, tls_ca
                  files in PEM: a certificate, its key, and the authority that signs everybody's;
                  with all three, TCP is spoken under TLS alone
    tls_check_host  the certificate of whom we dial names the host that we dial
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
    runtime       whose memory it allocates: "host" or "cann"
    device        of the cann runtime
    acl_sharing   how cann memory is shared: "vmm-fabric", "vmm-default" or "ipc-key"
    acl_pids      only processes that the engine let in may import its cann memory
    acl_library   where CANN's ACL functions are, instead of where they are usually found
    va_capacity   bytes of addresses to reserve for a device's mappings; the host may grant less
    va_start      address where they should begin
    hixl          name of the vendor's engine, "ip:port", or "1": on loopback; None: there is none
    hixl_options  what it is initialised with, a JSON object of strings
    node_socket   where this host's node listens, if it has one
    cache         folder of what was downloaded, and may be again, if there is a home
    """

    token_file: Path
    token: bytes | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    tls_check_host: bool = True
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
    runtime: str = "host"
    device: int = 0
    acl_sharing: str = "vmm-fabric"
    acl_pids: bool = True
    acl_library: str | None = None
    va_capacity: int = 32 * TB
    va_start: int = 40 * TB
    hixl: str | None = None
    hixl_options: str = "{}"
    node_socket: Path | None = None
    cache: Path | None = None


def from_environment(environ: Mapping[str, str] = os.environ) -> Options:
    """Options as the environment and this machine suggest. Raises UsageError on a bad value."""
    token = environ.get("KVFERRY_TOKEN")
    if token == "":
        raise UsageError("KVFERRY_TOKEN is set but empty", cause="token")
    file = environ.get("KVFERRY_TOKEN_FILE")
    return Options(
        token=None if token is None else os.fsencode(token),
        token_file=Path(file) if file else _default_token_file(environ),
        tls_cert=_file(environ, "KVFERRY_TLS_CERT"),
        tls_key=_file(environ, "KVFERRY_TLS_KEY"),
        tls_ca=_file(environ, "KVFERRY_TLS_CA"),
        tls_check_host=_switch(environ, "KVFERRY_TLS_CHECK_HOST", "1"),
        copy_engines=_copy_engines(environ),
        bounce=environ.get("KVFERRY_BOUNCE", "4:8"),
        stats_every=_seconds(environ, "KVFERRY_STATS_EVERY", "0"),
        ptracer=_switch(environ, "KVFERRY_PTRACER", "0"),
        beat=_seconds(environ, "KVFERRY_BEAT", "10"),
        suspect_after=_seconds(environ, "KVFERRY_SUSPECT_AFTER", "30"),
        dead_after=_seconds(environ, "KVFERRY_DEAD_AFTER", "120"),
        runtime=_one_of(environ, "KVFERRY_RUNTIME", RUNTIMES),
        device=_number(environ, "KVFERRY_DEVICE", 0, 0, 1023),
        acl_sharing=_one_of(environ, "KVFERRY_ACL_SHARING", ACL_SHARING),
        acl_pids=_switch(environ, "KVFERRY_ACL_PIDS", "1"),
        acl_library=environ.get("KVFERRY_ACL_LIBRARY") or None,
        va_capacity=_tera(environ, "KVFERRY_VA_CAPACITY", "32T", least=1),
        va_start=_tera(environ, "KVFERRY_VA_START", "40T", least=0),
        hixl=_unless_off(environ.get("KVFERRY_HIXL")),
        hixl_options=environ.get("KVFERRY_HIXL_OPTIONS") or "{}",
        node_socket=_node_socket(environ),
        cache=_cache(environ),
    )


def _unless_off(text: str | None) -> str | None:
    return None if text in (None, "", "0") else text


def _default_token_file(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "kvferry" / "token"


def _file(environ: Mapping[str, str], name: str) -> Path | None:
    text = environ.get(name)
    return Path(text) if text else None


def _node_socket(environ: Mapping[str, str]) -> Path | None:
    runtime = environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "kvferry" if runtime else None


def _cache(environ: Mapping[str, str]) -> Path | None:
    cache = environ.get("XDG_CACHE_HOME")
    try:
        return (Path(cache) if cache else Path.home() / ".cache") / "kvferry"
    except RuntimeError:  # whoever this is has no home, and may never download anything
        return None


def _copy_engines(environ: Mapping[str, str]) -> int:
    usable = min(len(os.sched_getaffinity(0)), 8)
    return _number(environ, "KVFERRY_COPY_ENGINES", usable, 1, MAX_COPY_ENGINES)


def _number(environ: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = environ.get(name)
    if text is None:
        return default
    plain = text.isdecimal() and len(text) < 10
    if not plain or not low <= int(text) <= high:
        raise UsageError(
            f"{name} is {text!r}, not a number from {low} to {high}", cause="environment"
        )
    return int(text)


def _one_of(environ: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """The first of those known is the default."""
    text = environ.get(name, known[0])
    if text not in known:
        raise UsageError(f"{name} is {text!r}, not one of {', '.join(known)}", cause="environment")
    return text


def _seconds(environ: Mapping[str, str], name: str, default: str) -> float:
    text = environ.get(name, default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise UsageError(f"{name} is {text!r}, not seconds from 0 to 1e6", cause="environment")
    return seconds


def _switch(environ: Mapping[str, str], name: str, default: str) -> bool:
    text = environ.get(name, default)
    if text not in ("0", "1"):
        raise UsageError(f"{name} is {text!r}, not 0 or 1", cause="environment")
    return text == "1"


def _tera(environ: Mapping[str, str], name: str, default: str, least: int) -> int:
    """Bytes, from `least` to 1024 TB."""
    text = environ.get(name, default)
    found = re.fullmatch(r"([0-9]{1,16})([KMGT]?)", text)
    size = int(found[1]) * UNITS[found[2]] if found else None
    if size is None or not least * TB <= size <= MAX_VA * TB:
        raise UsageError(
            f"{name} is {text!r}, not bytes from {least} to {MAX_VA} TB, such as {default}",
            cause="environment",
        )
    return size

"""Examines this machine: what works, what does not, why not and what to do about it.

Each probe tries the thing itself, in a corner of its own, and undoes it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from .. import _core
from ..config import from_environment
from ..errors import Unsupported
from ..runtime.cann import open_library
from . import judge
from .finding import Finding, State, Verdict
from .machine import read_machine, read_text

__all__ = ["PROBES", "Finding", "State", "examine"]

HUGE = 2 << 20
PR_GET_DUMPABLE = 3
NAMESPACES = ("net", "pid", "ipc", "mnt", "user")
OPTIONAL = ("torch", "nixl", "uvloop", "starlette", "uvicorn", "matplotlib", "gguf")


def examine() -> list[Finding]:
    """Every finding, in the order of PROBES. Blocks for milliseconds; leaves nothing behind."""
    return [_examine(name, probe) for name, probe in PROBES.items()]


def _examine(name: str, probe: Callable[[], Verdict]) -> Finding:
    try:
        return Finding(name, *probe())
    except Exception as error:
        # One probe that stumbles must not take the others with it.
        return Finding(name, State.WARN, f"could not be examined: {type(error).__name__}: {error}")


def memory_files() -> Verdict:
    try:
        with _memory_file(mmap.PAGESIZE) as file:
            mmap.mmap(file, mmap.PAGESIZE).close()
    except OSError as error:
        remedy = "needs Linux 3.17, and a container that does not filter memfd_create"
        return Verdict(State.FAIL, f"{error.strerror}: no memory can be shared; {remedy}")
    return Verdict(State.OK, "can be made and mapped")


def seals() -> Verdict:
    with _memory_file(mmap.PAGESIZE) as file:
        code = _core.vm_add_seals(file, _core.SEAL_SHRINK | _core.SEAL_GROW)
        if code:
            return Verdict(State.FAIL, f"{os.strerror(code)}: importers refuse unsealed memory")
        code = _core.vm_add_seals(file, _core.SEAL_FUTURE_WRITE | _core.SEAL_SEAL)
        if code:
            remedy = "needs Linux 5.1"
            return Verdict(State.WARN, f"no FUTURE_WRITE: no read-only regions; {remedy}")
        try:
            mmap.mmap(file, mmap.PAGESIZE).close()
        except PermissionError:
            return Verdict(State.OK, "SHRINK, GROW and FUTURE_WRITE hold")
    return Verdict(State.WARN, "FUTURE_WRITE is taken and does not hold: do not trust read-only")


def populate() -> Verdict:
    with _mapped(HUGE) as address:
        code = _core.vm_populate(address, HUGE, _core.POPULATE_WRITE, 1)
    if code in (errno.EINVAL, errno.ENOSYS):
        return Verdict(State.WARN, "absent, pages are touched one by one; needs Linux 5.14")
    return _outcome(code, "pages are brought in by one call")


def collapse() -> Verdict:
    with _mapped(HUGE) as address:
        _core.vm_populate(address, HUGE, _core.POPULATE_TOUCH, 1)
        code = _core.vm_collapse(address, HUGE, 1)
    if code == errno.EINVAL:
        remedy = "needs Linux 6.1 with huge pages for memory files (CONFIG_TRANSPARENT_HUGEPAGE)"
        return Verdict(State.WARN, f"absent, small pages stay small; {remedy}")
    return _outcome(code, "small pages are copied together")


def process_handles() -> Verdict:
    try:
        handle = os.pidfd_open(os.getpid())
    except OSError as error:
        remedy = "needs Linux 5.3, and a container that does not filter it"
        return Verdict(State.FAIL, f"{error.strerror}: a peer's end would go unnoticed; {remedy}")
    os.close(handle)
    return Verdict(State.OK, "a peer's end is noticed at once")


def dumpable() -> Verdict:
    return judge.dumpable(ctypes.CDLL(None, use_errno=True).prctl(PR_GET_DUMPABLE))


def identity() -> Verdict:
    return judge.boot(
        read_text("/proc/sys/kernel/random/boot_id"),
        {name: _namespace(name) for name in NAMESPACES},
    )


def acl() -> Verdict:
    wanted = from_environment().acl_library
    try:
        library = open_library(wanted)
    except Unsupported as error:
        return judge.no_acl(str(error.args[0]), wanted is not None)
    lacking = {capability.value: names for capability, names in library.missing.items()}
    soc = f"the software NPU as {library.soc()}" if library.software else library.soc()
    return judge.acl(library.opened, library.version(), soc, lacking)


# Name -> what examines it. Names are stable; none begins another.
PROBES: dict[str, Callable[[], Verdict]] = {
    "memory files": memory_files,
    "seals": seals,
    "MADV_POPULATE_WRITE": populate,
    "MADV_COLLAPSE": collapse,
    "huge pages": lambda: judge.huge_pages(read_machine(), mmap.PAGESIZE),
    "pidfd": process_handles,
    "descriptor limit": lambda: judge.descriptors(*resource.getrlimit(resource.RLIMIT_NOFILE)),
    "locked memory": lambda: judge.locked_memory(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]),
    "ptrace scope": lambda: judge.ptrace(read_text("/proc/sys/kernel/yama/ptrace_scope")),
    "dumpable": dumpable,
    "container limits": lambda: judge.container(read_machine()),
    "identity": identity,
    "copy": lambda: judge.copies(_core.copy_variants(), _core.nt_variant()),
    "CANN": acl,
    "optional packages": lambda: judge.packages(
        {name: find_spec(name) is not None for name in OPTIONAL}
    ),
}


def _outcome(code: int, good: str) -> Verdict:
    return Verdict(State.WARN, os.strerror(code)) if code else Verdict(State.OK, good)


@contextmanager
def _memory_file(size: int) -> Iterator[int]:
    file = os.memfd_create("kvferry-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, size)
        yield file
    finally:
        os.close(file)


@contextmanager
def _mapped(size: int) -> Iterator[int]:
    """The address of a memory file, mapped at a multiple of 2 MiB and still without pages."""
    with _memory_file(size) as file:
        code, address = _core.vm_reserve(size, HUGE)
        if code:
            raise OSError(code, os.strerror(code))
        try:
            code = _core.vm_map(file, 0, size, address, True)
            if code:
                raise OSError(code, os.strerror(code))
            yield address
        finally:
            _core.vm_release(address, size)


def _namespace(kind: str) -> int | None:
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:
        return None

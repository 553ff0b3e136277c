"""What the doctor thinks of a value; pure, so that every answer can be had on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .finding import State, Verdict
from .machine import Machine

__all__ = [
    "acl",
    "boot",
    "container",
    "copies",
    "descriptors",
    "dumpable",
    "huge_pages",
    "locked_memory",
    "no_acl",
    "packages",
    "ptrace",
]

UNLIMITED = -1
# A channel holds about four, a shared region one on each side.
FEW_DESCRIPTORS = 4096

PTRACE = {
    "1": "only children of the reader: a target must opt in with PR_SET_PTRACER",
    "2": "only readers with CAP_SYS_PTRACE",
    "3": "nobody, until the next boot",
}
SHMEM = {
    "deny": "memory files get no huge pages",
    "never": "memory files get huge pages by MADV_COLLAPSE only",
}
SHMEM_REMEDY = "write advise to /sys/kernel/mm/transparent_hugepage/shmem_enabled"


def descriptors(soft: int, hard: int) -> Verdict:
    """Limits on open descriptors; an engine raises the soft one to the hard one."""
    if hard == UNLIMITED or hard >= FEW_DESCRIPTORS:
        return Verdict(State.OK, f"{soft}, can be raised to {_limit(hard)}")
    remedy = f"raise the hard limit (ulimit -Hn) to {FEW_DESCRIPTORS} or more"
    return Verdict(State.WARN, f"at most {hard}: few channels and regions fit; {remedy}")


def locked_memory(soft: int) -> Verdict:
    detail = "unlimited" if soft == UNLIMITED else f"{soft >> 10} KiB"
    return Verdict(State.OK, f"{detail}; memory files lock nothing, registration with a NIC does")


def huge_pages(machine: Machine, page: int) -> Verdict:
    total, free = machine.hugetlb
    facts = (
        f"base pages {page} bytes, THP {machine.thp or 'absent'}, "
        f"for memory files {machine.thp_shmem or 'absent'}, 2 MiB pool {free} of {total} free"
    )
    if machine.thp_shmem is None:
        return Verdict(State.WARN, f"{facts}; this kernel gives memory files no huge pages")
    if machine.thp_shmem in SHMEM:
        state = State.WARN if machine.thp_shmem == "deny" else State.OK
        return Verdict(state, f"{facts}; {SHMEM[machine.thp_shmem]}: {SHMEM_REMEDY}")
    return Verdict(State.OK, facts)


def ptrace(scope: str | None) -> Verdict:
    """Yama's scope: who may read another process's memory."""
    if scope in (None, "0"):
        return Verdict(State.OK, "processes of one user may read each other")
    reason = PTRACE.get(str(scope), "unknown")
    remedy = "sysctl kernel.yama.ptrace_scope=0 allows it; shared memory does not need it"
    return Verdict(State.WARN, f"scope {scope}: {reason}; {remedy}")


def dumpable(value: int) -> Verdict:
    if value == 1:
        return Verdict(State.OK, "this process may be read by others of its user")
    remedy = "start it without setuid and file capabilities, from a file its user may read"
    return Verdict(State.WARN, f"not dumpable ({value}): its user may not read it; {remedy}")


def container(machine: Machine) -> Verdict:
    memory, cpus = machine.memory_limit, machine.cpu_limit
    detail = (
        f"memory {'not limited' if memory is None else f'{memory >> 20} MiB'}, "
        f"processors {'not limited' if cpus is None else f'{cpus:g}'} of {machine.usable_cpus}"
    )
    if cpus is not None and cpus < machine.usable_cpus:
        remedy = "copies are throttled: raise the limit, or pin to as many (taskset, cpuset)"
        return Verdict(State.WARN, f"{detail}; {remedy}")
    return Verdict(State.OK, detail)


def boot(boot_id: str | None, namespaces: Mapping[str, int | None]) -> Verdict:
    """What two engines compare to know whether they stand on one host."""
    known = ", ".join(f"{name} {inode}" for name, inode in namespaces.items() if inode is not None)
    if boot_id is None:
        remedy = "mount /proc with sys/kernel/random/boot_id"
        return Verdict(
            State.FAIL, f"no boot id: engines cannot tell that they share a host; {remedy}"
        )
    if namespaces.get("net") is None:
        return Verdict(State.WARN, f"boot {boot_id}, but no namespaces; mount /proc/self/ns")
    return Verdict(State.OK, f"boot {boot_id}; {known}")


def packages(present: Mapping[str, bool]) -> Verdict:
    have = ", ".join(name for name, there in present.items() if there) or "none"
    lack = ", ".join(name for name, there in present.items() if not there) or "none"
    return Verdict(State.OK, f"present: {have}; absent, none of them needed: {lack}")


def acl(
    opened: Sequence[str],
    version: tuple[int, int, int],
    soc: str | None,
    lacking: Mapping[str, Sequence[str]],
) -> Verdict:
    """CANN's library, and capabilities that it has not got, each with the functions it lacks."""
    said = ".".join(map(str, version))
    facts = f"{', '.join(opened)}: ACL {said} for {soc or 'a processor it does not name'}"
    if not lacking:
        return Verdict(State.OK, facts)
    parts = "; ".join(f"{name} (lacks {', '.join(names)})" for name, names in lacking.items())
    return Verdict(State.WARN, f"{facts}, without {parts}; a newer CANN may have them")


def no_acl(why: str, asked_for: bool) -> Verdict:
    """Most machines have no Ascend device and lack nothing."""
    if asked_for:
        return Verdict(State.WARN, why)
    return Verdict(State.OK, f"absent, needed for Ascend devices only: {why}")


def copies(variants: list[str], chosen: str) -> Verdict:
    streaming = [name for name in variants if name != "memcpy"]
    if streaming:
        return Verdict(
            State.OK, f"{chosen} for large copies; this processor runs {', '.join(variants)}"
        )
    return Verdict(State.WARN, "memcpy only: no copy past the cache is known for this processor")


def _limit(value: int) -> str:
    return "any number" if value == UNLIMITED else str(value)

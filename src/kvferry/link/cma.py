"""The kernel copies between the two processes (cross memory attach).

owner      |#### region ####|                 any memory of its process
               ^ process_vm_readv, process_vm_writev
here       |## caller's memory ##|

Memory of a device no kernel copies: a peer's is not reached, and ours passes through a pool.

The peer takes no part and maps nothing. The kernel lets one process into another as it lets a
debugger: same user, dumpable, and whatever Yama adds. Facts tell most of that beforehand; a read of
the word that holds the peer's epoch proves the rest, and that its process is the one we think.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path as File
from typing import Annotated

import msgspec
import numpy as np

from .. import _core
from .._core import (
    BouncePool,
    Descriptors,
    Done,
    Mover,
    OpaqueBounce,
    PeerWatch,
    ProcessMover,
    SpanTable,
)
from ..errors import NoMemory, PathRefused
from ..memory import Region, RemoteRegion
from ..path import LinkKind, Path, Staging
from ..runtime import Access
from ..submit import Slot, Submitter, Submitters
from .base import Driver, Facts, Link, Peer, Published
from .registered import attach_registered, publish_registered
from .stream import StreamLink

__all__ = ["CmaDriver"]

YAMA = File("/proc/sys/kernel/yama/ptrace_scope")

_YAMA_REFUSES = {
    2: "Yama lets only administrators into other processes (ptrace_scope 2)",
    3: "Yama lets nobody into other processes (ptrace_scope 3)",
}

_PROBE_FAILED = {
    errno.EPERM: "the kernel does not let us into its process: it asks for the same user and "
    "group, a dumpable process, Yama's consent, and no seccomp filter in between",
    errno.ESRCH: "its process is gone",
    errno.EFAULT: "its process is another one than the engine that answered",
    errno.ENOSYS: "this kernel has no cross memory attach",
}


_NOTHING_TO_STAGE = "the kernel copies from and to any memory of the host: nothing to stage"


class CmaFacts(msgspec.Struct, frozen=True):
    """What a peer tells.

    uid, gid  effective
    dumpable  1 when others of this user may look into the process
    yama      the ptrace scope of its kernel; 0 without Yama
    ptracer   1 when it lets every process of its user in, whatever Yama's scope 1 says
    probe     address of eight bytes that hold its epoch
    """

    uid: int
    gid: int
    dumpable: int
    yama: int
    ptracer: int
    probe: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class CmaDriver(Driver):
    """Offers all memory of its process to peers of the same user.

    ptracer  let processes of the same user in where Yama restricts that to ancestors; for all of
             this process, and as long as it lives
    local    device memory of this process, until it is unmapped; None: it has none
    """

    kind = LinkKind.CMA

    def __init__(self, epoch: int, ptracer: bool, local: SpanTable | None = None) -> None:
        self._ptracer = ptracer and _core.process_admit_all() == 0
        self._probe = np.array([epoch], np.uint64)
        self._local = local

    def facts(self) -> dict[str, int | str]:
        told = CmaFacts(
            uid=os.geteuid(),
            gid=os.getegid(),
            dumpable=int(_core.process_dumpable()),
            yama=_yama(),
            ptracer=int(self._ptracer),
            probe=self._probe.ctypes.data,
        )
        return msgspec.structs.asdict(told)

    @staticmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        if LinkKind.CMA not in theirs.links:
            return "the peer does not offer it"
        if ours.boot != theirs.boot:
            return "the peer is on another host: a kernel copies between its own processes"
        if ours.network != theirs.network:
            return "the peer is in another network namespace: its process cannot be identified"
        us, them = _told(ours), _told(theirs)
        if us is None or them is None:
            return "the peer does not tell what must be known of its process"
        # A process may always look into itself.
        return None if ours.epoch == theirs.epoch else _kernel_refuses(us, them)

    def publish(self, region: Region, to: Facts, most: Access = Access.WRITE) -> Published | None:
        held = most is Access.WRITE  # the kernel would let it write, whatever we say
        return publish_registered(region) if region.reach is None and held else None

    def open(self, peer: Peer, path: Path, submitters: Submitters) -> Link:
        bounced = path.staging is Staging.BOUNCE
        if bounced and self._local is None:
            raise _refused(peer, path, _NOTHING_TO_STAGE)
        mover: Mover = ProcessMover(_prove(peer, path), peer.watch or PeerWatch(peer.pidfd, None))
        if bounced and self._local is not None:
            mover = OpaqueBounce(mover, _pool(peer, path, submitters), self._local)
        return CmaLink(peer, path, submitters.make(path.submitter), mover)

    def close(self) -> None:
        self._probe[0] = 0


class CmaLink(StreamLink):
    """Its streams copy by way of the kernel."""

    def __init__(self, peer: Peer, path: Path, submitter: Submitter, mover: Mover) -> None:
        super().__init__(peer, path, submitter)
        self._mover = mover

    def attach(self, published: Published) -> RemoteRegion:
        return attach_registered(published, self.peer, self.epoch, self.path)

    def detach(self, region: RemoteRegion) -> None:
        """Nothing was mapped."""

    def submit(
        self,
        op: int,
        d: Descriptors,
        done: Done,
        deadline: int | None = None,
        patient: bool = False,
    ) -> Slot | None:
        d.via(self._mover)
        return super().submit(op, d, done, deadline, patient)


def _told(facts: Facts) -> CmaFacts | None:
    try:
        return msgspec.convert(facts.links.get(LinkKind.CMA), CmaFacts)
    except msgspec.ValidationError:
        return None


def _kernel_refuses(us: CmaFacts, them: CmaFacts) -> str | None:
    if us.uid != them.uid:
        return f"the peer runs as user {them.uid}, this process as {us.uid}"
    if us.gid != them.gid:
        return f"the peer runs as group {them.gid}, this process as {us.gid}"
    if not them.dumpable:
        return "the peer is not dumpable: it is setuid, or made itself so (prctl)"
    if them.yama == 1 and not them.ptracer:
        return (
            "Yama lets only ancestors into a process (ptrace_scope 1): set KVFERRY_PTRACER=1 there"
        )
    return _YAMA_REFUSES.get(them.yama)


def _prove(peer: Peer, path: Path) -> int:
    """The process number of the peer, proven by what its memory says."""
    told = _told(peer.facts)
    if told is None:
        raise _refused(peer, path, "the peer does not tell what must be known of its process")
    if not peer.pid:
        raise _refused(peer, path, "its process cannot be identified")
    code, word = _core.process_read(peer.pid, told.probe, 8)
    if code:
        raise _refused(peer, path, _PROBE_FAILED.get(code, os.strerror(code)))
    if int.from_bytes(word, sys.byteorder) != peer.facts.epoch:
        raise _refused(peer, path, _PROBE_FAILED[errno.EFAULT])
    return peer.pid


def _pool(peer: Peer, path: Path, submitters: Submitters) -> BouncePool:
    try:
        pool = submitters.pool.make()
    except NoMemory as error:
        raise _refused(peer, path, str(error.args[0])) from error
    if pool is None:
        raise _refused(peer, path, "its pool is off")
    return pool


def _refused(peer: Peer, path: Path, reason: str) -> PathRefused:
    return PathRefused(reason, peer=peer.name, rejected={str(path): reason})


def _yama() -> int:
    try:
        return int(YAMA.read_text())
    except OSError:
        return 0

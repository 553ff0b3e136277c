"""Whose folder it is, and that nobody else has it open.

    identity   | magic u64 | version u32 | bytes of the name u32 | identity 16 | spare 28 |
               | CRC-32C of the rest and the name u32 | name, UTF-8 |       little endian
    lock       empty: who has the folder open holds a flock on it

The identity is random, and stands in every segment that belongs here.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import weakref
from pathlib import Path

import numpy as np

from ... import _core
from ...errors import UsageError
from .disk import Disk, disk_errors, read_small, write_all

__all__ = ["VERSION", "Claim", "claim", "owner_name"]

VERSION = 1
MAGIC = int.from_bytes(b"kvferSSD", "little")
HEAD = np.dtype(
    [
        ("magic", "<u8"),
        ("version", "<u4"),
        ("owner_bytes", "<u4"),
        ("identity", "u1", 16),
        ("spare", "u1", 28),
        ("crc32c", "<u4"),
    ]
)
NAME_MOST = 1024
MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class Claim:
    """The folder is ours until it is closed. A forked child has no part in it: what it inherits of
    the lock would keep the folder from others as long as it lives."""

    def __init__(self, identity: bytes, lock: int) -> None:
        self.identity = identity
        self._lock: int | None = lock
        _held.add(self)

    def close(self) -> None:
        """Idempotent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


_held: weakref.WeakSet[Claim] = weakref.WeakSet()


def _forked() -> None:
    for claim in list(_held):
        claim.close()


os.register_at_fork(after_in_child=_forked)


def owner_name(tenant: str) -> str:
    """A tenant of this machine. Of the machine's own name no more is told than that it is another:
    it is secret."""
    found = (read_small(Path(path), NAME_MOST) for path in MACHINE_IDS)
    machine = next(filter(None, found), os.uname().nodename.encode())
    mark = hashlib.blake2b(machine.strip(), digest_size=8, person=b"kvferry.ssd").hexdigest()
    return f"{tenant}@{mark}"


def claim(folder: Path, owner: str, disk: Disk) -> Claim:
    """Take the folder, or make it, 0700. Raises UsageError: "ssd_in_use", "ssd_owner",
    "ssd_version", "ssd_damaged"; nothing in it was touched then. DeviceError."""
    if not 0 < len(owner.encode()) <= NAME_MOST:
        raise UsageError(f"an owner's name has 1 to {NAME_MOST} bytes", cause="ssd_owner")
    with disk_errors(f"cannot use {folder}"):
        folder.mkdir(0o700, parents=True, exist_ok=True)
        _read(folder, owner)  # before anything is made in a folder that is somebody else's
        lock = disk.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _take(lock, folder)
            identity = _read(folder, owner) or _make(folder, owner, disk)
        except BaseException:
            os.close(lock)
            raise
    return Claim(identity, lock)


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another node has {folder} open", cause="ssd_in_use") from None


def _read(folder: Path, owner: str) -> bytes | None:
    """The identity there is. None: no file is there."""
    path = folder / "identity"
    if not os.path.lexists(path):
        return None
    data = read_small(path, HEAD.itemsize + NAME_MOST) or b""
    head = np.frombuffer(data.ljust(HEAD.itemsize, b"\0"), HEAD, 1)[0]
    if int(head["magic"]) == MAGIC and int(head["version"]) != VERSION:
        raise UsageError(
            f"{folder} is of version {head['version']}, not {VERSION}", cause="ssd_version"
        )
    name = data[HEAD.itemsize :]
    if int(head["magic"]) != MAGIC or int(head["crc32c"]) != _sum(data):
        raise UsageError(f"{path} is damaged: who is sure removes {folder}", cause="ssd_damaged")
    if name != owner.encode():
        whose = name.decode(errors="replace")
        raise UsageError(f"{folder} belongs to {whose!r}, not {owner!r}", cause="ssd_owner")
    return bytes(head["identity"])


def _make(folder: Path, owner: str, disk: Disk) -> bytes:
    """Whole or not at all: written beside, and renamed."""
    name = owner.encode()
    head = np.zeros((), HEAD)
    head["magic"], head["version"], head["owner_bytes"] = MAGIC, VERSION, len(name)
    head["identity"] = np.frombuffer(secrets.token_bytes(16), np.uint8)
    head["crc32c"] = _sum(head.tobytes() + name)
    beside = folder / "identity.new"
    fd = disk.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        write_all(disk, fd, np.frombuffer(head.tobytes() + name, np.uint8), 0)
        disk.fsync(fd)
    finally:
        os.close(fd)
    disk.rename(beside, folder / "identity")
    return head["identity"].tobytes()


def _sum(data: bytes) -> int:
    """Of all but the checksum itself."""
    crc = HEAD.itemsize - 4
    return _core.crc32c(data[HEAD.itemsize :], _core.crc32c(data[:crc]))

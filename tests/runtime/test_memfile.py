"""Seals, rights, and what importers refuse; with real attackers."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvferry import _core
from kvferry.errors import Error, RightsError, UsageError
from kvferry.runtime import Access, Allocation, HostRuntime, Mapping, ShareHandle
from kvferry.testing import Child, Parent

SIZE = 1 << 20
PAGE = mmap.PAGESIZE
NOBODY = 65534
PR_SET_DUMPABLE = 4

Spawn = Callable[..., Child]


@pytest.fixture
def runtime() -> HostRuntime:
    return HostRuntime(threads=1)


class Exporter:
    """Owns a mapped allocation, and serves one descriptor to one process."""

    def __init__(self, runtime: HostRuntime, path: Path) -> None:
        self.runtime = runtime
        self.allocation = runtime.allocate(SIZE)
        self.mapping = map_all(runtime, self.allocation, Access.WRITE)
        self.bytes = memoryview(self.mapping.view)
        self.bytes[:5] = b"hello"
        self.path = str(path / "exporter")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(20)
        self.listener.bind(self.path)
        self.listener.listen()

    def send(self, access: Access) -> None:
        handle = self.runtime.export(self.allocation, access)
        peer, _ = self.listener.accept()
        with peer:
            socket.send_fds(peer, [b"x"], [handle.fd])
        os.close(handle.fd)

    def close(self) -> None:
        self.listener.close()
        self.bytes.release()
        self.mapping.close()
        self.allocation.close()


@pytest.fixture
def exporter(runtime: HostRuntime, tmp_path: Path) -> Iterator[Exporter]:
    exporter = Exporter(runtime, tmp_path)
    yield exporter
    exporter.close()


def map_all(runtime: HostRuntime, allocation: Allocation, access: Access) -> Mapping:
    return runtime.map(allocation, runtime.reserve(allocation.size), access)


def receive(path: str) -> int:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        return socket.recv_fds(peer, 1, 1)[1][0]


def code_of(attempt: Callable[[], object]) -> str:
    """The name of the errno that stopped `attempt`, or "done"."""
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def write_through_mprotect(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    code, address = _core.vm_reserve(PAGE, PAGE)
    assert code == _core.vm_map(fd, 0, PAGE, address, False) == 0
    if libc.mprotect(ctypes.c_void_p(address), PAGE, mmap.PROT_READ | mmap.PROT_WRITE):
        raise OSError(ctypes.get_errno(), "mprotect")


def attempts(fd: int) -> dict[str, str]:
    """What each way to change the memory behind `fd` comes to."""
    return {
        "map": code_of(lambda: mmap.mmap(fd, PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE)),
        "mprotect": code_of(lambda: write_through_mprotect(fd)),
        "write": code_of(lambda: os.pwrite(fd, b"x", 0)),
        "shrink": code_of(lambda: os.ftruncate(fd, PAGE)),
        "grow": code_of(lambda: os.ftruncate(fd, 2 * SIZE)),
    }


def become(uid: int) -> None:
    """Change to `uid`, and stay able to look into our own /proc folder, as after an exec."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    assert ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0


def attack(parent: Parent, path: str, uid: int | None) -> dict[str, object]:
    fd = receive(path)
    if uid is not None:
        become(uid)
    name = f"/proc/self/fd/{fd}"
    result: dict[str, object] = {
        "link": os.readlink(name),
        "read": os.pread(fd, 5, 0).decode(),
        "through the descriptor": attempts(fd),
        "reopen": code_of(lambda: os.close(os.open(name, os.O_RDWR))),
        "chmod": code_of(lambda: os.fchmod(fd, 0o600)),
    }
    if result["reopen"] == "done":
        result["reopened"] = attempts(os.open(name, os.O_RDWR))
    return result


def assert_stopped(attempts: object) -> None:
    assert isinstance(attempts, dict)
    assert "done" not in attempts.values(), attempts


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_uid_cannot_write_what_was_exported_read_only(
    exporter: Exporter, spawn: Spawn
) -> None:
    attacker = spawn(attack, exporter.path, NOBODY)
    exporter.send(Access.READ)
    found = attacker.result()
    assert found["link"] == "/memfd:kvferry (deleted)"
    assert found["read"] == "hello"
    assert found["reopen"] == "EACCES"
    assert found["chmod"] == "EPERM"
    assert_stopped(found["through the descriptor"])
    assert exporter.bytes[:5] == b"hello"


def test_the_same_uid_can_reopen_but_is_stopped_by_the_seals(
    exporter: Exporter, spawn: Spawn
) -> None:
    attacker = spawn(attack, exporter.path, None)
    exporter.send(Access.READ)
    found = attacker.result()
    assert found["reopen"] == "done"
    assert_stopped(found["through the descriptor"])
    assert found["reopened"] == dict.fromkeys(found["reopened"], "EPERM") | {"mprotect": "EACCES"}
    exporter.bytes[:5] = b"owner"
    assert exporter.bytes[:5] == b"owner"


def answer(parent: Parent, path: str, size: int, access: str) -> list[str]:
    """Import what is sent, read it, and write into it where that is allowed."""
    runtime = HostRuntime(threads=1)
    handle = ShareHandle(receive(path), size, PAGE, Access(access))
    with runtime.import_handle(handle) as allocation:
        mapping = map_all(runtime, allocation, allocation.shared or Access.READ)
    with memoryview(mapping.view) as bytes_:
        seen = [bytes_[:5].tobytes().decode(), bytes_[-5:].tobytes().decode()]
        if not bytes_.readonly:
            bytes_[:5] = b"child"
    return seen


@pytest.mark.parametrize("access", Access)
def test_another_process_sees_the_bytes(exporter: Exporter, spawn: Spawn, access: Access) -> None:
    exporter.bytes[-5:] = b"there"
    child = spawn(answer, exporter.path, SIZE, access.value)
    exporter.send(access)
    assert child.result() == ["hello", "there"]
    assert exporter.bytes[:5] == (b"child" if access is Access.WRITE else b"hello")


def test_the_file_is_ours_alone_and_sealed_at_once(exporter: Exporter) -> None:
    fd = exporter.allocation.handle
    assert os.fstat(fd).st_mode & 0o7777 == 0o600
    assert not os.get_inheritable(fd)
    code, seals = _core.vm_seals(fd)
    assert code == 0
    assert seals & _core.SEAL_SHRINK
    assert seals & _core.SEAL_GROW
    assert not seals & (_core.SEAL_SEAL | _core.SEAL_FUTURE_WRITE)


@pytest.mark.parametrize("access", Access)
def test_the_first_export_fixes_the_rights(exporter: Exporter, access: Access) -> None:
    (other,) = set(Access) - {access}
    for _ in range(2):
        os.close(exporter.runtime.export(exporter.allocation, access).fd)
    with pytest.raises(RightsError) as caught:
        exporter.runtime.export(exporter.allocation, other)
    assert caught.value.cause == "export_rights"
    seals = _core.vm_seals(exporter.allocation.handle)[1]
    assert seals & _core.SEAL_SEAL
    assert bool(seals & _core.SEAL_FUTURE_WRITE) == (access is Access.READ)


def test_a_read_only_export_is_opened_for_reading(exporter: Exporter) -> None:
    fd = exporter.runtime.export(exporter.allocation, Access.READ).fd
    assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    assert not os.get_inheritable(fd)
    os.close(fd)


@pytest.mark.parametrize("access", Access)
def test_an_imported_allocation_can_be_handed_on_with_its_rights(
    exporter: Exporter, access: Access
) -> None:
    runtime = exporter.runtime
    (other,) = set(Access) - {access}
    with runtime.import_handle(runtime.export(exporter.allocation, access)) as second:
        with pytest.raises(RightsError):
            runtime.export(second, other)
        third = runtime.import_handle(runtime.export(second, access))
    with third, map_all(runtime, third, access) as mapping:
        assert memoryview(mapping.view)[:5] == b"hello"
        exporter.bytes[:5] = b"again"
        assert memoryview(mapping.view)[:5] == b"again"


def test_read_only_memory_cannot_be_mapped_writable(exporter: Exporter) -> None:
    runtime = exporter.runtime
    handle = runtime.export(exporter.allocation, Access.READ)
    with runtime.import_handle(handle) as theirs, runtime.reserve(SIZE) as reservation:
        for allocation in (theirs, exporter.allocation):
            with pytest.raises(RightsError) as caught:
                runtime.map(allocation, reservation, Access.WRITE)
            assert caught.value.cause == "read_only"
        with runtime.map(theirs, reservation, Access.READ) as mapping:
            assert memoryview(mapping.view).readonly


ALL_SEALS = _core.SEAL_SHRINK | _core.SEAL_GROW | _core.SEAL_SEAL


def memory_file(size: int, seals: int) -> int:
    fd = os.memfd_create("kvferry-theirs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    assert _core.vm_add_seals(fd, seals) == 0
    return fd


def read_only(fd: int) -> int:
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)
    return again


def one_end() -> int:
    read, write = os.pipe()
    os.close(write)
    return read


REFUSED: dict[str, tuple[type[Error], Callable[[], ShareHandle]]] = {
    "not sealed": (
        RightsError,
        lambda: ShareHandle(memory_file(SIZE, 0), SIZE, PAGE, Access.WRITE),
    ),
    "can shrink": (
        RightsError,
        lambda: ShareHandle(
            memory_file(SIZE, ALL_SEALS & ~_core.SEAL_SHRINK), SIZE, PAGE, Access.WRITE
        ),
    ),
    "can grow": (
        RightsError,
        lambda: ShareHandle(
            memory_file(SIZE, ALL_SEALS & ~_core.SEAL_GROW), SIZE, PAGE, Access.WRITE
        ),
    ),
    "seals can change": (
        RightsError,
        lambda: ShareHandle(
            memory_file(SIZE, ALL_SEALS & ~_core.SEAL_SEAL), SIZE, PAGE, Access.WRITE
        ),
    ),
    "read-only that can be written": (
        RightsError,
        lambda: ShareHandle(memory_file(SIZE, ALL_SEALS), SIZE, PAGE, Access.READ),
    ),
    "writable that is sealed": (
        RightsError,
        lambda: ShareHandle(
            memory_file(SIZE, ALL_SEALS | _core.SEAL_FUTURE_WRITE), SIZE, PAGE, Access.WRITE
        ),
    ),
    "writable that is opened for reading": (
        RightsError,
        lambda: ShareHandle(read_only(memory_file(SIZE, ALL_SEALS)), SIZE, PAGE, Access.WRITE),
    ),
    "shorter than claimed": (
        UsageError,
        lambda: ShareHandle(memory_file(SIZE - PAGE, ALL_SEALS), SIZE, PAGE, Access.WRITE),
    ),
    "empty": (
        UsageError,
        lambda: ShareHandle(memory_file(SIZE, ALL_SEALS), 0, PAGE, Access.WRITE),
    ),
    "not whole pages": (
        UsageError,
        lambda: ShareHandle(memory_file(SIZE, ALL_SEALS), SIZE - 1, PAGE, Access.WRITE),
    ),
    "other pages than claimed": (
        UsageError,
        lambda: ShareHandle(memory_file(2 << 20, ALL_SEALS), 2 << 20, 2 << 20, Access.WRITE),
    ),
    "a pipe": (UsageError, lambda: ShareHandle(one_end(), SIZE, PAGE, Access.WRITE)),
    "a folder": (
        UsageError,
        lambda: ShareHandle(os.open("/", os.O_RDONLY), SIZE, PAGE, Access.READ),
    ),
    "a regular file": (
        UsageError,
        lambda: ShareHandle(regular_file("/var/tmp"), SIZE, PAGE, Access.WRITE),
    ),
    "a file of /dev/shm": (
        Error,
        lambda: ShareHandle(regular_file("/dev/shm"), SIZE, PAGE, Access.WRITE),
    ),
}


def regular_file(folder: str) -> int:
    fd, name = tempfile.mkstemp(dir=folder)
    os.unlink(name)
    os.ftruncate(fd, SIZE)
    return fd


@pytest.mark.parametrize("name", REFUSED)
def test_import_refuses_and_closes(runtime: HostRuntime, name: str) -> None:
    kind, make = REFUSED[name]
    handle = make()
    with pytest.raises(kind):
        runtime.import_handle(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle.fd)


@pytest.mark.parametrize("fd", [-1, 1 << 20])
def test_import_refuses_what_is_no_descriptor(runtime: HostRuntime, fd: int) -> None:
    with pytest.raises(UsageError) as caught:
        runtime.import_handle(ShareHandle(fd, SIZE, PAGE, Access.READ))
    assert caught.value.cause == "bad_handle"


def test_a_kernel_without_noexec_seal_is_served(
    runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, flags_seen = os.memfd_create, []

    def old(name: str, flags: int) -> int:
        flags_seen.append(flags)
        if flags & _core.MFD_NOEXEC_SEAL:
            raise OSError(errno.EINVAL, "unknown flag")
        return real(name, flags)

    monkeypatch.setattr(os, "memfd_create", old)
    with runtime.allocate(SIZE) as allocation:
        assert os.fstat(allocation.handle).st_mode & 0o7777 == 0o600
    assert len(flags_seen) == 2


def test_a_file_cut_short_before_it_was_sealed_is_refused(
    runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner cuts and seals between our first look at it and the look at its seals."""
    fd = os.memfd_create("kvferry", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, SIZE)
    real = _core.vm_seals

    def seals(descriptor: int) -> tuple[int, int]:
        os.ftruncate(fd, PAGE)
        _core.vm_add_seals(fd, _core.SEAL_SHRINK | _core.SEAL_GROW | _core.SEAL_SEAL)
        return real(descriptor)

    monkeypatch.setattr(_core, "vm_seals", seals)
    with pytest.raises(UsageError):
        runtime.import_handle(ShareHandle(os.dup(fd), SIZE, PAGE, Access.WRITE))
    os.close(fd)

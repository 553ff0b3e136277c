"""``kvferry node --tenants FILE``: what the file may say, and who gets at the process."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvferry as kf
from kvferry import _core
from kvferry.engine.tenants import Tenants
from kvferry.errors import Error, RightsError, UsageError
from kvferry.store import Store
from kvferry.store.node import load
from kvferry.testing import Child
from kvferry.testing.process import Parent
from kvferry.testing.under_test import on_host

TOKENS = {name: f"the token of tenant {name}" for name in ("a", "b", "reader")}
GOOD: dict[str, Any] = {
    "a": {"token": TOKENS["a"], "dram": "1MiB", "read_only_token": TOKENS["reader"]},
    "b": {"token": TOKENS["b"], "dram": "256KiB", "objects": 64, "ssd_size": "1GiB"},
}


def write(file: Path, content: Any, mode: int = 0o600) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else msgspec.json.encode(content))
    file.chmod(mode)
    return file


def test_what_a_file_says(tmp_path: Path) -> None:
    write(tmp_path / "token", b"read from a file\n")
    file = write(
        tmp_path / "tenants",
        GOOD | {"c": {"token_file": "token", "dram": "4096", "read_only_token_file": "token"}},
    )
    plans = load(file)
    assert plans["a"].tenant == kf.Tenant(TOKENS["a"].encode(), TOKENS["reader"].encode())
    assert (plans["a"].size, plans["a"].objects, plans["a"].ssd_size) == (1 << 20, None, None)
    assert (plans["b"].size, plans["b"].objects, plans["b"].ssd_size) == (1 << 18, 64, 1 << 30)
    assert plans["c"].tenant.token == b"read from a file"
    with pytest.raises(UsageError, match="something else"):  # the same token for both
        Tenants({"c": plans["c"].tenant})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(RightsError, match="open to others"):
        load(write(tmp_path / "tenants", GOOD, mode))
    write(tmp_path / "token", b"read from a file", mode)
    told = {"a": {"token_file": "token", "dram": "1MiB"}}
    with pytest.raises(RightsError, match="open to others"):
        load(write(tmp_path / "tenants", told))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"a": 1}',
        {"a": {"token": TOKENS["a"]}},
        {"a": {"dram": "1MiB"}},
        {"a": {"dram": "1MiB", "token": "short"}},
        {"a": {"dram": "1MiB", "token": TOKENS["a"], "read_only_token": "short"}},
        {"a": {"dram": "1MiB", "token": TOKENS["a"], "token_file": "token"}},
        {"a": {"dram": "1MiB", "token_file": "there is none"}},
        {"a": {"dram": "much", "token": TOKENS["a"]}},
        {"a": {"dram": 1 << 20, "token": TOKENS["a"]}},
        {"a": {"dram": "1MiB", "token": TOKENS["a"], "drum": 1}},
        {"a": {"dram": "1MiB", "token": TOKENS["a"], "objects": "many"}},
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises((UsageError, RightsError)):
        load(write(tmp_path / "tenants", content))


def test_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load(tmp_path / "tenants")


# ---- the process ----

NOBODY = 65534
PR_SET_DUMPABLE = 4
PTRACE_ATTACH = 16
SYS_PIDFD_GETFD = 438

libc = ctypes.CDLL(None, use_errno=True)


def become_nobody() -> None:
    """An ordinary process of an ordinary user, if this is root's."""
    if os.getuid():
        return
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    assert libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0  # which another user loses


def keeps(parent: Parent, folder: str) -> None:
    """Is `kvferry node`."""
    import concurrent.futures.thread  # noqa: F401  what it imports late, another user cannot read

    import kvferry.store.node  # noqa: F401
    from kvferry.cli.node import node

    become_nobody()
    parent.tell("begins")
    node(dram="1MiB", listen=[f"unix://{folder}/node"], tenants=Path(folder) / "tenants", grace=0.0)


def attacks(parent: Parent) -> None:
    """Tells by which roads it got into each process that it is told of."""
    become_nobody()
    for pid in parent:
        parent.tell([name for name, road in ROADS.items() if _leads(road, pid)])


def _leads(road: Callable[[int], Any], pid: int) -> bool:
    with suppress(OSError):
        return bool(road(pid))
    return False


def _memory(pid: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(_mapped(pid))
        return memory.read(16)


def _mapped(pid: int) -> int:
    with open(f"/proc/{pid}/maps") as maps:
        return int(next(maps).partition("-")[0], 16)


def _descriptors(pid: int) -> int:
    return sum(bool(os.readlink(f"/proc/{pid}/fd/{fd}")) for fd in os.listdir(f"/proc/{pid}/fd"))


def _files(pid: int) -> int:
    """By the numbers that descriptors have."""
    opened = 0
    for fd in range(64):
        with suppress(OSError):
            os.close(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK))
            opened += 1
    return opened


def _taken(pid: int) -> int:
    pidfd, taken = os.pidfd_open(pid), 0
    for fd in range(64):
        got = libc.syscall(SYS_PIDFD_GETFD, pidfd, fd, 0)
        if got >= 0:
            os.close(got)
            taken += 1
    os.close(pidfd)
    return taken


def _traced(pid: int) -> bool:
    if libc.ptrace(PTRACE_ATTACH, pid, None, None):
        return False
    os.waitpid(pid, 0x40000000)  # __WALL
    libc.ptrace(17, pid, None, None)  # PTRACE_DETACH
    return True


# A private address of every process of this kind: whether the kernel lets one in is what matters.
ROADS: dict[str, Callable[[int], Any]] = {
    "environ": lambda pid: Path(f"/proc/{pid}/environ").read_bytes(),
    "maps": _mapped,
    "mem": _memory,
    "fd": _descriptors,
    "files": _files,
    "pidfd_getfd": _taken,
    "process_vm_readv": lambda pid: _core.process_read(pid, _first_page(pid), 8)[0] == 0,
    "ptrace": _traced,
}


def _first_page(pid: int) -> int:
    """Of a process that does not tell, some address: EPERM comes before EFAULT."""
    with suppress(OSError):
        return _mapped(pid)
    return _mapped(os.getpid())


@pytest.fixture
def keeper(folder: Path, spawn: Callable[..., Child]) -> Iterator[Child]:
    file = write(folder / "tenants", {"a": GOOD["a"], "b": GOOD["b"] | {"ssd_size": None}})
    if os.getuid() == 0:
        for each in (folder, file):
            os.chown(each, NOBODY, NOBODY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KVFERRY_TOKEN", "the token of the node")
        child = spawn(keeps, str(folder))
    child.hear()
    yield child
    if child.alive():
        os.kill(child.pid, signal.SIGTERM)
        child.result()


@contextmanager
def some_process() -> Iterator[int]:
    """Of the same user as the node."""
    one = None if os.getuid() else NOBODY
    with subprocess.Popen(
        ["sleep", "60"], user=one, group=one, stdin=subprocess.DEVNULL
    ) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def user(folder: Path, name: str) -> Store:
    plain = kf.config.from_environment()
    options = kf.Options(token_file=plain.token_file, token=TOKENS[name].encode())
    deadline = time.monotonic() + 20
    while True:
        try:
            return Store(f"unix://{folder}/node", options=options)
        except Error:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.skipif(not on_host(), reason="a device's library has other rights")
def test_a_node_process_is_closed_to_its_own_user(
    folder: Path, keeper: Child, spawn: Callable[..., Child]
) -> None:
    """It serves its tenants, who map its memory though they cannot look into it."""
    with user(folder, "a") as a, user(folder, "b") as b, user(folder, "reader") as reader:
        for store, value in ((a, b"a's"), (b, b"b's")):
            assert store._own.home.reader is not None, "it is not mapped"
            store.put("key", value)
        assert (a.get("key"), b.get("key"), reader.get("key")) == (b"a's", b"b's", b"a's")
        with pytest.raises(RightsError):
            reader.remove("key")
        attacker = spawn(attacks)
        with some_process() as other:
            assert set(attacker.ask(other)) == set(ROADS), "there are no such roads"
        assert attacker.ask(keeper.pid) == []
        with kf.Engine(options=a._options) as engine, pytest.raises(kf.PathRefused) as refused:
            engine.connect(f"unix://{folder}/node", path="cma/host")
        assert "does not offer it" in str(refused.value.rejected)
        attacker.result()

"""A user of this host whose number the node does not know: of another pid namespace, as in a
container of its own processes."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kvferry.cli import main
from kvferry.engine.caller import Caller
from kvferry.engine.inbound import Inbound
from kvferry.errors import PeerError
from kvferry.rpc.peer import SO_PEERPIDFD
from kvferry.store import Answer, Store
from kvferry.store.node.service import TICK
from kvferry.store.user.far import Far
from kvferry.store.user.near import Mapped
from kvferry.testing import Child, spawn
from kvferry.testing.process import Parent
from tests.store.settings import node_of

PAGE = bytes(range(256)) * 16

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000  # linux/sched.h
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18  # linux/mount.h
PR_SET_PDEATHSIG = 1


# ---- a kernel that names processes by number alone ----


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives such a process the number 0."""
    caller = Inbound._caller
    monkeypatch.setattr(Inbound, "_caller", lambda self: Caller(*caller(self)[:2], 0))


@pytest.mark.usefixtures("unseen")
def test_it_writes_over_a_wire(folder: Path) -> None:
    """What it has reserved is free when its channel is over, so it may not have it mapped."""
    listen = [f"unix://{folder}/node", "127.0.0.1:0"]
    with Store(size=1 << 20, listen=listen) as owner, Store(listen[0]) as user:
        home: Any = user._own.home
        assert isinstance(home, Far)
        assert home._channel.regions["store.pool"].mapping is None
        assert user.put("k", b"value") is Answer.STORED
        assert owner.get("k") == user.get("k") == b"value"


@pytest.mark.usefixtures("unseen")
def test_without_a_wire_it_is_refused(folder: Path) -> None:
    """Both reasons are told."""
    listen = [f"unix://{folder}/node"]
    with (
        Store(size=1 << 20, listen=listen),
        pytest.raises(PeerError, match=r"pid namespace .* listens on no tcp address"),
    ):
        Store(listen[0])


@pytest.mark.usefixtures("unseen")
@pytest.mark.parametrize("wire", [True, False])
def test_explain_tells_what_a_user_gets(
    wire: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listen = [f"unix://{folder}/node", *(["127.0.0.1:0"] if wire else [])]
    monkeypatch.setattr("sys.argv", ["kvferry", "explain", listen[0]])
    with Store(size=1 << 20, listen=listen) as owner:
        with pytest.raises(SystemExit):
            main()
        until(lambda: len(node_of(owner).members) == 1)
    told = capsys.readouterr().out
    assert "its own memory        fabric/host/none" in told
    how = "tcp/host/none" if wire else "refused"
    assert f"as a store's user     {how}: the node would not notice the end" in told


def test_by_number_where_the_kernel_gives_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvferry.rpc.peer.SO_PEERPIDFD", 32000)
    listen = f"unix://{folder}/node"
    with Store(size=1 << 20, listen=[listen]) as owner, Store(listen) as user:
        assert isinstance(user._own.home, Mapped)
        _, member = node_of(owner).members
        assert (member.pid, member.exited) == (os.getpid(), False)
        assert member.pidfd is not None


# ---- a node and its users in pid namespaces of their own ----


def keep(parent: Parent, address: str) -> None:
    """A node as the first process of a pid namespace, which does not see its users."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWPID | CLONE_NEWNS):
        parent.tell(os.strerror(ctypes.get_errno()))
        return
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    if libc.mount(b"proc", b"/proc", b"proc", 0, None):
        parent.tell(os.strerror(ctypes.get_errno()))
        os._exit(0)
    with Store(size=1 << 20, listen=[address]) as owner:
        parent.tell(None)
        node = node_of(owner)
        for word in parent:
            if word == "remove":
                owner.remove("theirs")
            figures = node.figures()
            parent.tell(
                {
                    "pids": [each.pid for each in node.members if each.pid is not None],
                    "usage": figures["usage"],
                    **figures["users"],
                    "descriptors": len(os.listdir("/proc/self/fd")),
                }
            )
    os._exit(0)


def use(parent: Parent, address: str) -> None:
    """A user, whose node sees it as number 0."""
    with Store(address) as store, Store(address) as other:
        store.put("theirs", PAGE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(other._own.home, "ask", None)  # it reads without
            assert other.get("theirs") == PAGE
        other.close()
        view: Any = store.view("theirs")
        with view as block:
            parent.tell({"same": block == PAGE, "traffic": store.stats()["traffic"]})
            parent.hear()
            for _ in range(2):  # its channel breaks, it joins again
                store._own.home._channel.close()  # type: ignore[attr-defined]
                assert store.put("more", PAGE)
            parent.tell(bytes(block) == PAGE)
            parent.hear()
            store._own.home._channel.close()  # type: ignore[attr-defined]
            parent.tell(None)
            parent.hear(timeout=None)


@pytest.fixture
def apart(folder: Path) -> Iterator[tuple[Child, str]]:
    if not gives_pidfd():
        pytest.skip("no SO_PEERPIDFD")
    address = f"unix://{folder}/apart"
    with spawn(keep, address) as node:
        if refused := node.hear():
            pytest.skip(f"no pid namespace: {refused}")
        yield node, address


def gives_pidfd() -> bool:
    ours, theirs = socket.socketpair()
    with ours, theirs, suppress(OSError):
        os.close(ours.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD))
        return True
    return False


def test_what_it_held_falls_with_its_process_alone(apart: tuple[Child, str]) -> None:
    node, address = apart
    before = node.ask("look")
    with spawn(use, address) as user:
        told = user.hear()
        assert told["same"]
        assert set(told["traffic"]) == {"fabric.read"}, "it maps the node's memory"
        assert node.ask("look")["pids"] == [0]
        assert user.ask("break")
        node.ask("remove")
        user.ask("leave")
        until(lambda: all_silent(node.ask("look")))
        rounds_of_upkeep = 3 * TICK
        time.sleep(rounds_of_upkeep)
        held = node.ask("look")
        assert all_silent(held), "nobody is gone whose process is there"
        assert held["usage"]["deferred"] > 0
        assert held["held_lines"] == 1
        user.kill()
        until(lambda: node.ask("look")["users"] == 1)
        until(lambda: not node.ask("look")["usage"]["deferred"])
    after = node.ask("look")
    assert after["held_lines"] == after["usage"]["deferred"] == after["usage"]["quarantined"] == 0
    until(lambda: node.ask("look")["descriptors"] == before["descriptors"])


def all_silent(told: dict[str, int]) -> bool:
    """But for the node's own user."""
    return told["users"] > 1 and told["silent"] == told["users"] - 1


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert true()

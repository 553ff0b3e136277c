"""Hosts that are network namespaces, on one network whose wires can be cut.

    host 1     host 2     host 3         10.77.0.1, .2, .3, each at the only device it has
      |          |          |            veth
    [port 1]--[port 2]--[port 3]         a bridge, in a namespace of its own

Nothing of it is seen from the machine itself. An isolated port reaches all others but those that
are isolated, too, which separates two hosts that a third one still reaches.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["Host", "Lan", "enter", "lan"]

CLONE_NEWNET = 0x40000000
NET_ADMIN = 12  # its bit among the capabilities


class Host:
    """folder: its own, where XDG_RUNTIME_DIR lies."""

    def __init__(self, network: str, number: int, folder: Path) -> None:
        self.inside = ["ip", "netns", "exec", f"{network}-{number}"]  # before a command
        self.namespace = f"{network}-{number}"
        self.address = f"10.77.0.{number}"
        self.port = f"port{number}"
        self.folder = folder / f"host{number}"
        self.folder.mkdir(mode=0o700)


class Lan:
    """Made by `lan`, which takes it away again. hosts: in the order in which they came."""

    def __init__(self, folder: Path) -> None:
        self._name = f"kvferry-{os.getpid()}"
        self._folder = folder
        self._switch = f"{self._name}-0"
        self.hosts: list[Host] = []

    def begin(self) -> None:
        ip("netns", "add", self._switch)
        self._ip("link", "add", "name", "lan", "type", "bridge")
        self._ip("link", "set", "lan", "up")

    def host(self) -> Host:
        made = Host(self._name, len(self.hosts) + 1, self._folder)
        ip("netns", "add", made.namespace)
        self.hosts.append(made)
        peer = "type", "veth", "peer", "name", "eth0", "netns", made.namespace
        self._ip("link", "add", "name", made.port, *peer)
        self._ip("link", "set", made.port, "master", "lan", "up")
        for device in "lo", "eth0":
            ip("-n", made.namespace, "link", "set", device, "up")
        ip("-n", made.namespace, "addr", "add", f"{made.address}/24", "dev", "eth0")
        return made

    def cut(self, host: Host) -> None:
        """Nobody reaches it, and it nobody: what is sent is lost."""
        self._ip("link", "set", host.port, "down")

    def part(self, *hosts: Host) -> None:
        """These do not reach each other; all others reach them."""
        for host in hosts:
            self._isolate(host, "on")

    def heal(self) -> None:
        for host in self.hosts:
            self._isolate(host, "off")
            self._ip("link", "set", host.port, "up")

    def end(self) -> None:
        """The namespaces, devices and all; also when it was made by half."""
        for namespace in (*(host.namespace for host in self.hosts), self._switch):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)

    def _isolate(self, host: Host, state: str) -> None:
        self._ip("link", "set", host.port, "type", "bridge_slave", "isolated", state)

    def _ip(self, *words: str) -> None:
        ip("-n", self._switch, *words)


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def lan(folder: Path) -> Iterator[Lan]:
    """Skips the test where there can be no namespaces. To be entered before what lives in them."""
    if (why := _why_not()) is not None:
        pytest.skip(f"no network namespaces here: {why}")
    made = Lan(folder)
    try:
        try:
            made.begin()
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield made
    finally:
        made.end()


def _why_not() -> str | None:
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if os.geteuid():
        return "who runs the tests is not root"
    (line,) = [
        line for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line
    ]
    if not int(line.split()[1], 16) >> NET_ADMIN & 1:
        return "CAP_NET_ADMIN is not permitted"
    return None


def enter(namespace: str) -> None:
    """The calling thread, and those that it will start, are in this namespace from now on; "": in
    the one where they are."""
    if not namespace:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)
    finally:
        os.close(descriptor)

"""A real etcd of one member, for a test."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvferry.errors import PeerError
from kvferry.store.directory.etcd import Etcd
from kvferry.testing.faults.party import until

WHY = "etcd is not installed (scripts/get-etcd FOLDER unpacks Debian's, then put it on the PATH)"


class EtcdServer:
    """A process of its own, with its data in `folder`. Skips the test where there is no etcd.

    host  its address
    inside  words before the command, such as those that put it into a network of its own
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1", inside: Sequence[str] = ()) -> None:
        program = shutil.which("etcd")
        if program is None:
            pytest.skip(WHY)
        client, peer = (f"http://{host}:{port}" for port in _free_ports(2))
        self.endpoint = client
        self._command = [
            *(*inside, program, "--data-dir", str(folder / "etcd"), "--logger", "zap"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
        ]
        self._reached = not inside  # from here
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        if self._reached:
            until(self._answers, "etcd answers")

    def _answers(self) -> bool:
        try:
            Etcd([self.endpoint], timeout=1).grant(60)
        except PeerError:
            return False
        return True

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for sock in held:
        sock.bind(("127.0.0.1", 0))
    ports = [int(sock.getsockname()[1]) for sock in held]
    for sock in held:
        sock.close()
    return ports

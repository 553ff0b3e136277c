"""Commands as processes, and what they answer over HTTP."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

TREE = Path(__file__).parents[4] / "src/kvferry/compat/mooncake"
TOKEN = "a token for tests"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Started:
    """A command that has said, in its one line, that it is ready."""

    def __init__(self, *words: str, **variables: str) -> None:
        python = os.path.dirname(sys.executable)
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed at the end
        self.process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={
                **os.environ,
                **variables,
                "PATH": f"{TREE}/bin:{python}:{os.environ['PATH']}",
                "PYTHONPATH": str(TREE),
                "KVFERRY_TOKEN": TOKEN,
            },
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Its status, what else it printed, and its log."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=10)
        with self.log:
            self.log.seek(0)
            return self.process.returncode, out, self.log.read()


class Master(Started):
    def __init__(self, rpc: int, admin: int, *more: str) -> None:
        self.address = f"127.0.0.1:{rpc}"
        self.url = f"http://127.0.0.1:{admin}"
        words = f"--rpc_port={rpc}", "-metrics_port", str(admin), "--rpc_address=127.0.0.1", *more
        super().__init__("mooncake_master", *words)

    def get(self, path: str) -> str:
        status, body = ask("GET", self.url + path)
        assert status == 200, body
        return body


def client(master: Master, port: int, *more: str, **variables: str) -> Started:
    at = f"--host=127.0.0.1 --port={port} --master_server_address={master.address}".split()
    return Started("mooncake_client", *at, "--global_segment_size=32MB", *more, **variables)


def ask(method: str, url: str, token: str | None = None, body: bytes = b"") -> tuple[int, str]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=10)
    try:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        path = f"{where.path}?{where.query}" if where.query else where.path
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()

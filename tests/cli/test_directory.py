"""``kvferry directory`` with a node that names it, and what it cannot be."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvferry.cli import main
from kvferry.store import Store
from tests.store.directory.town import until

COMMAND = [sys.executable, "-c", "from kvferry.cli import main; main()"]


def start(*words: str) -> tuple[subprocess.Popen[str], str]:
    """The process, and the address at which it says that it listens."""
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
    assert told is not None
    return process, told[0]


@pytest.mark.slow
def test_a_node_names_a_directory_from_end_to_end(tmp_path: Path) -> None:
    listen = "--listen=127.0.0.1:0"
    directory, where = start("directory", listen)
    with directory:
        node, there = start("node", "--dram=1MiB", listen, f"--directory={where}", "--domain=d")
        with node, Store(size=1 << 20, directory=[where]) as user:
            with Store(f"kv://{there}") as writer:
                writer.put("key", b"value")
            until(lambda: user.get("key") == b"value")
            node.send_signal(signal.SIGTERM)
            assert node.wait(20) == 0
        directory.send_signal(signal.SIGTERM)
        assert directory.wait(20) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["directory", "--listen=127.0.0.1:0", "--etcd=http://127.0.0.1:1"],
        ["directory", "--listen=127.0.0.1:0", "--cluster=one"],
        ["directory", "--listen=127.0.0.1:0", "--keys=0"],
        ["directory", "--listen=nowhere"],
        ["node", "--dram=1MiB", "--listen=127.0.0.1:0", "--directory=nowhere"],
        ["node", "--dram=1MiB", "--listen=127.0.0.1:0", "--copy-rate=0"],
    ],
    ids=lambda words: words[-1],
)
def test_what_cannot_be_is_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kvferry.cli.node._conceal", lambda: None)  # of the tests' own process
    monkeypatch.setattr(sys, "argv", ["kvferry", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("kvferry: ")

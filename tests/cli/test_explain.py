"""``kvferry explain``: which paths lead to an engine, and what a transfer over each really is."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import kvferry as kf
from kvferry.cli import main

MIB = 1 << 20

Explain = Callable[..., tuple[int, str, str]]


@pytest.fixture
def explain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Runs the command in this process: status, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvferry", "explain", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_paths_rejections_and_answers(explain: Explain) -> None:
    with kf.Engine("127.0.0.1:0") as target:
        kv = np.frombuffer(target.allocate("kv", MIB), np.uint8)
        kv[:] = 7
        target.register("buffer", np.full(MIB, 9, np.uint8))
        status, out, _ = explain(target.addresses[0], "--path", "direct")
        assert status == 0
        assert (kv == 7).all()
        del kv
    for line in (
        "its own memory        fabric/host/none",
        "not fabric/host/bounce      mapped memory is copied in place: nothing to stage",
        "of own region 'kv' over fabric/host/none in",
        "one-sided     yes: nothing ran at the peer  [served_bytes 0]",
        "mapped        yes: it lies in our address space  [addressing mapped]",
        "of registered region 'buffer' over",
    ):
        assert line in out
    assert out.count("submitted by") == 2


def test_tcp_says_who_moved_the_bytes(explain: Explain) -> None:
    with kf.Engine("127.0.0.1:0") as target:
        target.allocate("kv", MIB)
        status, out, _ = explain(target.addresses[0], "--path", "tcp/host/bounce")
    assert status == 0
    assert "its native threads moved their end  [served_bytes 262144]" in out
    assert "once more through a pool" in out


def test_no_path_names_every_reason(explain: Explain) -> None:
    with kf.Engine("127.0.0.1:0") as target:
        status, out, _ = explain(target.addresses[0], "--path", "loopback/inline")
    assert status == 2
    assert "no path" in out
    assert "not loopback/inline/none  the peer is another engine" in out


def test_an_engine_without_memory(explain: Explain) -> None:
    with kf.Engine("127.0.0.1:0") as target:
        status, out, _ = explain(target.addresses[0])
    assert status == 0
    assert "it offers no memory: nothing was moved" in out


def test_nobody_there(explain: Explain) -> None:
    status, _, err = explain("127.0.0.1:1", "--timeout", "1")
    assert status == 2
    assert err.startswith("kvferry: ")
    assert err.count("\n") == 1

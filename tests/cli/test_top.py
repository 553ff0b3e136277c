"""``kvferry top``, and ``--http`` of what it looks at."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from kvferry.cli import main
from kvferry.store import Store
from kvferry.store.survey import Survey
from tests.store.directory.town import until

COMMAND = [sys.executable, "-c", "from kvferry.cli import main; main()"]


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["kvferry", "top", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


@pytest.fixture
def address() -> Iterator[str]:
    with Store(listen=["127.0.0.1:0"], size=1 << 20) as store:
        store.put("a", b"1" * 5000)
        assert store.get("b") is None
        yield store.engine.addresses[0]


def test_one_picture_or_what_was_seen(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--once"], []):  # the same where there is no terminal
        run(monkeypatch, address, "--every=0.1", *words)
        shown = capsys.readouterr().out
        assert address in shown
        assert "never" in shown
    run(monkeypatch, address, "--json")
    seen = json.loads(capsys.readouterr().out)
    assert seen["nodes"][0]["own"]["reads"]["absent"] == 1


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["127.0.0.1:1", "--once"], "unseen"),
        (["nowhere"], "address"),
        (["127.0.0.1:1", "--every=0"], "every"),
        (["127.0.0.1:1", "--url"], "unseen"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: list[str],
    cause: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["kvferry", "top", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("kvferry: ")
    assert f"[{cause}]" in said


def start(*words: str) -> tuple[subprocess.Popen[str], str, str]:
    """The process, where it listens, and the address of its page with the key."""
    command = [*COMMAND, *words, "--listen=127.0.0.1:0", "--http=127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
    page = re.fullmatch(
        r"page: (http://127\.0\.0\.1:\d+/\?key=\w{32})\n", process.stdout.readline()
    )
    assert told is not None
    assert page is not None
    return process, told[0], page[1]


def fetched(url: str, path: str) -> bytes:
    page, _, key = url.partition("/?key=")
    asked = urllib.request.Request(page + path, headers={"Authorization": f"Bearer {key}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, None, 10) as got:
        body: bytes = got.read()
        return body


@pytest.mark.slow
def test_the_page_of_a_directory_and_of_a_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, where, page = start("directory")
    node, there, own = start("node", "--dram=1MiB", f"--directory={where}")
    with directory, node:
        with Survey(where) as survey:
            until(lambda: survey.take().nodes)
        for url in page, own:
            assert f'node="{there}"'.encode() in fetched(url, "/metrics")
        for address in where, there:
            run(monkeypatch, address, "--url")
            assert capsys.readouterr().out.strip() == page
        node.send_signal(signal.SIGTERM)
        assert node.wait(20) == 0
        directory.send_signal(signal.SIGTERM)
        assert directory.wait(20) == 0


@pytest.mark.slow
def test_a_terminal_is_kept_up_to_date_until_ctrl_c(address: str) -> None:
    import os
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, "top", address, "--every=0.1"], stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        while shown.count(address.encode()) < 3:
            shown += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        try:
            while os.read(ours, 1 << 16):
                pass
        except OSError:  # the other end is closed
            pass
        assert process.wait(20) == 0
    os.close(ours)

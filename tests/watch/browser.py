"""Headless Chromium, as far as the tests of the page need it, over its DevTools protocol."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Tab", "browser"]

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
# Nothing is asked of the network, and there is no sandbox where tests run as root.
HOW = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --no-proxy-server --remote-debugging-port=0"
)
PATIENCE = 30.0


class Tab:
    """One page."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._socket.close()

    def do(self, method: str, **how: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": how}))
        while (told := json.loads(self._socket.recv())).get("id") != number:
            pass
        assert "error" not in told, told
        return told["result"]

    def says(self, script: str) -> Any:
        """What an expression is; promises are waited for."""
        how = {"returnByValue": True, "awaitPromise": True}
        told = self.do("Runtime.evaluate", expression=script, **how)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def until(self, script: str) -> Any:
        """Once it is so; also of a page that is not there yet."""
        end = time.monotonic() + PATIENCE
        tried = f"(() => {{ try {{ return {script} }} catch {{ return null }} }})()"
        while not (told := self.says(tried)):
            assert time.monotonic() < end, f"{script}; the page says {self.says(TEXT)}"
            time.sleep(0.05)
        return told

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            how = {"key": key, "code": key, "windowsVirtualKeyCode": code, **text}
            self.do("Input.dispatchKeyEvent", type=kind, **how)

    def width(self, wide: int, dark: bool = False) -> None:
        how = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.do("Emulation.setDeviceMetricsOverride", width=wide, **how)
        wanted = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.do("Emulation.setEmulatedMedia", features=wanted)


TEXT = "document.body.innerText"


@contextmanager
def browser(folder: Path) -> Iterator[Callable[[str], Tab]]:
    """Opens pages. Skips the test where there is no Chromium, or no way to speak to it."""
    websocket = pytest.importorskip("websocket")
    if PROGRAM is None:
        pytest.skip("there is no Chromium here")
    process = subprocess.Popen(
        [PROGRAM, *HOW.split(), f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"HOME": str(folder), "TMPDIR": str(folder), "PATH": "/usr/bin:/bin"},
    )

    def open_(address: str) -> Tab:
        where = f"http://127.0.0.1:{port}/json/new?about:blank"
        asked = urllib.request.Request(where, method="PUT")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
            told = json.load(answer)
        url = told["webSocketDebuggerUrl"]
        tab = Tab(websocket.create_connection(url, PATIENCE, suppress_origin=True))
        tab.do("Page.enable")
        tab.do("Page.navigate", url=address)
        return tab

    try:
        port = _port(process, folder / "DevToolsActivePort")
        yield open_
    finally:
        process.terminate()
        process.wait(10)


def _port(process: subprocess.Popen[bytes], file: Path) -> int:
    end = time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text().strip()):
        assert process.poll() is None, "Chromium ended"
        assert time.monotonic() < end, "Chromium does not start"
        time.sleep(0.05)
    return int(file.read_text().split()[0])

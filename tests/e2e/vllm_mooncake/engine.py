"""An engine in a process of its own, as the tests talk to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

SCRIPT = Path(__file__).with_name("serve.py")
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "MOONCAKE_REQUESTER_LOCAL_HOSTNAME": "127.0.0.1",
}


class Engine:
    """Begins at once; ends with the context.

    config   file that names the store; None: the engine has none
    apart    vLLM runs its core in a further process
    """

    def __init__(
        self, model: str, config: Path | None, env: dict[str, str], log: Path, apart: bool
    ):
        read, write = os.pipe()
        settings = SETTINGS | {
            "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(apart)),
            "TMPDIR": str(log.parent),  # vLLM leaves sockets there
        }
        if config is not None:
            settings["MOONCAKE_CONFIG_PATH"] = str(config)
        with log.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPT), model, str(write)],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=env | settings,
                pass_fds=[write],
                start_new_session=True,
            )
        os.close(write)
        self._answers = os.fdopen(read)
        self._log = log

    def ready(self) -> None:
        assert self._answer() == {"ready": True}

    def ask(self, prompt: list[int] | None, tokens: int = 12) -> dict[str, Any]:
        assert self._process.stdin is not None
        request = {"prompt": prompt, "tokens": tokens}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        """With all that vLLM has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        assert line, self._log.read_text()[-3000:]
        found: dict[str, Any] = json.loads(line)
        return found

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()
        self._answers.close()

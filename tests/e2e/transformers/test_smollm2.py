"""SmolLM2 in transformers: what one process computed, another one reuses, and answers the same.

Run by tools/e2e.sh transformers, in an environment with torch and transformers.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvferry as kf
from kvferry.testing import spawn
from tests.store.conftest import short_folder

from .worker import load, worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None or "E2E_MODEL" not in os.environ,
        reason="needs torch, transformers and a model: tools/e2e.sh transformers",
    ),
]

BLOCK = 16
PROMPT = [(7 * at * at + 3 * at) % 40_000 + 500 for at in range(207)]
LENGTHS = [1, 16, 17, 32, 33, 47, 48, 49, 70]
LOADING = 120.0
GREEDY = {"do_sample": False, "max_new_tokens": 6}


@contextmanager
def node(folder: Path) -> Iterator[tuple[str, Any]]:
    """Address and process of a node on the command line."""
    address = f"unix://{folder}/node"
    command = [sys.executable, "-m", "kvferry", "node", "--dram", "512MiB", "--listen", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert re.search("unix://", process.stdout.readline())
        yield address, process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_at_ends_of_blocks(dtype: str) -> None:
    """Restored KV is that which was saved, bit for bit; and so are logits and text after it. In
    float32 they are those without any cache, too. Of all lengths: tests/connectors/transformers."""
    import torch
    from transformers import DynamicCache

    from kvferry.connectors.transformers import Prefixes

    model = load(os.environ["E2E_MODEL"], dtype)
    ids = torch.tensor([PROMPT[:80]])

    def logits(count: int, cache: Any) -> Any:
        with torch.no_grad():
            rest = ids[:, cache.get_seq_length() : count]
            return model(rest, past_key_values=cache).logits[0, -1].float()

    def beginning(tokens: int) -> Any:
        copied = DynamicCache(config=model.config)
        for at, layer in enumerate(whole.layers if tokens else ()):
            copied.update(
                layer.keys[:, :, :tokens].clone(), layer.values[:, :, :tokens].clone(), at
            )
        return copied

    whole = DynamicCache(config=model.config)
    logits(80, whole)
    with kf.Store(size="64MiB") as store:
        prefixes = Prefixes(model, store, BLOCK)
        assert prefixes.save(ids, whole) == 80
        for count in LENGTHS:
            cache, tokens = prefixes.restore(ids[:, :count])
            assert tokens == (count - 1) // BLOCK * BLOCK
            for restored, computed in zip(cache.layers, whole.layers, strict=True):
                if tokens:
                    assert torch.equal(restored.keys, computed.keys[:, :, :tokens])
                    assert torch.equal(restored.values, computed.values[:, :, :tokens])
            after = logits(count, cache)
            assert torch.equal(after, logits(count, beginning(tokens)))
            if dtype == "float32":
                plain = logits(count, DynamicCache(config=model.config))
                torch.testing.assert_close(after, plain, atol=1e-4, rtol=0)
            asked = ids[:, :count]
            settings = {"attention_mask": torch.ones_like(asked), **GREEDY, "max_new_tokens": 2}
            kept = {"past_key_values": beginning(tokens)} if dtype != "float32" else {}
            expected = model.generate(asked, **settings, **kept)
            output, report = prefixes.generate(asked, **settings)
            assert torch.equal(output, expected)
            assert report.hit == tokens


def test_two_processes_and_a_node() -> None:
    """The second one hits what the first one stored; another dtype does not; turn follows turn;
    a node that is killed costs hits, no more."""
    import torch

    folder = os.environ["E2E_MODEL"]
    model = load(folder, "float32")

    def plain(prompt: list[int]) -> list[int]:
        ids = torch.tensor([prompt])
        found = model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY)
        return list(found[0].tolist())

    with short_folder() as place, node(place) as (address, process):
        with spawn(worker, folder, "float32", address) as first:
            assert first.hear(LOADING) == "ready"
            expected = plain(PROMPT)
            answer = first.ask(PROMPT, LOADING)
            assert answer == {"tokens": expected, "hit": 0, "kept": 208}
        with (
            spawn(worker, folder, "float32", address) as second,
            spawn(worker, folder, "bfloat16", address) as other,
        ):
            assert second.hear(LOADING) == "ready"
            assert second.ask(PROMPT, LOADING) == {"tokens": expected, "hit": 192, "kept": 208}
            turn = [*expected, *PROMPT[40:70]]
            answer = second.ask(turn, LOADING)
            assert (answer["tokens"], answer["hit"]) == (plain(turn), 208)
            assert other.hear(LOADING) == "ready"
            assert other.ask(PROMPT, LOADING)["hit"] == 0
            process.kill()
            process.wait()
            assert second.ask(PROMPT, LOADING) == {"tokens": expected, "hit": 0, "kept": 0}

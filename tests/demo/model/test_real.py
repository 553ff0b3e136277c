"""The demonstration's own model, where it has been downloaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvferry.cli import main
from kvferry.config import from_environment
from kvferry.demo.model import generate, load
from kvferry.demo.model.fetch import SMOLLM2

pytestmark = pytest.mark.slow

# What transformers makes of the same file in float32, greedily.
GOATS = """504 2388 436 4054 690 260 15361 28 17462 253 10908 14654 690 260 14055 2399 282 22317 581
22340 926 30 378 2139 282 17224 284 2477 4412 260 1512 347 253 1528 282 22088 284 24133 932 11930"""


@pytest.fixture
def path() -> Path:
    cache = from_environment().cache
    if cache is None or not (cache / SMOLLM2.name).exists():
        pytest.skip(f"no {SMOLLM2.name} in {cache}")
    return cache / SMOLLM2.name


def test_it_says_what_transformers_says(path: Path) -> None:
    model, tokenizer = load(path)
    assert model.revision == SMOLLM2.sha256
    asked = tokenizer.chat(
        [{"role": "user", "content": "Write a story about a ferry of 12 goats."}]
    )
    assert list(generate(model, asked, 40)) == [int(token) for token in GOATS.split()]
    asked = tokenizer.chat([{"role": "user", "content": "What is the capital of France?"}])
    said = tokenizer.decode(generate(model, asked, 20, tokenizer.stops))
    assert said == "The capital of France is Paris."


def test_what_the_demo_promises(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out.json"
    monkeypatch.setattr("sys.argv", ["kvferry", "demo", "--model", str(path), "--json", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    figures = json.loads(file.read_text())
    assert figures["prompt_tokens"] >= 1000
    assert figures["hit_blocks"] >= 0.95 * figures["full_blocks"]
    assert (figures["compared"], figures["differences"]) == (48, [])

"""KV of one adapter is not KV of another, however they are switched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kvferry as kf
from kvferry.errors import UsageError

from .models import PROMPT, tiny

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from kvferry.connectors.transformers import Prefixes  # noqa: E402

GREEDY = {"do_sample": False, "max_new_tokens": 4}
FULL = 80


@pytest.fixture
def store() -> Iterator[kf.Store]:
    with kf.Store(size="16MiB") as made:
        yield made


def lora(**changed: Any) -> Any:
    settings = {"r": 4, "target_modules": ["q_proj", "k_proj"], "init_lora_weights": False}
    return peft.LoraConfig(task_type="CAUSAL_LM", **(settings | changed))


def with_adapters(*names: str, seed: int = 5, **changed: Any) -> Any:
    inner = tiny()
    torch.manual_seed(seed)
    model = peft.get_peft_model(inner, lora(**changed), names[0])
    for name in names[1:]:
        model.add_adapter(name, lora(**changed))
    return model.eval()


def answered(prefixes: Prefixes) -> int:
    """Tokens that were hit, of an answer which is right."""
    ids = torch.tensor([PROMPT])
    expected = prefixes.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **GREEDY)
    output, report = prefixes.generate(PROMPT, **GREEDY)
    assert torch.equal(output, expected)
    assert report.failed == ()
    return report.hit


def test_switched_between_calls(store: kf.Store) -> None:
    model = with_adapters("red", "blue")
    prefixes = Prefixes(model, store)
    assert (answered(prefixes), answered(prefixes)) == (0, FULL)
    model.set_adapter("blue")
    assert (answered(prefixes), answered(prefixes)) == (0, FULL)
    with model.disable_adapter():
        assert (answered(prefixes), answered(prefixes)) == (0, FULL)
    model.base_model.set_adapter(["red", "blue"])
    assert (answered(prefixes), answered(prefixes)) == (0, FULL)
    model.set_adapter("red")
    assert answered(prefixes) == FULL
    for layer in model.modules():
        if hasattr(layer, "set_scale"):
            layer.set_scale("red", 0.25)
    assert answered(prefixes) == 0


def test_disabled_is_the_model_itself(store: kf.Store) -> None:
    """Also where a layer is trained as a whole."""
    assert answered(Prefixes(tiny(), store)) == 0
    model = with_adapters("red", modules_to_save=["lm_head"])
    with torch.no_grad():
        model.base_model.model.lm_head.modules_to_save["red"].weight[7] += 1
    prefixes = Prefixes(model, store)
    with model.disable_adapter():
        assert answered(prefixes) == FULL
    assert answered(prefixes) == 0


def test_named_alike_with_other_weights(store: kf.Store) -> None:
    hits = [answered(Prefixes(with_adapters("red", seed=seed), store)) for seed in (5, 6, 5)]
    assert hits == [0, 0, FULL]
    named = [
        answered(Prefixes(with_adapters("default", seed=seed), store, revision="tiny"))
        for seed in (5, 6, 5)
    ]
    assert named == [0, 0, FULL]


def test_adapters_that_come_later_or_learn(store: kf.Store) -> None:
    model = with_adapters("red")
    prefixes = Prefixes(model, store)
    answered(prefixes)
    model.add_adapter("blue", lora(target_modules=["v_proj", "up_proj"]))
    model.set_adapter("blue")
    assert answered(prefixes.__class__(model, store)) == answered(prefixes) - FULL == 0
    with torch.no_grad():
        model.base_model.model.model.layers[0].self_attn.v_proj.lora_B["blue"].weight += 0.5
    assert answered(prefixes) == 0


def test_merged_ones(store: kf.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # its thread would stay
    model = with_adapters("red")
    prefixes = Prefixes(model, store)
    model.merge_adapter()
    for call in (lambda: prefixes.restore(PROMPT), lambda: Prefixes(model, store)):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.cause in {"adapter", "weights"}
    model.unmerge_adapter()
    whole = model.merge_and_unload(progressbar=False)
    assert answered(Prefixes(whole, store)) == 0
    with pytest.raises(UsageError):
        prefixes.restore(PROMPT)


@pytest.mark.parametrize("kind", ["prefix", "prompt", "ia3", "activated"])
def test_other_kinds_are_refused(kind: str, store: kf.Store) -> None:
    config = {
        "prefix": lambda: peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4),
        "prompt": lambda: peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4),
        "ia3": lambda: peft.IA3Config(task_type="CAUSAL_LM"),
        "activated": lambda: lora(alora_invocation_tokens=[7, 8]),
    }[kind]()
    model = peft.get_peft_model(tiny(), config).eval()
    with pytest.raises(UsageError) as caught:
        Prefixes(model, store)
    assert caught.value.cause == "adapter"


def test_that_transformers_put_there(store: kf.Store) -> None:
    model = tiny()
    torch.manual_seed(5)
    model.add_adapter(lora(), "red")
    model.eval()
    prefixes = Prefixes(model, store)
    assert (answered(prefixes), answered(prefixes)) == (0, FULL)
    model.disable_adapters()
    assert (answered(prefixes), answered(Prefixes(tiny(), store))) == (0, FULL)

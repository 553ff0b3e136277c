"""Models that answer with KV of a store as they answer without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kvferry as kf
from kvferry.errors import ClosedError, PeerError, UsageError
from kvferry.testing import spawn
from tests.store.conftest import short_folder

from .models import BLOCK, PROMPT, node, tiny

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import DynamicCache, GenerationConfig, StaticCache  # noqa: E402

from kvferry.connectors.transformers import Prefixes  # noqa: E402

DTYPES = ["float32", "bfloat16", "float16"]
GREEDY = {"do_sample": False, "max_new_tokens": 4}


@pytest.fixture
def store() -> Iterator[kf.Store]:
    with kf.Store(size="16MiB") as made:
        yield made


def computed(model: Any, ids: list[int], cache: Any = None) -> tuple[Any, Any]:
    """Logits of what comes next, and the cache."""
    cache = DynamicCache(config=model.config) if cache is None else cache
    rest = torch.tensor([ids[cache.get_seq_length() :]])
    with torch.no_grad():
        return model(rest, past_key_values=cache).logits[0, -1].float(), cache


def plain(model: Any, ids: list[int], **arguments: Any) -> list[int]:
    mask = torch.ones((1, len(ids)), dtype=torch.int64)
    found = model.generate(torch.tensor([ids]), attention_mask=mask, **(GREEDY | arguments))
    return list(found[0].tolist())


def kv(cache: Any, tokens: int) -> list[Any]:
    return [each[:, :, :tokens] for layer in cache.layers for each in (layer.keys, layer.values)]


def cut(model: Any, cache: Any, tokens: int) -> Any:
    """A copy of its beginning, made without a store."""
    copied = DynamicCache(config=model.config)
    parts = kv(cache, tokens)
    for at in range(len(cache.layers) if tokens else 0):
        copied.update(parts[2 * at].clone(), parts[2 * at + 1].clone(), at)
    return copied


@pytest.mark.parametrize("dtype", DTYPES)
def test_at_every_length(dtype: str, store: kf.Store) -> None:
    """Bit for bit as from the same KV that was never stored; in float32 as without any, too."""
    model = tiny(dtype)
    prefixes = Prefixes(model, store, BLOCK)
    _, whole = computed(model, PROMPT[:80])
    assert prefixes.save(PROMPT[:80], whole) == 80
    for length in range(1, 72):
        ids = PROMPT[:length]
        cache, tokens = prefixes.restore(ids)
        assert tokens == cache.get_seq_length() == (length - 1) // BLOCK * BLOCK
        if tokens:
            assert all(map(torch.equal, kv(cache, tokens), kv(whole, tokens)))
        logits, _ = computed(model, ids, cache)
        assert torch.equal(logits, computed(model, ids, cut(model, whole, tokens))[0])
        kept = cut(model, whole, tokens)
        expected = plain(model, ids, past_key_values=kept)
        output, report = prefixes.generate(torch.tensor([ids]), **GREEDY)
        assert (output[0].tolist(), report.hit) == (expected, tokens)
        if dtype == "float32":
            torch.testing.assert_close(logits, computed(model, ids)[0], atol=1e-4, rtol=0)
            assert expected == plain(model, ids)


def test_only_what_is_new_is_put(store: kf.Store) -> None:
    model = tiny()
    prefixes = Prefixes(model, store, BLOCK)
    page = prefixes.record.page_bytes
    _, cache = computed(model, PROMPT[:40])
    before = [each.clone() for each in kv(cache, 40)]
    assert prefixes.save(PROMPT[:20], cache) == 16
    assert prefixes.save(PROMPT[:40], cache) == 32
    assert all(map(torch.equal, kv(cache, 40), before))
    first, report = prefixes.generate(PROMPT[:50], max_new_tokens=20, do_sample=False)
    assert (report.prompt, report.hit, report.kept) == (50, 32, 64)
    assert (report.read, report.written) == (2 * page, 2 * page)
    turn = [*first[0].tolist(), 9, 8, 7]
    second, report = prefixes.generate(turn, **GREEDY)
    assert (report.hit, report.failed) == (64, ())
    assert second[0].tolist() == plain(model, turn)
    assert min(report.restoring, report.generating, report.saving) > 0


def test_what_looks_like_padding_is_seen(store: kf.Store) -> None:
    model = tiny()
    ids = [0, 0, *PROMPT[:40]]
    prefixes = Prefixes(model, store, BLOCK)
    for hit in (0, 32):
        output, report = prefixes.generate(ids, attention_mask=[1] * 42, **GREEDY)
        assert (output[0].tolist(), report.hit) == (plain(model, ids), hit)


def test_samples_and_outputs_of_other_kinds(store: kf.Store) -> None:
    model = tiny()
    prefixes = Prefixes(model, store, BLOCK)
    config = GenerationConfig(do_sample=True, max_new_tokens=6, return_dict_in_generate=True)
    for hit in (0, 32):
        torch.manual_seed(3)
        output, report = prefixes.generate(PROMPT[:40], generation_config=config)
        torch.manual_seed(3)
        expected = plain(model, PROMPT[:40], do_sample=True, max_new_tokens=6)
        assert (output.sequences[0].tolist(), report.hit) == (expected, hit)


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "weights": ({"seed": 2}, {}),
    "dtype": ({"dtype": "bfloat16"}, {}),
    "rotation": ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, {}),
    "attention": ({"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}, {}),
    "eps": ({"rms_norm_eps": 1e-3}, {}),
    "blocks": ({}, {"block_tokens": 8}),
    "revision": ({}, {"revision": "smol@1"}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_of_others_nothing_is_found(name: str, store: kf.Store) -> None:
    model = tiny()
    Prefixes(model, store, BLOCK).save(PROMPT, computed(model, PROMPT)[1])
    changed, settings = OTHERS[name]
    other = Prefixes(tiny(**changed), store, **({"block_tokens": BLOCK} | settings))
    assert other.restore(PROMPT)[1] == 0
    output, _ = other.generate(PROMPT, **GREEDY)
    assert output[0].tolist() == plain(other.model, PROMPT)
    assert other.restore(PROMPT)[1] > 0
    assert Prefixes(tiny(), store, BLOCK).restore(PROMPT)[1] == 80


def test_one_number_of_an_embedding_is_other_weights(store: kf.Store) -> None:
    model, other = tiny(), tiny()
    with torch.no_grad():
        other.model.embed_tokens.weight[77, 5] += 1
    names = {Prefixes(each, store).record.identity for each in (model, other)}
    named = {Prefixes(each, store, revision="smol@1").record.identity for each in (model, other)}
    assert (len(names), len(named)) == (2, 1)


def test_the_way_attention_is_computed_does_not_matter(store: kf.Store) -> None:
    eager = tiny(attn_implementation="eager")
    assert eager.config._attn_implementation == "eager"
    Prefixes(eager, store, BLOCK).save(PROMPT, computed(eager, PROMPT)[1])
    assert Prefixes(tiny(), store, BLOCK).restore(PROMPT)[1] == 80


def test_weights_that_change_are_refused(store: kf.Store) -> None:
    model = tiny()
    prefixes = Prefixes(model, store)
    _, cache = computed(model, PROMPT)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 3] += 1
    for call in (
        lambda: prefixes.generate(PROMPT),
        lambda: prefixes.restore(PROMPT),
        lambda: prefixes.save(PROMPT, cache),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.cause == "weights"
    model.half()
    with pytest.raises(UsageError):
        prefixes.restore(PROMPT)


# ---- what the store does not have, or does not give ----


def keys_put(store: kf.Store, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Which keys are put from now on."""
    keys: list[bytes] = []
    put = store.put_batch

    def noting(these: Any, values: Any) -> Any:
        keys.extend(these)
        return put(these, values)

    monkeypatch.setattr(store, "put_batch", noting)
    return keys


@pytest.mark.parametrize("other", [None, b"", b"short", b"x" * 20_000])
def test_a_page_that_is_none_is_not_read(
    other: bytes | None, store: kf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, short or long."""
    model = tiny()
    prefixes = Prefixes(model, store, BLOCK)
    keys = keys_put(store, monkeypatch)
    prefixes.generate(PROMPT, **GREEDY)
    assert store.remove(keys[2])
    if other is not None:
        store.put(keys[2], other)
    hits = [32, 80] if other is None else [32, 32]
    for hit in hits:
        cache, tokens = prefixes.restore(PROMPT)
        assert tokens == cache.get_seq_length() == hit
        output, report = prefixes.generate(PROMPT, **GREEDY)
        assert (output[0].tolist(), report.hit) == (plain(model, PROMPT), hit)


@pytest.mark.parametrize("pinned", [0, 4])
def test_a_pool_that_is_small(pinned: int, caplog: pytest.LogCaptureFixture) -> None:
    """Pages leave for others of the same prompt, or there is no room for them."""
    model = tiny()
    with kf.Store(size="32KiB") as store:  # for fewer pages than a prompt has
        prefixes = Prefixes(model, store, BLOCK)
        others = [f"pinned {at}" for at in range(pinned)]
        for other in others:
            store.put(other, bytes(prefixes.record.page_bytes))
            store.pin([other])
        for seed in range(4):
            ids = [(each + seed) % 250 for each in PROMPT]
            output, report = prefixes.generate(ids, **GREEDY)
            assert output[0].tolist() == plain(model, ids)
            assert report.kept < 80
            assert prefixes.restore(ids)[1] <= report.kept  # a full pool goes on making room
    assert ("the store took" in caplog.text) == bool(pinned)


def test_a_closed_store(store: kf.Store, caplog: pytest.LogCaptureFixture) -> None:
    model = tiny()
    prefixes = Prefixes(model, store, BLOCK)
    store.close()
    with pytest.raises(ClosedError):
        prefixes.restore(PROMPT)
    output, report = prefixes.generate(PROMPT, **GREEDY)
    assert output[0].tolist() == plain(model, PROMPT)
    assert [type(each) for each in report.failed] == [ClosedError, ClosedError]
    assert "nothing is restored" in caplog.text
    assert "nothing is saved" in caplog.text


def test_a_node_that_is_killed() -> None:
    """While the model generates; and before it is asked at all."""
    model = tiny()
    with short_folder() as folder, spawn(node, f"unix://{folder}/node") as child:
        assert child.hear() == "ready"
        with kf.Store(f"unix://{folder}/node") as store:
            prefixes = Prefixes(model, store, BLOCK)
            prefixes.generate(PROMPT[:40], **GREEDY)

            def kill(_: Any, scores: Any) -> Any:
                child.kill()
                return scores

            output, report = prefixes.generate(PROMPT, logits_processor=[kill], **GREEDY)
            assert output[0].tolist() == plain(model, PROMPT)
            assert (report.hit, report.kept) == (32, 0)
            assert [type(each) for each in report.failed] == [PeerError]
            output, report = prefixes.generate(PROMPT, **GREEDY)
            assert output[0].tolist() == plain(model, PROMPT)
            assert (report.hit, len(report.failed)) == (0, 2)


# ---- what is refused ----

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "dynamic": ("rope", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}),
    "longrope": (
        "rope",
        {
            "rope_parameters": {
                "rope_type": "longrope",
                "factor": 2.0,
                "short_factor": [1.0] * 8,
                "long_factor": [2.0] * 8,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "float64": ("layout", {"dtype": "float64"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_that_are_refused(name: str, store: kf.Store) -> None:
    cause, changed = MODELS[name]
    rope = {"rope_theta": 1e4} | changed.get("rope_parameters", {})
    changed = changed | ({"rope_parameters": rope} if "rope_parameters" in changed else {})
    with pytest.raises(UsageError) as caught:
        Prefixes(tiny(**changed), store)
    assert caught.value.cause == cause


def test_models_of_other_kinds(store: kf.Store) -> None:
    from transformers import (
        LlamaModel,
        MambaConfig,
        MambaForCausalLM,
        MistralConfig,
        MistralForCausalLM,
        T5Config,
        T5ForConditionalGeneration,
    )

    few = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32}
    t5 = {"vocab_size": 99, "d_model": 32, "num_layers": 1, "num_heads": 2, "d_kv": 16, "d_ff": 32}
    mistral = MistralConfig(**few, **heads, sliding_window=8)
    for cause, model in {
        "model": T5ForConditionalGeneration(T5Config(**t5)),
        "cache": MistralForCausalLM(mistral),
        "training": tiny().train(),
        "device": tiny().to("meta"),
    }.items():
        if cause != "training":
            model.eval()
        with pytest.raises(UsageError) as caught:
            Prefixes(model, store)
        assert caught.value.cause == cause
    for model in (LlamaModel(tiny().config).eval(), MambaForCausalLM(MambaConfig(**few)).eval()):
        with pytest.raises(UsageError):
            Prefixes(model, store)


ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "beams": ("argument", {"num_beams": 2}),
    "beams in a config": ("argument", {"generation_config": GenerationConfig(num_beams=2)}),
    "sequences": ("argument", {"num_return_sequences": 2, "do_sample": True}),
    "static": ("argument", {"cache_implementation": "static"}),
    "no cache": ("argument", {"use_cache": False}),
    "lookup": ("argument", {"prompt_lookup_num_tokens": 3}),
    "embeddings": ("argument", {"inputs_embeds": torch.zeros(1, 3, 64)}),
    "positions": ("argument", {"position_ids": torch.zeros(1, 3)}),
    "another cache": ("argument", {"past_key_values": None}),
    "padding": ("attention_mask", {"attention_mask": torch.tensor([[0] + [1] * 89])}),
    "short mask": ("attention_mask", {"attention_mask": [1, 1]}),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_are_refused(name: str, store: kf.Store) -> None:
    cause, arguments = ARGUMENTS[name]
    with pytest.raises(UsageError) as caught:
        Prefixes(tiny(), store).generate(PROMPT, **arguments)
    assert caught.value.cause == cause


@pytest.mark.parametrize(
    ("ids", "cause"),
    [
        ([], "tokens"),
        ([[1, 2], [3, 4]], "batch"),
        (torch.ones((2, 3), dtype=torch.int64), "batch"),
        ([1.5, 2.5], "tokens"),
        ([1, -2], "tokens"),
    ],
)
def test_prompts_that_are_refused(ids: Any, cause: str, store: kf.Store) -> None:
    prefixes = Prefixes(tiny(), store)
    for call in (prefixes.generate, prefixes.restore):
        with pytest.raises(UsageError) as caught:
            call(ids)
        assert caught.value.cause == cause


def test_caches_that_are_refused(store: kf.Store) -> None:
    model = tiny()
    prefixes = Prefixes(model, store)
    static = StaticCache(config=model.config, max_cache_len=100)
    two = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.tensor([PROMPT, PROMPT]), past_key_values=two)
    _, other = computed(tiny(num_hidden_layers=1), PROMPT)
    _, halves = computed(tiny("bfloat16"), PROMPT)
    for cache in (static, two, other, halves, DynamicCache(config=model.config)):
        with pytest.raises(UsageError) as caught:
            prefixes.save(PROMPT, cache)
        assert caught.value.cause == "cache"
    assert prefixes.restore(PROMPT)[1] == 0

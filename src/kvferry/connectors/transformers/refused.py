"""What KV cannot be kept of: refused by name, before anything is computed."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ...errors import UsageError
from ...paged.hashing.tokens import Tokens, tokens_of
from .adapters import unwrapped

__all__ = ["check_arguments", "check_mode", "check_model", "row_of"]

# Rotations that depend on where a token is, and on nothing that comes later.
ROTATIONS = {"default", "linear", "llama3", "proportional", "yarn"}
# Arguments that choose tokens, and leave their KV alone; beside those of a GenerationConfig.
CHOOSE = {
    "attention_mask",
    "generation_config",
    "logits_processor",
    "prefix_allowed_tokens_fn",
    "stopping_criteria",
    "streamer",
    "tokenizer",
}
MODES = {"greedy_search", "sample"}
# In a GenerationConfig: what these may be, beside None.
ONLY: dict[str, tuple[Any, ...]] = {
    "cache_implementation": ("dynamic",),
    "num_return_sequences": (1,),
    "prefill_chunk_size": (),
    "token_healing": (False,),
    "use_cache": (True,),
}


def check_model(model: Any) -> None:
    """Raises UsageError (model, device, rope)."""
    inner = unwrapped(model)
    config = inner.config
    for wrong, said in (
        (config.is_encoder_decoder, "it has an encoder"),
        (not inner.can_generate(), "it does not generate"),
        (config.get_text_config(decoder=True) is not config, "it is of more than text"),
        (getattr(config, "use_bidirectional_attention", None), "tokens see later ones"),
        (getattr(config, "is_causal", True) is False, "tokens see later ones"),
    ):
        if wrong:
            raise _mistake("model", f"{type(inner).__name__}: {said}")
    for name, tensor in [*inner.named_parameters(), *inner.named_buffers()]:
        if tensor.device.type != "cpu":
            raise _mistake("device", f"{name} is on {tensor.device}, not on cpu")
    _check_rotations(inner)


def check_mode(model: Any) -> None:
    """Raises UsageError (training) where KV may have dropout in it."""
    if model.training:
        raise _mistake("training", "the model is in training: model.eval() first")


def row_of(ids: Any) -> Tokens:
    """The tokens of one prompt: a list, or a tensor or array of one row. Raises UsageError (batch,
    tokens)."""
    raw = ids.tolist() if hasattr(ids, "tolist") else ids
    if isinstance(raw, list) and raw and isinstance(raw[0], list):
        if len(raw) != 1:
            raise _mistake("batch", f"{len(raw)} prompts at once")
        raw = raw[0]
    row = tokens_of(raw)
    if not len(row):
        raise _mistake("tokens", "a prompt without tokens")
    return row


def check_arguments(model: Any, tokens: int, arguments: dict[str, Any]) -> None:
    """Of generate, for a prompt of so many tokens. Raises UsageError (argument, attention_mask), or
    what transformers raises for them."""
    own = unwrapped(model).generation_config
    config = copy.deepcopy(arguments.get("generation_config") or own)
    others = config.update(**arguments)
    config.update(**own.to_dict(), defaults_only=True)
    for name in sorted(others.keys() - CHOOSE):
        raise _mistake("argument", f"{name} may change what KV is")
    mode = str(getattr(config.get_generation_mode(), "value", ""))
    if mode not in MODES:
        raise _mistake("argument", f"{mode}, not {' or '.join(sorted(MODES))}")
    for name, allowed in ONLY.items():
        given = getattr(config, name, None)
        if given is not None and given not in allowed:
            raise _mistake("argument", f"{name} is {given!r}")
    _check_mask(arguments.get("attention_mask"), tokens)


def _check_mask(mask: Any, tokens: int) -> None:
    if mask is None:
        return
    shown = np.asarray(mask.tolist() if hasattr(mask, "tolist") else mask)
    if shown.shape not in {(tokens,), (1, tokens)} or not (shown == 1).all():
        raise _mistake("attention_mask", "the mask hides tokens, or is of another prompt")


def _check_rotations(inner: Any) -> None:
    for name, module in inner.named_modules():
        found = getattr(module, "rope_type", "default")
        for kind in found.values() if isinstance(found, dict) else (found,):
            if kind not in ROTATIONS:
                raise _mistake("rope", f"{name} is {kind!r}: keys depend on the length of the text")


def _mistake(cause: str, said: str) -> UsageError:
    return UsageError(f"transformers: {said}", cause=cause)

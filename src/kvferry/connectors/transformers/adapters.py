"""LoRA adapters, as PEFT puts them into a model.

A layer that has adapters keeps the layer of the model below a name of its own:

    q_proj.base_layer.weight          of the model
    q_proj.lora_A.NAME.weight         of an adapter

Which are active is asked of these layers, whoever switched them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import torch
import xxhash

from ...errors import UsageError
from ...paged import Adapter

__all__ = ["Named", "active", "digest_of", "split", "unwrapped"]

Named: TypeAlias = list[tuple[str, Any]]  # tensors, in the order of their names

ORIGINAL = {"base_layer", "original_module"}


def unwrapped(model: Any) -> Any:
    """The model that was given adapters; one that has none, as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def split(model: Any) -> tuple[Named, Named]:
    """Its weights and buffers, named as if it had no adapters; and those of adapters."""
    inner = unwrapped(model)
    tuned = {name for name, _ in _tuned(inner)}
    own: Named = []
    added: Named = []
    for name, tensor in sorted([*inner.named_parameters(), *inner.named_buffers()], key=_name):
        parts = name.split(".")
        if any(".".join(parts[:at]) in tuned and parts[at] not in ORIGINAL for at in _at(parts)):
            added.append((name, tensor))
        else:
            own.append((".".join(part for part in parts if part not in ORIGINAL), tensor))
    return own, added


def active(model: Any) -> Adapter | None:
    """Those that work now, with a digest of their weights in place of where they came from. None:
    there are none, or they are disabled. Raises UsageError (adapter) for merged ones, and for what
    is no LoRA or depends on later tokens."""
    _check(model)
    layers = _tuned(unwrapped(model))
    if any(getattr(layer, "merged", False) for _, layer in layers):
        raise _mistake("it is merged and can be unmerged: merge_and_unload() first")
    working = [
        (name, layer, () if layer.disable_adapters else tuple(layer.active_adapters))
        for name, layer in layers
    ]
    names = {name for _, _, these in working for name in these}
    if not names:
        return None
    weights = [each for each in split(model)[1] if names & set(each[0].split("."))]
    how = [
        (name, type(layer).__name__, these, _scaling(layer, these))
        for name, layer, these in working
    ]
    return Adapter("+".join(sorted(names)), digest_of(weights, repr(how)))


def digest_of(tensors: Iterable[tuple[str, Any]], also: str = "") -> str:
    """Of all their bytes, at some gigabytes a second."""
    digest = xxhash.xxh3_128(also.encode())
    for name, tensor in tensors:
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        if tensor.numel():
            flat = tensor.detach().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()


def _tuned(inner: Any) -> list[tuple[str, Any]]:
    return [each for each in inner.named_modules() if hasattr(each[1], "adapter_layer_names")]


def _scaling(layer: Any, names: Iterable[str]) -> list[Any]:
    scaling = getattr(layer, "scaling", {})
    return [scaling.get(name) for name in names]


def _check(model: Any) -> None:
    for name, config in (getattr(model, "peft_config", None) or {}).items():
        kind = getattr(config.peft_type, "value", config.peft_type)
        if kind != "LORA":
            raise _mistake(f"{name} is of {kind}, not LORA")
        if getattr(config, "alora_invocation_tokens", None):
            raise _mistake(f"{name} works behind tokens that may be yet to come")


def _at(parts: list[str]) -> range:
    return range(1, len(parts))


def _name(each: tuple[str, Any]) -> str:
    return each[0]


def _mistake(said: str) -> UsageError:
    return UsageError(f"adapter: {said}", cause="adapter")

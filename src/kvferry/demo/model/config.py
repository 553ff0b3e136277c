"""The sizes of a llama, out of the fields of its file; what the runner cannot do is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .header import Value
from .refusal import refused

__all__ = ["Config", "config_of"]

ARCHITECTURE = "llama"
MAX_SIZE = 1 << 24
MAX_LAYERS = 1 << 10

# Fields of the architecture that may be there when they change nothing.
NEUTRAL: dict[str, tuple[Value, ...]] = {
    "attention.causal": (True,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (1.0,),
    "rope.scale_linear": (1.0,),
    "attention.sliding_window": (0,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "use_parallel_residual": (False,),
    "logit_scale": (1.0,),
}


@dataclass(frozen=True)
class Config:
    """hidden        width of a row between layers
    feed_forward  width inside the second half of a layer
    vocabulary    how many tokens there are
    context       how many positions it was trained for
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    context: int
    rope_theta: float
    rms_eps: float


def config_of(fields: Mapping[str, Value]) -> Config:
    """Raises UsageError (model_file) that names the field, what it is and what it has to be."""
    architecture = fields.get("general.architecture")
    if architecture != ARCHITECTURE:
        raise refused(f"general.architecture is {architecture!r}, not {ARCHITECTURE!r}")
    own = _Fields(fields)
    hidden, heads = own.size("embedding_length"), own.size("attention.head_count")
    kv_heads = own.size("attention.head_count_kv", heads)
    head_dim = own.size("attention.key_length", max(1, hidden // heads))
    own.must_be("attention.value_length", head_dim)
    own.must_be("rope.dimension_count", head_dim)
    tokens = fields.get("tokenizer.ggml.tokens")
    config = Config(
        name=str(fields.get("general.name", ARCHITECTURE)),
        layers=own.size("block_count", most=MAX_LAYERS),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward=own.size("feed_forward_length"),
        vocabulary=own.size("vocab_size", len(tokens) if isinstance(tokens, list) else None),
        context=own.size("context_length"),
        rope_theta=own.real("rope.freq_base", 10000.0),
        rms_eps=own.real("attention.layer_norm_rms_epsilon"),
    )
    own.check_rest()
    _check_heads(config)
    return config


def _check_heads(config: Config) -> None:
    if config.heads % config.kv_heads:
        raise refused(f"{config.heads} heads share {config.kv_heads} heads of keys")
    if config.head_dim % 2:
        raise refused(f"a head has {config.head_dim} dimensions, an odd number")


class _Fields:
    """Those of the architecture, by the rest of their names; knows which were asked for."""

    def __init__(self, fields: Mapping[str, Value]) -> None:
        prefix = f"{ARCHITECTURE}."
        self._fields = {
            name.removeprefix(prefix): value
            for name, value in fields.items()
            if name.startswith(prefix)
        }
        self._asked: set[str] = set()

    def _get(self, name: str, default: Value | None) -> Value:
        self._asked.add(name)
        value = self._fields.get(name, default)
        if value is None:
            raise refused(f"{ARCHITECTURE}.{name} is missing")
        return value

    def size(self, name: str, default: int | None = None, most: int = MAX_SIZE) -> int:
        value = self._get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
            raise refused(f"{ARCHITECTURE}.{name} is {_short(value)}, not from 1 to {most}")
        return value

    def real(self, name: str, default: float | None = None) -> float:
        value = self._get(name, default)
        if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
            raise refused(f"{ARCHITECTURE}.{name} is {_short(value)}, not a number above 0")
        return value

    def must_be(self, name: str, wanted: int) -> None:
        if (value := self._get(name, wanted)) != wanted:
            raise refused(f"{ARCHITECTURE}.{name} is {_short(value)}, not {wanted}")

    def check_rest(self) -> None:
        for name, value in self._fields.items():
            if name not in self._asked and value not in NEUTRAL.get(name, ()):
                raise refused(f"{ARCHITECTURE}.{name} is {_short(value)}, which is not implemented")


def _short(value: Value) -> str:
    text = repr(value[:4] if isinstance(value, list) else value)
    return text if len(text) < 80 else f"{text[:77]}..."

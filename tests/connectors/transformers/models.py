"""Models of two layers, of random weights, and a node for their KV in a process of its own."""

from __future__ import annotations

from typing import Any

import kvferry as kf
from kvferry.testing import Parent

PROMPT = [(7 * at * at + 3 * at) % 211 + 5 for at in range(90)]
BLOCK = 16


def tiny(dtype: str = "float32", seed: int = 1, **changed: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        **{
            "vocab_size": 256,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
            "initializer_range": 0.2,
            "bos_token_id": 1,
            "eos_token_id": None,
            "pad_token_id": 0,
            **changed,
        }
    )
    return LlamaForCausalLM(config).to(getattr(torch, dtype)).eval()


def node(parent: Parent, address: str) -> None:
    """Until the parent says something."""
    with kf.Store(size="64MiB", listen=[address]):
        parent.tell("ready")
        parent.hear(timeout=None)

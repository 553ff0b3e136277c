"""A llama of two layers with random weights, and byte pairs for a tokenizer, as a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray
from tokenizers.pre_tokenizers import ByteLevel

from kvferry.demo.model.header import Value

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FEED_FORWARD = 2, 64, 4, 2, 16, 96
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = """t h|th e|i n|a n|e r|r e|o n|Ġ t|Ġ a|Ġ s|Ġ w|o r|e n|i t|o u|Ġ the|e s|Ġ b|e d|in g|a t
a r|Ġ c|Ġ p|Ġ f|i s|Ġ in|Ġ o|Ġ m|a l|Ġ h|Ġ d|an d|l l|i c|Ġ l|Ġ re|Ċ Ċ|Ġ Ġ|ĠĠ ĠĠ|f er""".replace(
    "\n", "|"
)
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

Tensors = dict[str, NDArray[np.float32]]


def write_tiny(path: Path, seed: int = 0) -> Path:
    """A model of 300 tokens and a context of 2048, about 700 KB."""
    return write(path, tiny_fields(), tiny_tensors(seed))


def tiny_fields() -> dict[str, Value]:
    merges = MERGES.split("|")
    tokens = [*CONTROL, *sorted(ByteLevel.alphabet()), *(m.replace(" ", "") for m in merges)]
    return {
        "general.name": "tiny",
        "llama.block_count": LAYERS,
        "llama.context_length": 2048,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": HEAD_DIM,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": [*tokens],
        "tokenizer.ggml.token_type": [3 if token in CONTROL else 1 for token in tokens],
        "tokenizer.ggml.merges": [*merges],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def tiny_tensors(seed: int) -> Tensors:
    """As a file has them: embeddings tied, rows of queries and keys for RoPE of adjacent ones."""
    random = np.random.default_rng(seed)

    def made(*shape: int) -> NDArray[np.float32]:
        return np.float32(1 / np.sqrt(shape[-1])) * random.standard_normal(shape, np.float32)

    def norm() -> NDArray[np.float32]:
        return (1 + random.standard_normal(HIDDEN) / 10).astype(np.float32)

    vocabulary = len(CONTROL) + 256 + len(MERGES.split("|"))
    tensors = {"token_embd.weight": made(vocabulary, HIDDEN), "output_norm.weight": norm()}
    for layer in range(LAYERS):
        own = {
            "attn_norm": norm(),
            "attn_q": made(HEADS * HEAD_DIM, HIDDEN),
            "attn_k": made(KV_HEADS * HEAD_DIM, HIDDEN),
            "attn_v": made(KV_HEADS * HEAD_DIM, HIDDEN),
            "attn_output": made(HIDDEN, HEADS * HEAD_DIM),
            "ffn_norm": norm(),
            "ffn_gate": made(FEED_FORWARD, HIDDEN),
            "ffn_up": made(FEED_FORWARD, HIDDEN),
            "ffn_down": made(HIDDEN, FEED_FORWARD),
        }
        tensors |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in own.items()}
    return tensors


def write(
    path: Path,
    fields: Mapping[str, Value],
    tensors: Mapping[str, NDArray[np.float32]],
    kind: Kind = Kind.F32,
    architecture: str = "llama",
) -> Path:
    """`kind` of what is a matrix."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in fields.items():
        _add(writer, name, value)
    for name, tensor in tensors.items():
        of = kind if tensor.ndim == 2 else Kind.F32
        writer.add_tensor(name, gguf.quants.quantize(tensor, of), raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: Any, name: str, value: Value) -> None:
    add = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    add[type(value)](name, value)

"""Files of models: what is read out of them, and what is refused."""

from __future__ import annotations

import contextlib
import hashlib
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from kvferry.demo.model import load, load_model, load_tokenizer
from kvferry.demo.model.header import Value, read_header
from kvferry.errors import UsageError
from tests.demo.tiny import Tensors, tiny_fields, tiny_tensors, write, write_tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def test_the_header_is_what_the_library_reads(tiny: Path) -> None:
    with open(tiny, "rb") as file:
        header = read_header(file)
    reader = gguf.GGUFReader(tiny)
    own = {name: field.contents() for name, field in reader.fields.items() if "GGUF." not in name}
    assert header.fields == own
    for tensor in reader.tensors:
        read = header.tensors[tensor.name]
        shape = tuple(reversed(tensor.shape.tolist()))
        assert (read.shape, read.kind, read.start) == (shape, 0, tensor.data_offset)
    del reader, tensor


def test_the_revision_is_the_checksum(tiny: Path) -> None:
    model, tokenizer = load(tiny)
    assert model.revision == hashlib.sha256(tiny.read_bytes()).hexdigest()
    assert model.config.vocabulary == 300
    assert tokenizer.stops == {0, 2}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("llama.block_count", None, "llama.block_count is missing"),
        ("llama.block_count", 3, "the tensor blk.2.attn_norm.weight is missing"),
        ("llama.block_count", 0, "llama.block_count is 0, not from 1 to"),
        ("llama.block_count", True, "llama.block_count is True, not from 1 to"),
        ("llama.block_count", 1 << 31, "llama.block_count is 2147483648, not from 1 to"),
        ("llama.attention.head_count", [4, 4], r"head_count is \[4, 4\], not from 1"),
        ("llama.attention.head_count_kv", 3, "4 heads share 3 heads of keys"),
        ("llama.attention.head_count_kv", 1, r"attn_k.weight is \(32, 64\), not \(16, 64\)"),
        ("llama.attention.value_length", 32, "value_length is 32, not 16"),
        ("llama.rope.dimension_count", 8, "rope.dimension_count is 8, not 16"),
        ("llama.rope.freq_base", -1.0, "rope.freq_base is -1.0, not a number above 0"),
        ("llama.attention.layer_norm_rms_epsilon", float("nan"), "rms_epsilon is nan, not a num"),
        ("llama.rope.scaling.type", "yarn", "rope.scaling.type is 'yarn', which is not implem"),
        ("llama.expert_count", 8, "llama.expert_count is 8, which is not implemented"),
        ("llama.anything_new", 8, "llama.anything_new is 8, which is not implemented"),
        ("llama.vocab_size", 301, r"token_embd.weight is \(300, 64\), not \(301, 64\)"),
    ],
)
def test_other_sizes_are_refused(tmp_path: Path, name: str, value: Value | None, said: str) -> None:
    _refused(_with(tmp_path, {name: value}), said, load_model)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tokenizer.ggml.model", "llama", "tokenizer.ggml.model is 'llama', not 'gpt2'"),
        ("tokenizer.ggml.pre", "llama-bpe", "tokenizer.ggml.pre is 'llama-bpe', not one of smol"),
        ("tokenizer.ggml.add_bos_token", True, "add_bos_token is True, not False"),
        ("tokenizer.ggml.tokens", ["a", "a"], "token_type is no list of 2 numbers"),
        ("tokenizer.ggml.tokens", [1, 2], "tokens is no list of texts"),
        ("tokenizer.ggml.tokens", None, "tokens is missing"),
        ("tokenizer.ggml.merges", ["a b c"], "merges has 'a b c', which is no pair"),
        ("tokenizer.ggml.merges", ["Ġ zzz"], "tokenizer.ggml.merges: "),
        ("tokenizer.ggml.eos_token_id", 300, "eos_token_id is 300, not a token from 0 to 299"),
        ("tokenizer.chat_template", "{% for %}", "tokenizer.chat_template: "),
        ("tokenizer.chat_template", 3, "tokenizer.chat_template is no text"),
    ],
)
def test_other_tokenizers_are_refused(
    tmp_path: Path, name: str, value: Value | None, said: str
) -> None:
    _refused(_with(tmp_path, {name: value}), said, load_tokenizer)


def test_a_field_that_changes_nothing_is_read_over(tmp_path: Path) -> None:
    load(_with(tmp_path, {"llama.expert_count": 0, "llama.rope.scaling.type": "none"}))


def _without(tensors: Tensors) -> None:
    del tensors["blk.1.ffn_up.weight"]


def _with_bias(tensors: Tensors) -> None:
    tensors["blk.0.attn_q.bias"] = np.ones(64, np.float32)


def _transposed(tensors: Tensors) -> None:
    tensors["blk.0.ffn_up.weight"] = tensors["blk.0.ffn_up.weight"].T.copy()


def _infinite(tensors: Tensors) -> None:
    tensors["blk.1.attn_k.weight"][3, 3] = np.inf


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without, "the tensor blk.1.ffn_up.weight is missing"),
        (_with_bias, "the tensor 'blk.0.attn_q.bias' is not implemented"),
        (_transposed, r"blk.0.ffn_up.weight is \(64, 96\), not \(96, 64\)"),
        (_infinite, "blk.1.attn_k.weight holds what is no number"),
    ],
)
def test_other_tensors_are_refused(
    tmp_path: Path, change: Callable[[Tensors], None], said: str
) -> None:
    tensors = tiny_tensors(0)
    change(tensors)
    _refused(write(tmp_path / "a.gguf", tiny_fields(), tensors), said, load_model)


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", tiny_fields(), tiny_tensors(0), architecture="gemma3")
    _refused(path, "general.architecture is 'gemma3', not 'llama'", load_model)


HEAD = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not begin as a GGUF file"),
        (b"PK\3\4 and so on", "does not begin as a GGUF file"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(16), "version 50331648 of GGUF"),
        (HEAD + struct.pack("<QQ", 1 << 60, 0), "1152921504606846976 tensors, more than"),
        (HEAD + struct.pack("<QQ", 0, 1 << 60), "1152921504606846976 fields, more than"),
        (HEAD + struct.pack("<QQQ", 0, 1, 1 << 62), "it is cut off"),
        (HEAD + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"a", 9, 0, 1 << 50), "entries of an array"),
        (HEAD + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"a", 9, 9, 1), "a field of kind 9"),
        (HEAD + struct.pack("<QQQ1sI", 0, 1, 1, b"\xff", 4), "is no UTF-8"),
        (HEAD + struct.pack("<QQQ1sI", 1, 0, 1, b"a", 1 << 31), "dimensions of a tensor"),
        (HEAD + struct.pack("<QQ", 0, 2) + 2 * struct.pack("<Q1sII", 1, b"a", 4, 1), "is there tw"),
    ],
)
def test_no_header(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(content)
    _refused(path, said, load)


def test_no_file(tmp_path: Path) -> None:
    _refused(tmp_path / "none", "No such file", load)
    _refused(tmp_path, "Is a directory", load)


def test_cut_off_or_changed_files_are_refused_or_read(tmp_path: Path) -> None:
    """Nothing but UsageError, whatever byte is another one; bytes of weights may be any."""
    whole = write(tmp_path / "a.gguf", tiny_fields(), tiny_tensors(0), Kind.Q4_1).read_bytes()
    chance, path = random.Random(9), tmp_path / "b.gguf"
    weights = len(whole) // 4  # what is before them, and some of them
    for number in range(120):
        changed = bytearray(whole)
        if number % 3 == 0:
            del changed[chance.randrange(len(whole)) :]
        else:
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(weights)] = chance.randrange(256)
        path.write_bytes(changed)
        refused = contextlib.suppress(UsageError) if number % 3 else pytest.raises(UsageError)
        with refused:
            load(path)


@pytest.mark.parametrize("package", ["gguf", "tokenizers", "jinja2"])
def test_a_missing_package(tiny: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in {package, *(name for name in sys.modules if name.startswith(f"{package}."))}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"{package}: pip install gguf") as caught:
        load(tiny)
    assert caught.value.cause == "demo_extra"


def _with(folder: Path, changes: dict[str, Value | None]) -> Path:
    """None: without the field."""
    fields = {**tiny_fields(), **changes}
    kept = {name: value for name, value in fields.items() if value is not None}
    return write(folder / "a.gguf", kept, tiny_tensors(0))


def _refused(path: Path, said: str, load: Callable[[Path], Any]) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        load(path)
    assert caught.value.cause == "model_file"

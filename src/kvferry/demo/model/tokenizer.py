"""Text to tokens and back, by byte pairs.

Control tokens, such as the one that ends a turn, are found in text that is encoded, but never in
the messages of a chat: see chat_template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .chat_template import ChatTemplate
from .header import Value
from .refusal import missing, refused

__all__ = ["Tokenizer"]

MODEL = "gpt2"  # byte pairs

# How text is cut before bytes are paired, by the names that llama.cpp has for it; True: all digits
# alone, too.
CUTS = {
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), True),
    **dict.fromkeys(("gpt-2", "mpt", "olmo", "jais"), False),
}
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens
ENDS = ("<|im_end|>", "<|endoftext|>")


class Tokenizer:
    """stops  tokens that end an answer

    Made of the fields of a model's file; raises UsageError: model_file, demo_extra. Thread-safe.
    """

    def __init__(self, fields: Mapping[str, Value]) -> None:
        _check(fields)
        tokens = _texts(fields, "tokenizer.ggml.tokens")
        kinds = _kinds(fields, len(tokens))
        self._pairs = _byte_pairs(tokens, fields)
        self._control = {tokens[id]: id for id, kind in enumerate(kinds) if kind == CONTROL}
        self._whole = self._control | {
            tokens[id]: id for id, kind in enumerate(kinds) if kind == USER_DEFINED
        }
        self._hidden = frozenset(self._control.values())
        self._split = any_of(self._whole)
        ends = {self._whole[end] for end in ENDS if end in self._whole}
        eos = _id(fields, "tokenizer.ggml.eos_token_id", len(tokens))
        self.stops = frozenset(ends if eos is None else ends | {eos})
        names = {
            name: tokens[id]
            for name in ("bos", "eos")
            if (id := _id(fields, f"tokenizer.ggml.{name}_token_id", len(tokens))) is not None
        }
        self._template = ChatTemplate(fields, names, any_of(self._control))

    def encode(self, text: str) -> list[int]:
        """Tokens of a text; control tokens are found in it."""
        return self._tokens(self._split.split(text))

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of tokens, without control tokens; bytes that are no UTF-8 become U+FFFD."""
        kept = [int(token) for token in tokens if token not in self._hidden]
        return str(self._pairs.decode(kept, skip_special_tokens=False))

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Tokens of a conversation, each message with its role and content, and of what an answer
        begins with. Raises UsageError (chat) where the file has no template, or that fails."""
        text, mark = self._template.render(messages)
        return self._tokens(piece.replace(mark, "") for piece in self._split.split(text))

    def _tokens(self, pieces: Iterable[str]) -> list[int]:
        """Of text and tokens in turn."""
        found: list[int] = []
        for number, piece in enumerate(pieces):
            if number % 2:
                found.append(self._whole[piece])
            else:
                found += self._pairs.encode(piece, add_special_tokens=False).ids
        return found


def any_of(tokens: Iterable[str]) -> re.Pattern[str]:
    """The longest that begins at a place, in a group of its own; never matches if there are
    none."""
    longest_first = sorted(filter(None, tokens), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")


def _check(fields: Mapping[str, Value]) -> None:
    if (model := fields.get("tokenizer.ggml.model")) != MODEL:
        raise refused(f"tokenizer.ggml.model is {model!r}, not {MODEL!r}")
    for name in ("tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"):
        if fields.get(name, False) is not False:
            raise refused(f"{name} is {fields[name]!r}, not False")


def _cut(fields: Mapping[str, Value]) -> bool:
    cut = fields.get("tokenizer.ggml.pre")
    if not isinstance(cut, str) or cut not in CUTS:
        raise refused(f"tokenizer.ggml.pre is {cut!r}, not one of {', '.join(CUTS)}")
    return CUTS[cut]


def _byte_pairs(tokens: list[str], fields: Mapping[str, Value]) -> Any:
    try:
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers
    except ImportError:
        raise missing("tokenizers") from None
    digits_alone = _cut(fields)
    merges = [_pair(merge) for merge in _texts(fields, "tokenizer.ggml.merges")]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise refused("tokenizer.ggml.tokens has a token twice")
    try:
        made = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    except Exception as error:  # the library has no other type
        raise refused(f"tokenizer.ggml.merges: {error}") from None
    by_byte = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if digits_alone else []
    made.pre_tokenizer = pre_tokenizers.Sequence([*digits, by_byte])
    made.decoder = decoders.ByteLevel()
    return made


def _pair(merge: str) -> tuple[str, str]:
    first, _, second = merge.partition(" ")
    if not first or not second or " " in second:
        raise refused(f"tokenizer.ggml.merges has {merge[:80]!r}, which is no pair")
    return first, second


def _texts(fields: Mapping[str, Value], name: str) -> list[str]:
    found = fields.get(name)
    if not isinstance(found, list):
        raise refused(f"{name} is missing, or no list")
    texts = [each for each in found if isinstance(each, str)]
    if len(texts) != len(found):
        raise refused(f"{name} is no list of texts")
    return texts


def _kinds(fields: Mapping[str, Value], count: int) -> list[Value]:
    kinds = fields.get("tokenizer.ggml.token_type")
    if not isinstance(kinds, list) or len(kinds) != count:
        raise refused(f"tokenizer.ggml.token_type is no list of {count} numbers")
    return [*kinds]


def _id(fields: Mapping[str, Value], name: str, count: int) -> int | None:
    id = fields.get(name)
    if id is None:
        return None
    if not isinstance(id, int) or not 0 <= id < count:
        raise refused(f"{name} is {id!r}, not a token from 0 to {count - 1}")
    return id

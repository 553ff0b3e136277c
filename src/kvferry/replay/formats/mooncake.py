"""Mooncake: `{"timestamp", "input_length", "output_length", "hash_ids"}`, a request a line.

Milliseconds; an id for each 512 tokens of the prompt, the last block maybe of fewer. Source:
kvcache-ai/Mooncake, FAST25-release/traces.
"""

from __future__ import annotations

import msgspec

from ..trace import Call
from .form import Format, Identity, Moment, Read, Tokens, checked, decoded

__all__ = ["MOONCAKE"]

MILLISECONDS = 1000


class Line(msgspec.Struct, frozen=True):
    timestamp: Moment
    input_length: Tokens
    output_length: Tokens
    hash_ids: list[Identity]


DECODER = msgspec.json.Decoder(Line)


def read(line: bytes, number: int, block_tokens: int) -> Read:
    one = decoded(DECODER, line)
    ids = checked(one.hash_ids, one.input_length, block_tokens)
    at = one.timestamp / MILLISECONDS
    call = Call(at, one.input_length, one.output_length, ids)
    return Read([call], block_tokens)


def fits(line: bytes) -> bool:
    return b'"hash_ids"' in line and b'"chat_id"' not in line


MOONCAKE = Format("mooncake", 512, fits, read)

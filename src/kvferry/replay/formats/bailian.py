"""Bailian: `{"chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "type",
"turn", "hash_ids"}`, a request a line.

Seconds; an id for each 16 tokens of the prompt, the last block maybe of fewer; parent_chat_id is -1
where a chat begins. Source: Alibaba, qwen-bailian-usagetraces-anon.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..trace import Call
from .form import Format, Identity, Moment, Read, Tokens, checked, decoded

__all__ = ["BAILIAN"]


class Line(msgspec.Struct, frozen=True):
    chat_id: int
    parent_chat_id: Annotated[int, msgspec.Meta(ge=-1)]
    timestamp: Moment
    input_length: Tokens
    output_length: Tokens
    hash_ids: list[Identity]
    type: str = ""
    turn: int = 1


DECODER = msgspec.json.Decoder(Line)


def read(line: bytes, number: int, block_tokens: int) -> Read:
    one = decoded(DECODER, line)
    ids = checked(one.hash_ids, one.input_length, block_tokens)
    call = Call(one.timestamp, one.input_length, one.output_length, ids)
    return Read([call], block_tokens)


def fits(line: bytes) -> bool:
    return b'"hash_ids"' in line and b'"chat_id"' in line


BAILIAN = Format("bailian", 16, fits, read)

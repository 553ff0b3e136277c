"""Azure: `TIMESTAMP,ContextTokens,GeneratedTokens`, a request a line; it names no blocks.

Moments of the clock on the wall, with seven digits of a second. Source: Azure/AzurePublicDataset,
AzureLLMInferenceTrace of 2023.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from ..lines import BadLine
from ..trace import Call
from .form import MOST_TOKENS, Format, Read

__all__ = ["AZURE"]

HEADER = b"TIMESTAMP,ContextTokens,GeneratedTokens"
ROW = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{1,9})?(?:\+00:00)?,(\d{1,10}),(\d{1,10})")


def read(line: bytes, number: int, block_tokens: int) -> Read:
    found = ROW.fullmatch(line.strip())
    if found is None:
        raise BadLine(f"not a moment and two numbers of tokens: {line[:60]!r}")
    try:
        moment = datetime.strptime(found[1].decode(), "%Y-%m-%d %H:%M:%S")
    except ValueError as error:
        raise BadLine(str(error)) from None
    inputs, outputs = int(found[3]), int(found[4])
    if max(inputs, outputs) > MOST_TOKENS:
        raise BadLine(f"more than {MOST_TOKENS} tokens")
    at = moment.replace(tzinfo=timezone.utc).timestamp() + float(found[2] or 0)
    return Read([Call(at, inputs, outputs)], 0)


def header(line: bytes) -> bool:
    return line.strip().removeprefix(b"\xef\xbb\xbf") == HEADER


AZURE = Format("azure", 0, header, read, header)

"""Is vLLM to be measured too, and which Python has it? Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import UsageError

__all__ = ["Vllm", "parse_peer"]


class Vllm(NamedTuple):
    """The Python that has it."""

    python: str

    @property
    def name(self) -> str:
        return "vllm"

    @property
    def install(self) -> str:
        return "vllm"


def parse_peer(words: Sequence[str]) -> Vllm | None:
    """``vllm`` or ``vllm=/path/of/python``, once. Raises UsageError for anything else."""
    if not words:
        return None
    name, _, python = words[0].partition("=")
    if name != "vllm" or len(words) > 1:
        raise UsageError(
            f"beside paged KV there is vllm alone, not {', '.join(words)}", cause="peer"
        )
    return Vllm(python or sys.executable)

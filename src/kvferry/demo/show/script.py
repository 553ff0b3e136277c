"""Who is asked what, and what that takes: decided before anything starts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import UsageError
from ...paged.ids import blocks_for
from ..model import Config, Tokenizer
from ..serving import Ask
from .document import SYSTEM

__all__ = ["BLOCK_TOKENS", "Script", "write_script"]

BLOCK_TOKENS = 16
FEWEST_BLOCKS = 256
FLOAT = 4  # bytes
LEAST_STORE = 256 << 20


@dataclass(frozen=True)
class Script:
    """asks         the first conversation, the second one, and those that follow together
    questions    of each
    token_bytes  of KV of one token, in all layers
    blocks       of KV memory that a worker needs
    """

    asks: tuple[Ask, ...]
    questions: tuple[str, ...]
    token_bytes: int
    blocks: int

    @property
    def by_name(self) -> dict[str, str]:
        """The question of each ask."""
        return {ask.name: each for ask, each in zip(self.asks, self.questions, strict=True)}

    @property
    def store_bytes(self) -> int:
        """Room for all of it, were nothing shared."""
        tokens = sum(len(ask.tokens) + ask.most for ask in self.asks)
        return max(LEAST_STORE, 2 * tokens * self.token_bytes)


def write_script(
    document: str, questions: Sequence[str], most: int, tokenizer: Tokenizer, config: Config
) -> Script:
    """Conversations about a document, of at most so many tokens an answer: two or more.

    Raises UsageError (document, tokens) when one is longer than the model's context.
    """
    if not document.strip():
        raise UsageError("the document is empty", cause="document")
    asks = tuple(
        Ask(f"question {number}", _prompt(document, question, tokenizer), most, tokenizer.stops)
        for number, question in enumerate(questions, 1)
    )
    longest = max(len(ask.tokens) for ask in asks)
    if longest + most > config.context:
        raise UsageError(
            f"the document makes {longest} tokens of a prompt, and {most} may follow: more than "
            f"{config.context}, the context of {config.name}",
            cause="document",
        )
    token_bytes = config.layers * 2 * config.kv_heads * config.head_dim * FLOAT
    # two that follow may be at work beside each other before either is found
    blocks = max(FEWEST_BLOCKS, 2 * blocks_for(longest + most, BLOCK_TOKENS) + 1)
    return Script(asks, tuple(questions), token_bytes, blocks)


def _prompt(document: str, question: str, tokenizer: Tokenizer) -> list[int]:
    user = f"{document}\n{question}"
    return tokenizer.chat(
        [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]
    )

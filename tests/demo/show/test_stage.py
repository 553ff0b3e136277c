"""What is told while it happens; and who is asked what."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from kvferry.demo.model import Config, Tokenizer
from kvferry.demo.serving import Account, Ask, Turn
from kvferry.demo.show import Stage, write_script
from kvferry.demo.show.script import BLOCK_TOKENS
from kvferry.demo.show.speech import Speech, readable
from kvferry.errors import UsageError
from tests.demo.tiny import tiny_fields

CONFIG = Config("tiny", 2, 64, 4, 2, 16, 96, 300, 2048, 1e4, 1e-5)


def from_bytes(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode(errors="replace")


def test_a_character_of_several_tokens_is_told_when_it_is_whole() -> None:
    spoken, given = Speech(from_bytes), list("Fähre".encode())
    told = [spoken.more(given[: count + 1]) for count in range(len(given))]
    assert told == ["F", "", "ä", "h", "r", "e"]
    assert spoken.end([*given, 0xC3]) == "�"


def test_nothing_that_a_terminal_obeys() -> None:
    assert readable("a\x1b[2Jb\nc\x9bd") == "a�[2Jb c�d"


def test_the_first_that_speaks_is_heard_and_others_are_told_when_done() -> None:
    out = io.StringIO()
    stage = Stage(Console(file=out, width=80), from_bytes, {"a": "What [b]?", "b": "Who?"})
    one, other = Turn(Ask("a", [1] * 9, 4), 0.0), Turn(Ask("b", [1] * 9, 4), 0.0)
    stage.waiting("nothing that is drawn here")
    for turn, token in ((one, b"x"), (other, b"u"), (one, b"["), (other, b"v"), (one, b"]")):
        turn.given += token
        turn.times.append(1.5)
        stage.token(turn)
    one.account = Account(loaded=8, computed=1)
    other.account, other.prefilled = Account(loaded=4), Account(loaded=4, computed=5)
    for turn in (one, other, Turn(Ask("plain a", [], 1), 0.0)):
        stage.served(turn)
    assert out.getvalue().splitlines() == [
        "   Q  What [b]?",
        "   A  x[]",
        "   first token after 1.50 s; tokens of the prompt: 8 from the store, 1 computed here",
        "   Q  Who?",
        "   A  uv",
        "   first token after 1.50 s; tokens of the prompt: 4 from the store, 5 handed over",
    ]


def test_a_script() -> None:
    tokenizer = Tokenizer(tiny_fields())
    script = write_script("A ferry sails.", ["When?", "Who?", "Why?"], 5, tokenizer, CONFIG)
    assert [ask.most for ask in script.asks] == [5, 5, 5]
    assert list(script.by_name.values()) == ["When?", "Who?", "Why?"]
    for ask, question in zip(script.asks, script.questions, strict=True):
        assert f"A ferry sails.\n{question}" in tokenizer.decode(ask.tokens)
    assert script.token_bytes == CONFIG.layers * 2 * CONFIG.kv_heads * CONFIG.head_dim * 4
    longest = max(len(ask.tokens) for ask in script.asks) + 5
    assert script.blocks * BLOCK_TOKENS >= 2 * longest


@pytest.mark.parametrize(("document", "why"), [("s" * 3000, "2048, the context"), (" \n", "empty")])
def test_documents_that_cannot_be_asked_about(document: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        write_script(document, ["When?", "Who?"], 5, Tokenizer(tiny_fields()), CONFIG)

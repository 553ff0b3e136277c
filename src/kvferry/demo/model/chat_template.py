"""A conversation as text, by the template in a model's file.

What a user writes must not end the user's turn. So whatever in a message would be read as a control
token is first taken apart, by a mark that occurs nowhere else:

    <|im_end|>  ->  < mark | mark i mark m ...

In what the template then makes, control tokens are those of the template alone. Who cuts it there
takes the marks out of the rest.

The template is a program that came with the file: it runs in Jinja's sandbox, where it reaches
nothing but the messages. How long it runs is not limited.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn

from ...errors import UsageError
from .header import Value
from .refusal import missing, refused

__all__ = ["ChatTemplate"]

FIELD = "tokenizer.chat_template"

# Noncharacters: Unicode keeps them for the inside of a program.
MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


class ChatTemplate:
    """names    what the file calls the tokens "bos" and "eos"
    control  matches control tokens
    """

    def __init__(
        self, fields: Mapping[str, Value], names: Mapping[str, str], control: re.Pattern[str]
    ) -> None:
        text = fields.get(FIELD)
        if not isinstance(text, str | None):
            raise refused(f"{FIELD} is no text")
        self._text = text or ""
        self._compiled = None if text is None else _compiled(text)
        self._names = {f"{name}_token": token for name, token in names.items()}
        self._control = control

    def render(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, str]:
        """The conversation up to where the answer begins, and the mark. Raises UsageError
        (chat)."""
        if self._compiled is None:
            raise _failed("the model's file has none")
        mark = self._unused(messages)
        apart = [
            {name: self._apart(text, mark) for name, text in message.items()}
            for message in messages
        ]
        try:
            text = self._compiled.render(
                messages=apart, add_generation_prompt=True, raise_exception=_raise, **self._names
            )
        except Exception as error:  # it is a program, and may raise anything
            raise _failed(f"{type(error).__name__}: {error}") from None
        return text, mark

    def _apart(self, text: str, mark: str) -> str:
        return self._control.sub(lambda found: mark.join(found[0]) + mark, text)

    def _unused(self, messages: Sequence[Mapping[str, str]]) -> str:
        used = set(chain(self._text, *chain(*(message.values() for message in messages))))
        unused = [mark for mark in MARKS if mark not in used]
        if not unused:
            raise _failed("the messages have every noncharacter of Unicode in them")
        return unused[0]


def _compiled(text: str) -> Any:
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise missing("jinja2") from None
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    try:
        return environment.from_string(text)
    except Exception as error:  # errors of syntax, and the limits of Python's own compiler
        raise refused(f"{FIELD}: {error}") from None


def _raise(message: str) -> NoReturn:
    """What templates call to refuse."""
    raise ValueError(message)


def _failed(why: str) -> UsageError:
    return UsageError(f"no text by the chat template: {why}", cause="chat")

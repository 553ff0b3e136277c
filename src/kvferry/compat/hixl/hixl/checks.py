"""What a configured value may be. Each check takes what was given and returns what it means, or
raises Refused with the key and its range. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from .codes import PARAM_INVALID
from .failures import Refused

__all__ = ["Check", "flag", "fraction", "number", "objects_of", "one_of", "path", "truth", "wrong"]

Check = Callable[[str, object], Any]

_DIGITS = re.compile("[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]*\.?[0-9]+")


def wrong(key: str, value: object, range: str) -> Refused:
    return Refused(PARAM_INVALID, f"{key} is {value!r}, not {range}")


def number(low: int, high: int, multiple_of: int = 1) -> Check:
    """An integer, or its digits as text."""
    range = f"an integer from {low} to {high}"
    if multiple_of > 1:
        range += f", a multiple of {multiple_of}"

    def check(key: str, value: object) -> int:
        found = _integer(value)
        if found is None or not low <= found <= high or found % multiple_of:
            raise wrong(key, value, range)
        return found

    return check


def _integer(value: object) -> int | None:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def fraction(key: str, value: object) -> float:
    """A decimal between 0 and 1, or that as text."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = float(value)
    if not isinstance(value, float) or not 0 < value < 1:
        raise wrong(key, value, "a decimal above 0 and below 1")
    return value


def flag(key: str, value: object) -> bool:
    """The text "0" or "1"."""
    if value not in ("0", "1"):
        raise wrong(key, value, '"0" or "1"')
    return value == "1"


def truth(key: str, value: object) -> bool:
    """A JSON boolean."""
    if not isinstance(value, bool):
        raise wrong(key, value, "true or false")
    return value


def one_of(known: Collection[str]) -> Check:
    """One of these words, or a list of them."""

    def check(key: str, value: object) -> tuple[str, ...]:
        words = value if isinstance(value, list) else [value]
        if not words or any(not isinstance(word, str) or word not in known for word in words):
            raise wrong(key, value, f"one or several of {', '.join(sorted(known))}")
        return tuple(words)

    return check


def path(key: str, value: object) -> str:
    """Some text; what lies there is looked at by whoever opens it."""
    if not isinstance(value, str) or not value:
        raise wrong(key, value, "the path of a file")
    return value


def objects_of(key: str, value: object) -> dict[str, object]:
    """A JSON object, as text."""
    assert isinstance(value, str), "options are texts"
    try:
        found = json.loads(value, object_pairs_hook=_unambiguous)
    except (ValueError, RecursionError) as error:
        raise wrong(key, value, f"JSON ({error})") from None
    if not isinstance(found, dict):
        raise wrong(key, value, "a JSON object")
    return found


def _unambiguous(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found

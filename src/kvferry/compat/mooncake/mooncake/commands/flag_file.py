"""Flags out of a file: JSON, or YAML as far as it is `name: value`, a line each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from .flags import BadFlag, Flag, Value, unknown, value_of

__all__ = ["flags_in"]

YAML = (".yaml", ".yml")


def flags_in(name: str, text: str, known: Iterable[Flag]) -> dict[str, Value]:
    """What the file of this name, with this text, says. Raises BadFlag for what is no such file,
    and for names and values that are none."""
    table = {each.name: each for each in known}
    pairs = dict(_lines(name, text)) if name.endswith(YAML) else _json(name, text)
    return {key: _value(name, key, found, table) for key, found in pairs.items()}


def _value(name: str, key: str, found: str, table: Mapping[str, Flag]) -> Value:
    try:
        if key not in table:
            raise unknown(key, table)
        return value_of(table[key], found)
    except BadFlag as bad:
        raise BadFlag(f"{name}: {bad}") from None


def _json(name: str, text: str) -> dict[str, str]:
    try:
        pairs = msgspec.json.decode(text, type=dict[str, bool | int | float | str])
    except msgspec.DecodeError as error:
        raise BadFlag(f"{name}: {error}") from None
    return {key: str(value) for key, value in pairs.items()}


def _lines(name: str, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition(" #")[0].rstrip()
        if not bare or bare.startswith(("#", "---")):
            continue
        key, colon, value = bare.partition(":")
        plain = _unquoted(value.strip())
        if not colon or key != key.strip() or plain is None:
            raise BadFlag(f"{name}:{number}: not a line 'name: value'")
        yield key, plain


def _unquoted(value: str) -> str | None:
    """None: it is a value of several parts."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return None if value.startswith(("[", "{", "|", ">", "&", "*", "- ")) else value

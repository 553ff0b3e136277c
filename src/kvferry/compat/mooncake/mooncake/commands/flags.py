"""Flags of a command line as gflags reads them. Pure.

    --name=value   -name=value   --name value   -name value
    --name   --noname            of a switch, which takes no word after it
    --       what follows is no flag
    --flagfile=FILE              more of them, one a line
    --undefok=NAME,NAME          flags that need not be known, given as --name=value

The last one of a name counts. Words that belong to no flag mean nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

__all__ = ["BadFlag", "Flag", "Flags", "Value", "help_of", "read", "value_of"]

Value: TypeAlias = bool | int | float | str

TRUE = {"true", "t", "yes", "y", "1"}
FALSE = {"false", "f", "no", "n", "0"}

# From, to.
RANGES = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint32": (0, (1 << 32) - 1),
    "uint64": (0, (1 << 64) - 1),
}
FILES_DEEP = 8
NEAR = 0.6  # how like another name a name must be to be taken for a slip of it


class BadFlag(Exception):
    """A command line that is refused, in one line."""


class Flag(NamedTuple):
    """kind    bool, int32, int64, uint32, uint64, double or string
    idle    why it changes nothing here; "": it does
    """

    name: str
    kind: str
    default: Value
    meaning: str = ""
    idle: str = ""


@dataclass(frozen=True)
class Flags:
    """values  of every flag, its default where it was not given
    given   those that were
    help    somebody asks what there is
    strays  words that belong to no flag
    """

    values: Mapping[str, Value]
    given: frozenset[str] = frozenset()
    help: bool = False
    strays: tuple[str, ...] = ()

    def switch(self, name: str) -> bool:
        return bool(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    def ratio(self, name: str) -> float:
        return float(self.values[name])

    def text(self, name: str) -> str:
        return str(self.values[name])


def read(known: Iterable[Flag], words: Sequence[str], files: Mapping[str, Value]) -> Flags:
    """What a command line says, over what a file of flags said. Raises BadFlag."""
    table = {each.name: each for each in known}
    line = _Line(table)
    line.read(words, 0)
    over = {**files, **line.found}
    values = {name: over.get(name, flag.default) for name, flag in table.items()}
    return Flags(values, frozenset(over), line.help, tuple(line.strays))


def value_of(flag: Flag, text: str) -> Value:
    """Raises BadFlag for a text that is no value of this kind."""
    try:
        if flag.kind == "string":
            return text
        if flag.kind == "bool":
            return _truth(text)
        if flag.kind == "double":
            return float(text)
        number, (least, most) = int(text, 0), RANGES[flag.kind]
    except ValueError:
        raise _illegal(flag, text) from None
    if not least <= number <= most:
        raise _illegal(flag, text)
    return number


def unknown(name: str, known: Iterable[str]) -> BadFlag:
    near = difflib.get_close_matches(name, list(known), 1, NEAR)
    hint = f"; is {near[0]!r} meant?" if near else ""
    return BadFlag(f"unknown command line flag {name!r}{hint}")


def help_of(known: Iterable[Flag]) -> str:
    """A flag a line: what it is, and whether it acts."""
    rows = (f"--{each.name} ({each.kind}) default: {each.default}{_about(each)}" for each in known)
    return "\n".join(rows)


@dataclass
class _Line:
    """Reads word by word."""

    table: Mapping[str, Flag]
    found: dict[str, Value] = field(default_factory=dict)
    help: bool = False
    strays: list[str] = field(default_factory=list)
    lenient: set[str] = field(default_factory=set)

    def read(self, words: Sequence[str], depth: int) -> None:
        self.lenient |= set(_lenient(words))
        rest = iter(words)
        for word in rest:
            if word == "--":
                self.strays += rest
            elif word.startswith("-") and word != "-":
                self._flag(word.removeprefix("-").removeprefix("-"), rest, depth)
            else:
                self.strays.append(word)

    def _flag(self, word: str, rest: Iterator[str], depth: int) -> None:
        name, equals, text = word.partition("=")
        if name in ("help", "helpfull", "helpshort"):
            self.help = True
        elif name == "undefok" or name == "flagfile":
            named = text if equals else next(rest, "")
            if name == "flagfile":
                self._file(named, depth)
        elif name in self.table:
            flag = self.table[name]
            self.found[name] = value_of(flag, text if equals else _argument(flag, rest))
        elif not equals and self._is_switch(name.removeprefix("no")) and name.startswith("no"):
            self.found[name.removeprefix("no")] = False
        elif name not in self.lenient:
            raise unknown(name, self.table)

    def _is_switch(self, name: str) -> bool:
        return name in self.table and self.table[name].kind == "bool"

    def _file(self, path: str, depth: int) -> None:
        if depth >= FILES_DEEP:
            raise BadFlag(f"{path}: files of flags name each other too deep")
        try:
            lines = [line.strip() for line in Path(path).read_text("utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise BadFlag(f"{path}: {error}") from None
        self.read([line for line in lines if line.startswith("-")], depth + 1)


def _lenient(words: Sequence[str]) -> Iterator[str]:
    for word, after in zip(words, [*words[1:], ""], strict=False):
        name, equals, text = word.lstrip("-").partition("=")
        if name == "undefok" and word.startswith("-"):
            yield from (text if equals else after).split(",")


def _argument(flag: Flag, rest: Iterator[str]) -> str:
    if flag.kind == "bool":
        return "true"
    text = next(rest, None)
    if text is None:
        raise BadFlag(f"flag '--{flag.name}' is missing its argument ({flag.kind})")
    return text


def _truth(text: str) -> bool:
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise ValueError(text)


def _illegal(flag: Flag, text: str) -> BadFlag:
    return BadFlag(f"illegal value {text!r} specified for {flag.kind} flag '{flag.name}'")


def _about(flag: Flag) -> str:
    return f"\n    no effect: {flag.idle}" if flag.idle else f"\n    {flag.meaning}"

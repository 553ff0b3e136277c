"""Reads a compiler's assembly text: which functions store past the cache, and leave unfenced.

The text becomes one list of instructions with labels into it. From the start of a function every
path is followed, carrying one bit: was there a non-temporal store with no fence since? Leaving the
function (a return, a jump to another function) with the bit set is what must not happen, because
the caller would then announce bytes that other processors cannot see yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Program", "parse"]

STORE = re.compile(r"v?movnt(dq|i|q|ps|pd)[lqb]?|stnp")
FENCE = re.compile(r"sfence|mfence|dmb\s+(ish|ishst|sy|st)|dsb\s+\w+")
RETURN = re.compile(r"ret[qw]?")
JUMP = re.compile(r"jmpq?|b|br")
BRANCH = re.compile(r"j[a-z]+|b\.?(eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)|cbn?z|tbn?z")
# On arm64 a number sign also begins an immediate operand, as in #16 and #:lo12:name.
COMMENT = re.compile(r"//.*|(^|\s)#(\s|[A-Za-z]).*")
PREFIXES = {"rep", "bnd", "notrack", "lock"}


@dataclass
class Program:
    """Instructions in the order of the text, and where each label points."""

    instructions: list[str] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def storing(self) -> set[str]:
        """Functions with a non-temporal store on some path of theirs."""
        return {
            name
            for name in self.functions
            if any(STORE.fullmatch(_operation(self.instructions[at])) for at, _ in self._walk(name))
        }

    def unfenced(self, function: str) -> list[str]:
        """The instructions by which `function` is left with a store that no fence followed."""
        return [
            self.instructions[at]
            for at, dirty in self._walk(function)
            if dirty and self._leaves(self.instructions[at])
        ]

    def _walk(self, function: str) -> Iterator[tuple[int, bool]]:
        """Every (instruction, bit on arrival) that can be reached, once each."""
        seen: set[tuple[int, bool]] = set()
        todo = [(self.labels[function], False)]
        while todo:
            at, dirty = todo.pop()
            if at >= len(self.instructions) or (at, dirty) in seen:
                continue
            seen.add((at, dirty))
            yield at, dirty
            text = self.instructions[at]
            if STORE.fullmatch(_operation(text)):
                dirty = True
            elif FENCE.fullmatch(text):
                dirty = False
            todo += [(next_at, dirty) for next_at in self._next(at)]

    def _next(self, at: int) -> list[int]:
        text = self.instructions[at]
        if self._leaves(text):
            return []
        operation = _operation(text)
        if JUMP.fullmatch(operation):
            return [self.labels[_target(text)]]
        if BRANCH.fullmatch(operation):
            return [self.labels[_target(text)], at + 1]
        return [at + 1]

    def _leaves(self, text: str) -> bool:
        operation = _operation(text)
        if RETURN.fullmatch(operation):
            return True
        # A jump through a register or to another function is a call in tail position.
        return bool(JUMP.fullmatch(operation)) and not self._is_local(_target(text))

    def _is_local(self, target: str) -> bool:
        return target in self.labels and (target not in self.functions or target.endswith(".cold"))


def parse(text: str) -> Program:
    """The program in assembly `text`, as GCC and Clang write it for ELF."""
    program = Program()
    for line in text.splitlines():
        for part in COMMENT.sub("", line).split(";"):
            _take(program, part.strip())
    return program


def _take(program: Program, part: str) -> None:
    if declared := re.match(r"\.type\s+([\w.$]+),\s*[@%]function", part):
        program.functions.append(declared[1])
    elif label := re.match(r"([\w.$]+):(.*)", part):
        program.labels[label[1]] = len(program.instructions)
        _take(program, label[2].strip())
    elif part and not part.startswith("."):
        words = part.split()
        while len(words) > 1 and words[0] in PREFIXES:
            words.pop(0)
        program.instructions.append(" ".join(words))


def _operation(text: str) -> str:
    return text.split()[0]


def _target(text: str) -> str:
    """The label a jump names: its last operand (arm64 puts registers before it)."""
    return text.split()[-1]

#!/usr/bin/env python3
"""Compares the ACL tables of kvferry.runtime.cann with the vendor's headers.

    tools/check_acl.py HEADERS        HEADERS is the folder that contains acl/acl_rt.h

A generated C program asks the compiler (CC, default cc) about every prototype, argument type,
record, field, enumeration value and code of the tables. Exit status 0: all the same; 1: what
differs, a line each; 2: it could not be found out. The header of the software NPU, where there is
one, is asked the same; it may leave out what it does not need.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvferry.runtime.cann.codes import PREFIX, Code
from kvferry.runtime.cann.enums import PREFIXES
from kvferry.runtime.cann.functions import FUNCTIONS, TYPES, Function
from kvferry.runtime.cann.structs import STRUCTS

ROOT = Path(__file__).parents[1]
SOFTWARE = ROOT / "src" / "kvferry" / "npu"
THEIR_HEADER, SOFTWARE_HEADER = "acl/acl_rt.h", "acl/acl.h"
DIFFERS, UNKNOWN = 1, 2
FIRST_LINE = 3

# gnu2x: there aclFinalize() is a prototype that takes nothing, where the compiler knows that yet.
FLAGS = ["-std=gnu2x", "-w"]
ERROR = re.compile(r"^probe\.c:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)


class Probe(NamedTuple):
    """A question: what `expression` is in C, and what the tables say."""

    subject: str
    what: str
    expression: str
    expected: int


class Asked(NamedTuple):
    """What differs, and what is not declared at all: a sentence each."""

    differences: list[str]
    undeclared: list[str]


class Failed(Exception):
    """It cannot be found out."""


def probes() -> Iterator[Probe]:
    for name, type_ in TYPES.items():
        yield from _about_type(name, type_)
    for record in STRUCTS:
        yield from _about_record(f"aclrt{record.__name__}", record)
    for kind, prefix in {**PREFIXES, Code: PREFIX}.items():
        for name, member in kind.__members__.items():
            yield Probe(f"{prefix}{name}", "value", f"{prefix}{name}", int(member))
    for function in FUNCTIONS.values():
        yield from _about_function(function)


def _about_type(name: str, type_: Any) -> Iterator[Probe]:
    yield Probe(name, "size", f"sizeof({name})", ctypes.sizeof(type_))
    pointed = getattr(type_, "_type_", None)
    if isinstance(pointed, type):
        yield Probe(name, "size pointed at", f"sizeof(*({name})0)", ctypes.sizeof(pointed))
    elif name.endswith("_t") or name == "aclError":
        yield Probe(name, "signed", f"({name})-1 < 0", int(type_(-1).value < 0))


def _about_record(name: str, record: type[ctypes.Structure]) -> Iterator[Probe]:
    yield Probe(name, "size", f"sizeof({name})", ctypes.sizeof(record))
    for field in (entry[0] for entry in record._fields_):
        ours, theirs = getattr(record, field), _camel(field)
        at = f"__builtin_offsetof({name}, {theirs})"
        yield Probe(f"{name}.{theirs}", "offset", at, ours.offset)
        yield Probe(f"{name}.{theirs}", "size", f"sizeof((({name} *)0)->{theirs})", ours.size)


def _about_function(function: Function) -> Iterator[Probe]:
    def same(arguments: str) -> str:
        ours = f"{function.result} (*)({arguments})"
        return f"__builtin_types_compatible_p(__typeof__(&{function.name}), {ours})"

    arguments = ", ".join(function.arguments)
    what = f"{function.result} ({arguments or 'void'})"
    yield Probe(function.name, what, same(arguments or "void"), 1)
    if arguments:
        # A declaration without a prototype is compatible with any arguments, also with these.
        yield Probe(function.name, "takes nothing", same("struct kvf_nothing *"), 0)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def ask(header: str, folder: Path, asked: Iterable[Probe]) -> Asked:
    """What `header`, found in `folder`, answers to the probes."""
    command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, "-I", str(folder.resolve())]
    left, undeclared = list(asked), dict[str, str]()
    with tempfile.TemporaryDirectory() as scratch:
        while errors := _compile(command, _program(header, left), scratch):
            # Probes of a missing name do not compile; without them the others answer.
            wrong = {int(line) - FIRST_LINE: message for line, message in errors}
            if min(wrong) < 0:
                raise Failed(f"{header}: {wrong[min(wrong)]}")
            for at, message in wrong.items():
                undeclared.setdefault(left[at].subject, message)
            left = [probe for at, probe in enumerate(left) if at not in wrong]
        answers = subprocess.run([f"{scratch}/probe"], capture_output=True, text=True, check=True)
    pairs = zip(left, map(int, answers.stdout.split()), strict=True)
    return Asked(
        [_sentence(probe, answer) for probe, answer in pairs if answer != probe.expected],
        [f"{subject}: does not compile: {message}" for subject, message in undeclared.items()],
    )


def _sentence(probe: Probe, answer: int) -> str:
    if probe.subject in FUNCTIONS:
        return f"{probe.subject}: {'is not ' if probe.expected else ''}{probe.what}"
    return f"{probe.subject}: {probe.what} {answer}, and {probe.expected} here"


def _program(header: str, asked: Sequence[Probe]) -> str:
    """One probe a line, from FIRST_LINE on; each a function, so that every error is reported."""
    each = [
        f"static long long probe_{at}(void) {{ return (long long)({probe.expression}); }}"
        for at, probe in enumerate(asked)
    ]
    calls = [f'    printf("%lld\\n", probe_{at}());' for at in range(len(asked))]
    head = [f'#include "{header}"', "#include <stdio.h>"]
    return "\n".join([*head, *each, "int main(void) {", *calls, "}", ""])


def _compile(command: Sequence[str], program: str, folder: str) -> list[tuple[str, str]]:
    """Makes `folder`/probe; else the errors, each with its line."""
    Path(folder, "probe.c").write_text(program)
    try:
        run = subprocess.run(
            [*command, "probe.c", "-o", "probe"], cwd=folder, capture_output=True, text=True
        )
    except OSError as error:
        raise Failed(f"no C compiler: {error}") from error
    if run.returncode == 0:
        return []
    errors = ERROR.findall(run.stderr)
    if not errors:
        raise Failed(run.stderr.strip())
    return errors


def compare(headers: Path, software: Path) -> list[str]:
    """Every difference, a line each."""
    asked = list(probes())
    vendor = ask(THEIR_HEADER, headers, asked)
    lines = vendor.differences + vendor.undeclared
    if (software / SOFTWARE_HEADER).exists():
        ours = ask(SOFTWARE_HEADER, software, asked)
        lines += [f"software NPU, {line}" for line in ours.differences]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="compares the ACL tables with C headers")
    parser.add_argument("headers", type=Path, help="the folder that contains acl/acl_rt.h")
    parser.add_argument(
        "--software", type=Path, default=SOFTWARE, help="the folder of the software NPU"
    )
    options = parser.parse_args()
    try:
        lines = compare(options.headers, options.software)
    except Failed as error:
        sys.stderr.write(f"check_acl: {error}\n")
        return UNKNOWN
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.write(f"{len(lines) or 'no'} differences\n")
    return DIFFERS if lines else 0


if __name__ == "__main__":
    sys.exit(main())

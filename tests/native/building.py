"""Compiles every program of this folder in a process beside the tests: python -m, with a folder.

folder/wire-thread        a program that is done
folder/wire-thread.error  what the compiler said instead
folder/read-thread.h.gch  what most programs include of the compiler, read once
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.native.harness import HERE, SANITIZERS, CompileError, build_sanitized, why_not

PROGRAMS = sorted(HERE.glob("*.c"))

# Of one thread, in which the thread sanitizer has nothing to find.
ALONE = {
    *("descriptor", "disk", "index", "ledger", "locate"),
    *("pieces", "places", "policies", "quant", "resolve"),
}

CASES = [
    (program, sanitizer)
    for program in PROGRAMS
    for sanitizer in SANITIZERS
    if sanitizer != "thread" or program.stem not in ALONE
]

# Nothing else, so that a header of ours that forgets one of the system's is still found.
INTRINSICS = """
#ifdef __x86_64__
#include <immintrin.h>
#endif
"""


def target(folder: Path, program: Path, sanitizer: str) -> Path:
    return folder / f"{program.stem}-{sanitizer}"


def read_once(folder: Path, sanitizer: str) -> list[str]:
    """What makes a program take the processor's intrinsics, a third of its time, as read already.

    A compiler that keeps such a thing elsewhere, or finds it unfit, reads them as they are.
    """
    header = folder / f"read-{sanitizer}.h"
    header.write_text(INTRINSICS)
    build_sanitized(header, header.with_suffix(".h.gch"), sanitizer, "-x", "c-header")
    return ["-include", str(header)]


def build(folder: Path, program: Path, sanitizer: str, flags: list[str]) -> None:
    done = target(folder, program, sanitizer)
    unfinished = done.with_suffix(".unfinished")
    try:
        build_sanitized(program, unfinished, sanitizer, *flags)
        os.replace(unfinished, done)
    except CompileError as error:
        unfinished.write_text(str(error))
        os.replace(unfinished, done.with_suffix(".error"))


def main(folder: Path) -> None:
    flags = {name: read_once(folder, name) for name in SANITIZERS if why_not(name) is None}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for program, sanitizer in CASES:
            if sanitizer in flags:
                pool.submit(build, folder, program, sanitizer, flags[sanitizer])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

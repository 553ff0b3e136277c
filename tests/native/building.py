"""Compiles every program of this folder in a process beside the tests: python -m, with a folder.

folder/wire-thread        a program that is done
folder/wire-thread.error  what the compiler said instead
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.native.harness import HERE, SANITIZERS, CompileError, build_sanitized, why_not

PROGRAMS = sorted(HERE.glob("*.c"))


def target(folder: Path, program: Path, sanitizer: str) -> Path:
    return folder / f"{program.stem}-{sanitizer}"


def build(folder: Path, program: Path, sanitizer: str) -> None:
    done = target(folder, program, sanitizer)
    unfinished = done.with_suffix(".unfinished")
    try:
        build_sanitized(program, unfinished, sanitizer)
        os.replace(unfinished, done)
    except CompileError as error:
        unfinished.write_text(str(error))
        os.replace(unfinished, done.with_suffix(".error"))


def main(folder: Path) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for program in PROGRAMS:
            for sanitizer in SANITIZERS:
                if why_not(sanitizer) is None:
                    pool.submit(build, folder, program, sanitizer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

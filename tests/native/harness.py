"""Compiles the headers of the native core as plain C, and runs programs under sanitizers."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
HEADERS = HERE.parents[1] / "src/kvferry/_core"

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument"]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-pthread", *WARNINGS]
INCLUDES = [f"-I{HEADERS}", f"-I{HERE}"]

# What a sanitizer is told when its program runs; every finding ends the program.
SANITIZERS = {
    "address,undefined": {
        "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    },
    "thread": {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
}

# Where a program is compiled and run in the least time: storms of threads are worth optimising.
LEVELS = {"address,undefined": "-O0", "thread": "-O1"}

# Sanitizers keep a map of the address space, which more randomness than they know of upsets.
UNRANDOMISED = ["setarch", "-R"]

# Some compilers take the switch and ignore it.
TRIVIAL = """
#ifdef __has_feature
#define HAS(x) __has_feature(x)
#else
#define HAS(x) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \\
    !HAS(address_sanitizer) && !HAS(thread_sanitizer)
#error "compiled without the sanitizer"
#endif
int main(void) { return 0; }
"""

SECONDS = 120


class CompileError(AssertionError):
    """The compiler's own words."""


def compiler() -> list[str] | None:
    """The command that compiles C here: CC, or the first of cc, gcc and clang; None without one."""
    candidates = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    for command in map(shlex.split, candidates):
        if command and shutil.which(command[0]):
            return command
    return None


def compile(source: Path, output: Path, *flags: str, command: list[str] | None = None) -> Path:
    """Compile with every warning an error; `output` is what `flags` make it. Returns it."""
    cc = command or compiler()
    assert cc is not None, "no C compiler"
    run = subprocess.run(
        [*cc, *FLAGS, *flags, *INCLUDES, str(source), "-o", str(output)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if run.returncode != 0:
        raise CompileError(run.stderr)
    return output


def build_sanitized(source: Path, output: Path, sanitizer: str, *flags: str) -> Path:
    """Lines for the reports of the sanitizer, and nothing for debuggers, which takes longer."""
    report = ["-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
    return compile(source, output, LEVELS[sanitizer], *report, f"-fsanitize={sanitizer}", *flags)


def run_sanitized(program: Path, sanitizer: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_prefix(sanitizer), str(program)],
        env={**os.environ, **SANITIZERS[sanitizer]},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def why_not(sanitizer: str) -> str | None:
    """Why no program can run under `sanitizer` on this machine, or None when one can."""
    if compiler() is None:
        return "no C compiler"
    return None if _prefix(sanitizer) is not None else f"no runtime for -fsanitize={sanitizer}"


@functools.cache
def _prefix(sanitizer: str) -> list[str] | None:
    """The command that a program under `sanitizer` needs in front of it; None: it runs nowhere."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "trivial.c")
        source.write_text(TRIVIAL)
        try:
            program = build_sanitized(source, source.with_suffix(""), sanitizer)
        except (CompileError, subprocess.TimeoutExpired):
            return None
        for prefix in ([], UNRANDOMISED):
            if prefix and not shutil.which(prefix[0]):
                continue
            run = subprocess.run([*prefix, str(program)], capture_output=True, timeout=SECONDS)
            if run.returncode == 0:
                return prefix
    return None

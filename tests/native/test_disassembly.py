"""No variant of the copy leaves a store that goes past the cache without a fence behind it."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from tests.native.assembly import parse
from tests.native.harness import HEADERS, compile, compiler

SOURCE = '#include "copy.h"\nconst kvf_variant *kvf_kept(void) { return kvf_variants; }\n'

# What streams, unfolding, staging and every link add to it: all that moves bytes.
MOVERS = """
#include "engines.h"
#include "bounce.h"
#include "process.h"
#include "reader.h"
#include "wire.h"
void *kvf_kept[] = {kvf_engine_main, kvf_help, kvf_unfold, kvf_move_in_memory,
                    kvf_bounce_run, kvf_bounce_scattered_run, kvf_move_between, kvf_wire_run,
                    kvf_read_all};
"""

# Architecture -> what must be found, and the commands that may compile for it from elsewhere.
EXPECTED = {
    "x86_64": {
        f"kvf_{verb}_nt_{width}" for verb in ("copy", "run") for width in ("sse2", "avx2", "avx512")
    },
    "aarch64": {"kvf_copy_nt_neon", "kvf_run_nt_neon"},
}


def compiler_for(architecture: str) -> list[str]:
    command = (
        compiler() if architecture == platform.machine() else [f"{architecture}-linux-gnu-gcc"]
    )
    if command is None or shutil.which(command[0]) is None:
        pytest.skip(f"no C compiler for {architecture}")
    return command


def assemble(
    architecture: str,
    level: str,
    folder: Path,
    header: str | None = None,
    text: str = SOURCE,
) -> str:
    """Assembly text of all variants; `header` stands in for copy.h."""
    command = compiler_for(architecture)
    if header is not None:
        (folder / "copy.h").write_text(header)
    source = folder / "variants.c"
    source.write_text(text)
    return compile(source, folder / "variants.s", level, "-S", command=command).read_text()


@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("architecture", EXPECTED)
def test_every_variant_is_fenced(architecture: str, level: str, tmp_path: Path) -> None:
    program = parse(assemble(architecture, level, tmp_path))
    storing = program.storing()
    assert EXPECTED[architecture] <= storing
    assert {name: program.unfenced(name) for name in storing} == {name: [] for name in storing}


@pytest.mark.parametrize("architecture", EXPECTED)
def test_no_mover_stores_past_the_cache_unfenced(architecture: str, tmp_path: Path) -> None:
    program = parse(assemble(architecture, "-O3", tmp_path, text=MOVERS))
    storing = program.storing()
    runs = {name for name in EXPECTED[architecture] if name.startswith("kvf_run")}
    assert runs <= storing
    assert {name: program.unfenced(name) for name in storing} == {name: [] for name in storing}


@pytest.mark.parametrize("architecture", EXPECTED)
def test_a_missing_fence_is_found(architecture: str, tmp_path: Path) -> None:
    broken = (HEADERS / "copy.h").read_text().replace("FENCE();", "")
    program = parse(assemble(architecture, "-O2", tmp_path, broken))
    storing = program.storing()
    assert EXPECTED[architecture] <= storing
    assert all(program.unfenced(name) for name in storing)


def function(*lines: str) -> str:
    return "\n".join([".type f, @function", "f:", *lines, ".size f, .-f"])


@pytest.mark.parametrize(
    "lines",
    [
        ("\tmovntdq %xmm0, (%rdi)", "\tsfence", "\tret"),
        ("\tvmovntdq\t%ymm0, (%rdi)\t# note", "\tsfence", "\trep ret"),
        # the return stands above the loop that jumps to it, and is reached fenced
        ("jmp .L2", ".L1:", "ret", ".L2:", "movntdq %xmm0, (%rdi)", "jne .L2", "sfence", "jmp .L1"),
        ("test %rdi, %rdi", "je .L1", "movnti %rax, (%rdi)", "sfence", ".L1: ret"),
        ("stnp q0, q1, [x0]", "cbnz x2, .L1", ".L1:", "dmb\tish", "ret"),
        ("movntdq %xmm0, (%rdi)", "sfence", "jmp memcpy@PLT"),
    ],
)
def test_fenced_on_every_path(lines: tuple[str, ...]) -> None:
    program = parse(function(*lines))
    assert program.storing() == {"f"}
    assert program.unfenced("f") == []


@pytest.mark.parametrize(
    ("lines", "left_by"),
    [
        (("movntdq %xmm0, (%rdi)", "ret"), "ret"),
        (("sfence", "movntdq %xmm0, (%rdi)", "ret"), "ret"),
        (("movntdq %xmm0, (%rdi)", "je .L1", "sfence", ".L1:", "ret"), "ret"),
        (("movntdq %xmm0, (%rdi)", "sfence", "vmovntdq %zmm0, (%rdi)", "ret"), "ret"),
        (("movntdq %xmm0, (%rdi)", "jmp memcpy@PLT"), "jmp memcpy@PLT"),
        (("movntdq %xmm0, (%rdi)", "jmp *%rax"), "jmp *%rax"),
        (("stnp q0, q1, [x0]", "tbz x2, #3, .L1", "dmb ish", ".L1:", "ret"), "ret"),
        (("movntdq %xmm0, (%rdi)", "jne f.cold", "sfence", "ret", "f.cold:", "ret"), "ret"),
    ],
)
def test_unfenced_on_some_path(lines: tuple[str, ...], left_by: str) -> None:
    assert parse(function(*lines)).unfenced("f") == [left_by]


def test_a_function_without_such_stores_needs_no_fence() -> None:
    program = parse(function("movq %rax, (%rdi)", "movntdqa (%rdi), %xmm0", "ret"))
    assert program.storing() == set()
    assert program.unfenced("f") == []

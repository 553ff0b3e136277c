"""Every C program of this folder, under the address, undefined-behaviour and thread sanitizers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native import building
from tests.native.building import ALONE, CASES
from tests.native.harness import (
    HERE,
    SANITIZERS,
    SECONDS,
    build_sanitized,
    run_sanitized,
    why_not,
)

FINDING = re.compile(r"Sanitizer|runtime error")

# One fault each, to show that a finding fails the test.
FAULTS = {
    "address,undefined": """
        #include <stdlib.h>
        static volatile size_t one_too_far = 16;
        int main(void) {
            char *p = calloc(16, 1), read = p[one_too_far];
            free(p);
            return read & 0;
        }
    """,
    "thread": """
        #include <pthread.h>
        static int shared;
        static void *add(void *unused) { return shared++, unused; }
        int main(void) {
            pthread_t other;
            pthread_create(&other, NULL, add, NULL);
            shared++;
            return pthread_join(other, NULL);
        }
    """,
}


def skip_without(sanitizer: str) -> None:
    reason = why_not(sanitizer)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where programs appear, while tests run that need others."""
    folder = tmp_path_factory.mktemp("native")
    command = [sys.executable, "-m", building.__name__, str(folder)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, cwd=HERE.parents[1], env=environment) as builder:
        yield folder
        builder.kill()


def built(folder: Path, program: Path, sanitizer: str) -> Path:
    done = building.target(folder, program, sanitizer)
    deadline = time.monotonic() + SECONDS
    while not done.exists():
        error = done.with_suffix(".error")
        assert not error.exists(), error.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return done


@pytest.mark.parametrize(
    ("program", "sanitizer"), CASES, ids=[f"{path.stem}-{name}" for path, name in CASES]
)
def test_runs_clean(program: Path, sanitizer: str, folder: Path) -> None:
    skip_without(sanitizer)
    run = run_sanitized(built(folder, program, sanitizer), sanitizer)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name", sorted(ALONE))
def test_who_is_said_to_be_alone_starts_no_thread(name: str, folder: Path) -> None:
    sanitizer = "address,undefined"
    skip_without(sanitizer)
    program = built(folder, HERE / f"{name}.c", sanitizer).read_bytes()
    if b"libasan.so" not in program:
        pytest.skip("the sanitizer's own threads are in the program")
    assert b"pthread_create" not in program


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_a_fault_is_found(sanitizer: str, tmp_path: Path) -> None:
    skip_without(sanitizer)
    source = tmp_path / "fault.c"
    source.write_text(FAULTS[sanitizer])
    run = run_sanitized(build_sanitized(source, tmp_path / "fault", sanitizer), sanitizer)
    assert run.returncode != 0
    assert FINDING.search(run.stderr)

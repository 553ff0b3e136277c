"""The library in many threads, under sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvferry.connectors.torch_npu import library_path
from tests.native.harness import SANITIZERS, compile, run_sanitized, why_not
from tests.npu.acl import LIBRARY, NPU

HERE = Path(__file__).parent
TESTS_NPU = HERE.parents[1] / "npu"


DEBUG = ["-O1", "-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", f"-I{NPU}"]


def build_npu(folder: Path, sanitizer: str) -> Path:
    first, *others = sorted(NPU.glob("*.c"))
    flags = [*DEBUG, "-shared", "-fPIC", "-fvisibility=hidden", f"-fsanitize={sanitizer}"]
    return compile(first, folder / LIBRARY.name, *flags, *map(str, others))


def build_program(folder: Path, npu: Path, sanitizer: str) -> Path:
    """threads.c with the allocator's own sources, linked with the software NPU `npu`."""
    allocator = library_path().parent
    sources = map(str, sorted(allocator.glob("*.c")))
    flags = [*DEBUG, f"-I{TESTS_NPU}", f"-I{allocator}", f"-fsanitize={sanitizer}", *sources]
    link = [str(npu), f"-Wl,-rpath,{npu.parent}", "-ldl"]
    return compile(HERE / "threads.c", folder / "threads", *flags, *link)


@pytest.mark.parametrize(
    "sanitizer",
    [pytest.param(each, marks=pytest.mark.slow if each == "thread" else ()) for each in SANITIZERS],
)
def test_threads_run_clean(sanitizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = why_not(sanitizer)
    if reason is not None:
        pytest.skip(reason)
    # Races are told from order only where both sides are watched.
    npu = build_npu(tmp_path, sanitizer) if sanitizer == "thread" else LIBRARY
    monkeypatch.setenv("KVFERRY_ACL_LIBRARY", str(npu))
    run = run_sanitized(build_program(tmp_path, npu, sanitizer), sanitizer)
    assert run.returncode == 0, run.stdout + run.stderr

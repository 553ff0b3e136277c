"""The software NPU under a sanitizer, and programs that use it."""

from __future__ import annotations

from pathlib import Path

from tests.native.harness import compile

HERE = Path(__file__).parent
NPU = HERE.parents[1] / "src/kvferry/npu"
PROGRAMS = sorted(HERE.glob("*.c"))

DEBUG = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", f"-I{NPU}"]


def build_library(folder: Path, sanitizer: str) -> Path:
    first, *others = sorted(NPU.glob("*.c"))
    flags = [
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        f"-fsanitize={sanitizer}",
        *map(str, others),
    ]
    return compile(first, folder / "libascendcl.so", *DEBUG, *flags)


def build_program(source: Path, library: Path, sanitizer: str) -> Path:
    """`source` linked with a library of the same sanitizer, beside it."""
    link = [f"-I{HERE}", f"-fsanitize={sanitizer}", str(library), f"-Wl,-rpath,{library.parent}"]
    return compile(source, library.with_name(source.stem), *DEBUG, *link)

"""The software NPU under a sanitizer, and programs that use it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from tests.native.harness import compile

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NPU = ROOT / "src/kvferry/npu"
PROGRAMS = sorted(HERE.glob("*.c"))

# Lines for the reports of a sanitizer, and nothing for debuggers, which takes a third longer. The
# programs are much code that runs once.
OBJECT = ["-c", "-fPIC", "-fvisibility=hidden", "-g1", "-fno-omit-frame-pointer", f"-I{NPU}"]
LIBRARY = [*OBJECT, "-O1"]
PROGRAM = [*OBJECT, "-O0", f"-I{HERE}"]


def build(folder: Path, sanitizer: str) -> Path:
    """Every program, in `folder` beside the library that all of them share; returns `folder`.

    Every source is compiled once, as many at a time as there are processors.
    """
    library = folder / "libascendcl.so"
    instrument = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    for sources in (NPU, HERE):
        (folder / "objects" / sources.relative_to(ROOT)).mkdir(parents=True)

    def compiled(source: Path, flags: list[str]) -> Path:
        output = folder / "objects" / source.relative_to(ROOT).with_suffix(".o")
        return compile(source, output, *flags, *instrument)

    def linked(program: Path) -> Path:
        link = [str(library), f"-Wl,-rpath,{folder}"]
        return compile(program, folder / program.stem, *instrument, *link)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        parts = pool.map(compiled, sorted(NPU.glob("*.c")), repeat(LIBRARY))
        programs = pool.map(compiled, PROGRAMS, repeat(PROGRAM))
        first, *others = parts
        compile(first, library, "-shared", *instrument, *map(str, others))
        list(pool.map(linked, programs))
    return folder

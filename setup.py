"""Builds the native core, the software NPU and torch_npu's allocator; all else is pyproject.toml's.

Developers: ``python setup.py build_ext --inplace --sanitize=address,undefined`` builds it under
sanitizers; scripts/sanitize runs the tests on such a build.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import ClassVar

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = Path("src/kvferry/_core")
NPU = Path("src/kvferry/npu")
ALLOCATOR = Path("src/kvferry/connectors/torch_npu")

CFLAGS = [
    "-std=c11",
    "-O3",
    "-Wall",
    "-Wextra",
    # Cython leaves parameters of its own unused.
    "-Wno-unused-parameter",
    "-D_GNU_SOURCE",
    "-pthread",
    "-fvisibility=hidden",
    # To describe the core to a debugger takes two thirds as long as to compile it. Builds under
    # sanitizers have it.
    "-g0",
]

NO_COMPILER = (
    "kvferry needs a C11 compiler: install gcc or clang "
    '(or: pip install ziglang, and set CC="python -I -m ziglang cc")'
)
NO_PYTHON_H = (
    "kvferry needs the headers of Python itself: install python3-dev, or python3-devel "
    "({header} is missing)"
)

PROBE = """
#include <stdatomic.h>
#include <stdint.h>
int main(void) {
    _Atomic uint64_t word = 0;
    atomic_store_explicit(&word, 1, memory_order_release);
    return 0;
}
"""


def library(name: str, folder: Path, link: str) -> Extension:
    """Not a module, but a shared library of all C in `folder`, named as programs look for it."""
    return Extension(
        name,
        sources=sorted(str(path) for path in folder.glob("*.c")),
        depends=sorted(str(path) for each in {folder, NPU / "acl"} for path in each.rglob("*.h")),
        include_dirs=[str(folder), str(NPU)],
        extra_compile_args=CFLAGS,
        extra_link_args=["-pthread", *link.split()],
    )


SOFTWARE_NPU = "kvferry.npu.libascendcl"
LOADS_SOFTWARE_NPU = "-Wl,--no-as-needed -lascendcl -Wl,-rpath,$ORIGIN"

LIBRARIES = [
    # what programs load in the place of the ACL runtime's, and under its newer names
    library(SOFTWARE_NPU, NPU, ""),
    library("kvferry.npu.libacl_rt", NPU / "names", LOADS_SOFTWARE_NPU),
    library("kvferry.npu.libacl_rt_impl", NPU / "names", LOADS_SOFTWARE_NPU),
    # what torch_npu loads
    library("kvferry.connectors.torch_npu.libkvferry_torch_npu", ALLOCATOR, "-ldl"),
]


class BuildCore(build_ext):
    """Looks for a compiler before it needs one, so that its absence is one line."""

    user_options: ClassVar = [
        *build_ext.user_options,
        ("sanitize=", None, "sanitizers to build with, as -fsanitize= names them"),
    ]

    def initialize_options(self) -> None:
        super().initialize_options()
        self.sanitize: str | None = None

    def get_ext_filename(self, fullname: str) -> str:
        # Asked with the name of the package in front, and without.
        if any(each.name.endswith(fullname) for each in LIBRARIES):
            return str(Path(*fullname.split(".")).with_suffix(".so"))
        return str(super().get_ext_filename(fullname))

    def get_libraries(self, ext: Extension) -> list[str]:
        return [] if ext in LIBRARIES else list(super().get_libraries(ext))

    def build_extensions(self) -> None:
        missing = missing_tool(self.compiler.compiler_so)
        if missing is not None:
            raise SystemExit(missing)
        if self.sanitize is not None:
            for extension in self.extensions:
                extension.extra_compile_args += [f"-fsanitize={self.sanitize}", "-g", "-O1"]
                extension.extra_link_args.append(f"-fsanitize={self.sanitize}")
        for extension in LIBRARIES:
            extension.library_dirs.append(str(Path(self.get_ext_fullpath(SOFTWARE_NPU)).parent))
        super().build_extensions()


def missing_tool(compiler: list[str]) -> str | None:
    """What this machine lacks to compile any extension at all, in one line; None: nothing.

    What passes here and fails later is an error in our code, which the compiler explains itself.
    """
    if shutil.which(compiler[0]) is None:
        return f"{NO_COMPILER}. Not found: {compiler[0]}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE)
        command = [*compiler, "-std=c11", "-c", str(source), "-o", str(source.with_suffix(".o"))]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if run.returncode != 0:
        said = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[0]
        return f"{NO_COMPILER}. {compiler[0]} says: {said}"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return None if header.exists() else NO_PYTHON_H.format(header=header)


setup(
    ext_modules=[
        Extension(
            "kvferry._core.core",
            sources=[f"{CORE}/core.pyx"],
            depends=sorted(str(path) for kind in ("*.h", "*.pxi") for path in CORE.glob(kind)),
            include_dirs=[str(CORE)],
            extra_compile_args=CFLAGS,
            extra_link_args=["-pthread"],
        ),
        *LIBRARIES,
    ],
    cmdclass={"build_ext": BuildCore},
)

"""The comparison with C headers finds what differs: here with a header made of our own tables."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvferry.runtime.cann.codes import Code
from kvferry.runtime.cann.enums import PREFIXES
from kvferry.runtime.cann.functions import FUNCTIONS, TYPES
from kvferry.runtime.cann.structs import STRUCTS

TOOL = Path(__file__).parents[3] / "tools" / "check_acl.py"
NUMBERS = {ctypes.c_int: "int", ctypes.c_uint32: "uint32_t", ctypes.c_uint64: "uint64_t"}


def header() -> str:
    return "\n".join(["#include <stdint.h>", "#include <stddef.h>", *_declarations(), ""])


def _declarations() -> Iterator[str]:
    for record in STRUCTS:
        fields = " ".join(_field(name, kind) for name, kind in record._fields_)  # type: ignore[misc]
        yield f"typedef struct {{ {fields} }} aclrt{record.__name__};"
    records = {f"aclrt{record.__name__}" for record in STRUCTS}
    for name in sorted({name.removeprefix("const ").rstrip("*") for name in TYPES} - records):
        if name.startswith("acl"):
            target = "void *" if TYPES.get(name) is ctypes.c_void_p else "int "
            yield f"typedef {target}{name};"
    for kind, prefix in {**PREFIXES, Code: "ACL_ERROR_"}.items():
        for member, value in kind.__members__.items():
            yield f"#define {prefix}{member} {int(value)}"
    for function in FUNCTIONS.values():
        yield f"{function.result} {function.name}({', '.join(function.arguments)});"


def _field(name: str, kind: Any) -> str:
    first, *rest = name.split("_")
    name = first + "".join(map(str.capitalize, rest))
    if issubclass(kind, ctypes.Array):
        item = "uint8_t" if ctypes.sizeof(kind._type_) == 1 else "uint32_t"
        return f"{item} {name}[{kind._length_}];"
    return f"{NUMBERS.get(kind, 'aclrt' + kind.__name__)} {name};"


def plant(folder: Path, text: str, name: str = "acl_rt.h") -> Path:
    (folder / "acl").mkdir(parents=True)
    (folder / "acl" / name).write_text(text)
    return folder


def check(headers: Path, software: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), str(headers), "--software", str(software or headers)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_same_is_no_difference(tmp_path: Path) -> None:
    run = check(plant(tmp_path, header()))
    assert (run.returncode, run.stdout, run.stderr) == (0, "no differences\n", "")


# What stands in the header, what instead, and how the line begins that says so. All apart.
CHANGES: list[tuple[str, str, list[str]]] = [
    (
        "aclError aclrtMallocHost(void**, size_t);",
        "aclError aclrtMallocHost(void**, uint32_t);",
        ["aclrtMallocHost: is not aclError (void**, size_t)"],
    ),
    (
        "aclError aclrtFree(void*);",
        "aclError aclrtFree(const void*);",
        ["aclrtFree: is not aclError (void*)"],
    ),
    ("aclError aclrtUnmapMem(void*);", "aclError aclrtUnmapMem();", ["aclrtUnmapMem: takes noth"]),
    (
        "const char* aclrtGetSocName();",
        "char* aclrtGetSocName();",
        ["aclrtGetSocName: is not const char* (void)"],
    ),
    ("aclError aclrtStreamStop(aclrtStream);", "", ["aclrtStreamStop: does not compile: "]),
    (
        "uint32_t id; int type;",
        "int type; uint32_t id;",
        ["aclrtMemLocation.id: offset 4, and 0 here", "aclrtMemLocation.type: offset 0, and 4"],
    ),
    (
        "uint8_t data[128];",
        "uint8_t data[136];",
        ["aclrtMemFabricHandle: size 136, and 128", "aclrtMemFabricHandle.data: size 136"],
    ),
    (
        "#define ACL_STOP_ON_FAILURE 1",
        "#define ACL_STOP_ON_FAILURE 2",
        ["ACL_STOP_ON_FAILURE: value 2, and 1 here"],
    ),
    (
        "#define ACL_ERROR_RT_LINK_ERROR 507056",
        "",
        ["ACL_ERROR_RT_LINK_ERROR: does not compile: "],
    ),
    ("typedef int aclError;", "typedef unsigned aclError;", ["aclError: signed 0, and 1 here"]),
]


def test_what_differs_is_named_and_nothing_else(tmp_path: Path) -> None:
    text = header()
    for there, instead, _ in CHANGES:
        assert text.count(there) == 1
        text = text.replace(there, instead)
    expected = [start for _, _, said in CHANGES for start in said]
    run = check(plant(tmp_path, text))
    *lines, count = run.stdout.splitlines()
    assert (run.returncode, count) == (1, f"{len(expected)} differences")
    assert [start for start in expected if not any(line.startswith(start) for line in lines)] == []


def test_the_software_npu_may_leave_out_and_not_differ(tmp_path: Path) -> None:
    theirs, text = plant(tmp_path / "theirs", header()), header()
    less = text.replace("aclError aclrtStreamStop(aclrtStream);", "")
    run = check(theirs, plant(tmp_path / "less", less, "acl.h"))
    assert (run.returncode, run.stdout) == (0, "no differences\n")
    other = text.replace("#define ACL_STREAM_PERSISTENT 4", "#define ACL_STREAM_PERSISTENT 5")
    run = check(theirs, plant(tmp_path / "other", other, "acl.h"))
    assert run.returncode == 1
    assert run.stdout.startswith("software NPU, ACL_STREAM_PERSISTENT: value 5, and 4 here\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "acl/acl_rt.h: No such file"), ("#error not for you\n", "not for you")],
)
def test_headers_that_cannot_be_compiled_are_no_answer(
    text: str | None, said: str, tmp_path: Path
) -> None:
    run = check(tmp_path if text is None else plant(tmp_path, text))
    assert (run.returncode, run.stdout) == (2, "")
    assert said in run.stderr

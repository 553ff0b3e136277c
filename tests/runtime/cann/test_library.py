"""Finding ACL, all of it or a part, and calling it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvferry.errors import ClosedError, NoMemory, Unsupported, UsageError
from kvferry.runtime.cann import Capability, Code, Library, library, open_library
from kvferry.runtime.cann.functions import FUNCTIONS, TYPES
from kvferry.runtime.cann.structs import MemLocation, PhysicalMemProp

from .stubs import build

# As the library does it: the words belong to the calling thread, and are gone once they were read.
ANSWERS = r"""
#include <stddef.h>
#include <stdint.h>
static __thread const char *said;
static int say(int code, const char *words) { said = words; return code; }
const char *aclGetRecentErrMsg(void) { const char *words = said; said = NULL; return words; }
int aclInit(const char *path) { return path ? say(100000, path) : 100002; }
int aclrtSetDevice(int32_t device) { return say(device, "EE1001: out of place\n  Solution: none"); }
"""
WORDS_OF = {"aclGetRecentErrMsg": None, "aclrtGetSocName": b"Ascend910_0000"}
RECORDS = r"""
#include <stddef.h>
#include <stdint.h>
int aclrtMallocPhysical(void **handle, size_t size, const uint32_t *prop, uint64_t flags)
{
    *handle = (void *)(size + flags + prop[2] + prop[3] + prop[4]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stubs")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Library:
    return open_library(str(build(folder / "libwhole.so")))


@pytest.fixture(scope="module")
def answering(folder: Path) -> Library:
    own = {"aclGetRecentErrMsg": ANSWERS, "aclInit": "", "aclrtSetDevice": ""}
    return open_library(str(build(folder / "libanswering.so", own)))


def test_a_whole_library_has_everything(whole: Library, folder: Path) -> None:
    assert whole.missing == {}
    assert whole.refused == {}
    assert whole.opened == (str(folder / "libwhole.so"),)
    assert all(whole.has(capability) for capability in Capability)
    assert (whole.version(), whole.soc()) == ((1, 17, 3), "Ascend910_0000")


def test_each_function_can_be_called(whole: Library) -> None:
    for name in FUNCTIONS.keys() - {"aclrtGetVersion"}:
        call, function = whole.function(name), FUNCTIONS[name]
        assert call.argtypes == [TYPES[argument] for argument in function.arguments]
        nothing = [TYPES[argument]() for argument in function.arguments]
        assert call(*nothing) == WORDS_OF.get(name, 0)


@pytest.mark.parametrize(
    ("lacking", "capability"),
    [
        ("aclrtReserveMemAddressNoUCMemory", Capability.HIGH_RESERVE),
        ("aclrtMemSetPidToShareableHandleV2", Capability.SHARING_V2),
        ("aclrtMemRetainAllocationHandle", Capability.RETAIN),
    ],
)
def test_a_missing_function_takes_its_own_capability_only(
    lacking: str, capability: Capability, tmp_path: Path
) -> None:
    stub = str(build(tmp_path / "libpart.so", leave_out=[lacking]))
    found = open_library(stub)
    assert found.missing == {capability: (lacking,)}
    assert [other for other in Capability if not found.has(other)] == [capability]
    found.require(Capability.SHARING_V1)
    others = [name for name, each in FUNCTIONS.items() if each.capability is capability]
    for name in others:
        with pytest.raises(Unsupported) as caught:
            found.call(name)
        assert caught.value.cause == "no_function"
        assert f"no {capability.value}: {stub} without {lacking}" in str(caught.value)


def test_a_library_without_the_core_is_none(tmp_path: Path) -> None:
    stub = build(tmp_path / "libpart.so", leave_out=["aclrtSetCurrentContext", "aclInit"])
    with pytest.raises(Unsupported, match="lacks aclInit, aclrtSetCurrentContext") as caught:
        open_library(str(stub))
    assert caught.value.cause == "no_library"
    assert str(stub) in str(caught.value)


def test_what_is_no_library_says_so(tmp_path: Path) -> None:
    (tmp_path / "libno.so").write_text("of another kind entirely" * 10)
    with pytest.raises(Unsupported, match="invalid ELF header") as caught:
        open_library(str(tmp_path / "libno.so"))
    assert isinstance(caught.value, NotImplementedError)
    assert "KVFERRY_ACL_LIBRARY" in str(caught.value)


def test_each_that_was_tried_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, absent = tmp_path / "libbroken.so", tmp_path / "libabsent.so"
    broken.write_text("?")
    monkeypatch.setattr(library, "NAMES", (str(broken), str(absent), "libkvferry-nonesuch.so"))
    with pytest.raises(Unsupported) as caught:
        open_library()
    said = str(caught.value)
    assert f"{broken}: file too short" in said
    assert f"{absent}: cannot open shared object file" in said
    assert "libkvferry-nonesuch.so: cannot open shared object file" in said


def test_functions_are_looked_for_in_every_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first that has it serves it; one that does not open is passed over."""
    names = list(FUNCTIONS)
    fails = {"aclrtSetDevice": "int aclrtSetDevice(int device) { return 507899; }"}
    stubs = [
        tmp_path / "libabsent.so",
        build(tmp_path / "libone.so", only=names[:20]),
        build(tmp_path / "libtwo.so", fails, only=[*names[20:-1], "aclrtSetDevice"]),
    ]
    monkeypatch.setattr(library, "NAMES", tuple(map(str, stubs)))
    found = open_library()
    assert found.opened == tuple(map(str, stubs[1:]))
    assert list(found.refused) == [str(stubs[0])]
    assert list(found.missing.values()) == [(names[-1],)]
    assert found.call("aclrtSetDevice", 3) == 0
    assert found.call("aclrtFree", None) == 0


def test_a_code_becomes_an_error_with_the_vendors_words(answering: Library) -> None:
    with pytest.raises(NoMemory) as caught:
        answering.call("aclrtSetDevice", 207001)
    error = caught.value
    assert (error.code, error.cause) == (207001, "no_memory")
    assert error.detail == "EE1001: out of place\n  Solution: none"
    assert str(error) == (
        "aclrtSetDevice returned 207001, ACL_ERROR_RT_MEMORY_ALLOCATION: "
        "EE1001: out of place [no_memory]"
    )


def test_words_that_are_no_text_do_no_harm(answering: Library) -> None:
    with pytest.raises(UsageError) as caught:
        answering.call("aclInit", b"\xff\xfe in a path")
    assert caught.value.detail == "�� in a path"


def test_silence_is_an_error_too(answering: Library) -> None:
    with pytest.raises(UsageError) as caught:
        answering.call("aclInit", None)
    assert (caught.value.cause, caught.value.detail) == ("already_initialised", None)


def test_a_code_that_was_expected_is_returned(answering: Library) -> None:
    assert answering.call("aclInit", None, allow={Code.REPEAT_INITIALIZE}) == 100002
    assert answering.call("aclrtSetDevice", 0, allow={Code.REPEAT_INITIALIZE}) == 0
    with pytest.raises(ClosedError):
        answering.call("aclrtSetDevice", 100001, allow={Code.REPEAT_INITIALIZE})


def test_words_of_another_thread_are_not_ours(answering: Library) -> None:
    theirs = threading.Thread(target=answering.function("aclrtSetDevice"), args=(1,))
    theirs.start()
    theirs.join()
    with pytest.raises(UsageError) as caught:
        answering.call("aclInit", None)
    assert caught.value.detail is None


def test_records_and_wide_numbers_arrive_whole(tmp_path: Path) -> None:
    found = open_library(str(build(tmp_path / "librecords.so", {"aclrtMallocPhysical": RECORDS})))
    handle = ctypes.c_void_p()
    prop = PhysicalMemProp(mem_attr=4, location=MemLocation(id=5, type=1))
    found.call("aclrtMallocPhysical", ctypes.byref(handle), 1 << 40, ctypes.byref(prop), 1 << 50)
    assert handle.value == (1 << 40) + (1 << 50) + 4 + 5 + 1


def test_importing_loads_nothing(tmp_path: Path) -> None:
    """Under its usual name, where the loader looks first, lies a library that ends the process."""
    trap = "__attribute__((constructor)) static void trap(void) { __builtin_trap(); }"
    build(tmp_path / "libascendcl.so", {"trap": trap})
    program = "import kvferry, kvferry.runtime.cann.library as found\n{}\nprint('alive')"
    runs = [
        subprocess.run(
            [sys.executable, "-c", program.format(last)],
            env={"LD_LIBRARY_PATH": str(tmp_path), "KVFERRY_ACL_LIBRARY": "libascendcl.so"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        for last in ("", "found.open_library()")
    ]
    assert runs[0].stdout == "alive\n"
    assert runs[1].returncode < 0

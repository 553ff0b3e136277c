"""The library of C, as torch_npu meets it, on the software NPU."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from ctypes import byref, c_void_p
from typing import Any

import pytest

from kvferry.connectors.torch_npu import library_path
from kvferry.testing import Child, Parent
from kvferry.testing import spawn as start
from tests.connectors.torch_npu import scenarios
from tests.connectors.torch_npu.allocator import NULL, Allocator
from tests.npu.acl import FABRIC, HUGE, LIST_OFF, NPU
from tests.npu.test_library import begun, ended, exchange_memory

EMPTY = [0] * 8
NOTHING_HELD = [0] * 7

Spawn = Callable[..., Child]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """Of scenarios.py, by the names of its functions."""
    with start(scenarios.run_all) as child:
        found: dict[str, Any] = child.result()
        return found


# ---- names ----


@pytest.mark.parametrize("name", ["malloc", "free", "probe"])
def test_both_names_are_one_function(name: str) -> None:
    library = ctypes.CDLL(str(library_path()))
    ours, theirs = (library[f"{prefix}{name}"] for prefix in ("kvferry_", "mc_allocator_"))
    assert ctypes.cast(ours, c_void_p).value == ctypes.cast(theirs, c_void_p).value


@pytest.mark.parametrize("name", ["kvf_say", "kvf_open", "kvf_put", "kvf_make"])
def test_nothing_else_is_exported(name: str) -> None:
    assert not hasattr(ctypes.CDLL(str(library_path())), name)


# ---- finding ACL ----


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ("/nonexistent/libascendcl.so", "no ACL library: /nonexistent/libascendcl.so: cannot open"),
        ("libc.so.6", "the ACL library lacks aclInit"),
    ],
)
def test_without_acl_there_is_no_memory(
    library: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVFERRY_ACL_LIBRARY", library)
    allocator = Allocator()
    assert allocator.malloc(1, 0, NULL) is None
    assert allocator.reason().startswith(why)
    assert allocator.probe(0) == 0


PROGRAM = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.kvferry_malloc.restype = ctypes.c_void_p
address = library.kvferry_malloc(ctypes.c_size_t(1), 0, None)
library.kvferry_free(ctypes.c_void_p(address), ctypes.c_size_t(1), 0, None)
print(bool(address), library.kvferry_probe(0))
"""


def test_it_finds_acl_by_name_initialises_it_and_prints_nothing() -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NPU_")}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(library_path())],
        env={**inherited, "LD_LIBRARY_PATH": str(NPU), "NPU_QUIET": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (run.stdout, run.stderr) == ("True 1\n", "")


def test_a_call_after_one_that_could_not_initialise_it_tries_again(
    outcomes: dict[str, Any],
) -> None:
    before, address, after, books = outcomes["first_call"]
    assert (before, address, books) == ("", None, EMPTY)
    assert after.startswith("aclInit: 507899: ")


# ---- memory ----


def test_blocks_hold_what_is_written_and_are_given_back(outcomes: dict[str, Any]) -> None:
    assert outcomes["blocks"] == [[0] * 8, [], EMPTY]


def share(parent: Parent, data: str) -> list[int]:
    """Tells a handle that was retained from the address, and frees the block before it is used."""
    acl, allocator = begun(0), Allocator()
    address = allocator.malloc(len(data), 0, NULL)
    acl.write(address, data.encode())
    handle = c_void_p()
    acl("aclrtMemRetainAllocationHandle", c_void_p(address), byref(handle))
    name = ctypes.create_string_buffer(128)
    assert handle.value is not None
    acl("aclrtMemExportToShareableHandleV2", handle.value, LIST_OFF, FABRIC, name)
    allocator.free(address, len(data), 0, NULL)
    parent.tell(name.raw.hex())
    parent.hear()
    acl("aclrtFreePhysical", handle.value)
    return ended(acl, 0)


def test_a_block_is_shared_by_its_address_and_outlives_its_free(spawn: Spawn) -> None:
    exporter = spawn(share, "from here")
    importer = spawn(exchange_memory, exporter.hear(), len("from here"), "from there")
    assert importer.result() == ["from here", EMPTY]
    exporter.tell("done")
    assert exporter.result() == EMPTY


def test_a_runtime_shares_the_block_around_an_address(outcomes: dict[str, Any]) -> None:
    size = 3 * HUGE
    assert outcomes["retain"] == [True, size, size, "vmm-fabric", 1, EMPTY]


def test_free_waits_for_the_stream(outcomes: dict[str, Any]) -> None:
    assert outcomes["free_under_way"] == [True, EMPTY]


def test_free_goes_on_when_there_is_nothing_to_wait_for(outcomes: dict[str, Any]) -> None:
    reason, held = outcomes["free_on_a_failed_stream"]
    assert reason.startswith("aclrtSynchronizeStream: ")
    assert held == NOTHING_HELD


def test_a_thread_gets_its_context_back(outcomes: dict[str, Any]) -> None:
    assert outcomes["come_back"] == [1, 0, 1, True, 1, EMPTY]


# ---- refusals ----


def test_what_cannot_be_is_null_with_a_reason(outcomes: dict[str, Any]) -> None:
    rounded, full, beyond, negative, *_ = outcomes["misuse"]
    assert rounded == [None, f"{2**64 - 1} bytes cannot be rounded to pages of {HUGE}"]
    assert full[0] is None
    assert full[1].startswith("aclrtMallocPhysical: 207001: software NPU: ")
    assert beyond[0] is None
    assert beyond[1].startswith("aclrtSetDevice: 107001: software NPU: ")
    assert negative == beyond


def test_a_free_of_what_is_not_in_use_changes_nothing(outcomes: dict[str, Any]) -> None:
    *_, beside, inside, twice, nothing, books = outcomes["misuse"]
    assert beside == inside == [[1, 1, 1], "free of it, which is not in use"]
    assert twice == [[0, 0, 0], "free of it, which is not in use"]
    assert nothing == [None, True]
    assert books == EMPTY


def test_probe_tells_of_devices_and_of_drivers_that_retain_nothing(
    outcomes: dict[str, Any],
) -> None:
    able, reason, books = outcomes["probes"]
    assert (able, books) == ([1, 1, 0, 0], EMPTY)
    assert reason.startswith("aclrtMemRetainAllocationHandle: 207000: ")


# ---- failures of ACL ----


@pytest.mark.parametrize("call", scenarios.TO_ALLOCATE)
def test_a_failed_allocation_leaves_nothing(call: str, outcomes: dict[str, Any]) -> None:
    found = outcomes["fail_to_allocate"][scenarios.TO_ALLOCATE.index(call)]
    stuck = call == "aclrtSetCurrentContext:1"  # there is no other way back
    assert found == [None, True, NOTHING_HELD, int(stuck)]


@pytest.mark.parametrize("call", scenarios.TO_UNMAP)
def test_what_could_not_be_unmapped_can_be_freed_again(call: str, outcomes: dict[str, Any]) -> None:
    found = outcomes["fail_to_unmap"][scenarios.TO_UNMAP.index(call)]
    assert found == [True, True, 0, NOTHING_HELD]


def test_what_acl_does_not_take_back_is_told(outcomes: dict[str, Any]) -> None:
    handle, address, context, twice = outcomes["fail_to_undo"]
    assert handle == [True, [0, 0, 1]]
    assert address == [True, [1, 0, 0]]
    assert context == [True, [0, 0, 0]]
    assert twice == [True, [1, 0, 0]]

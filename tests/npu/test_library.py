"""The software NPU as programs meet it: a shared library, by name, from another language."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from kvferry.bench import doctor
from kvferry.testing import Child, Parent
from tests.npu.acl import FABRIC, HUGE, LIBRARY, LIST_OFF, NPU, Acl, PhysicalMemProp, Refused

ANNOUNCEMENT = "software NPU: nothing measured here is Ascend's\n"
NOTHING = [0] * 8

Spawn = Callable[..., Child]


def begun(device: int, **environ: str) -> Acl:
    acl = Acl(**environ)
    acl("aclInit", None)
    acl("aclrtSetDevice", device)
    return acl


def ended(acl: Acl, device: int) -> list[int]:
    """The books when all is released, which should hold nothing."""
    acl("aclrtResetDevice", device)
    acl("aclFinalize")
    return acl.books()


def export_memory(parent: Parent, data: str) -> list[int]:
    """Tells a handle of memory that begins with `data`, then as much of it as is asked for."""
    acl = begun(0)
    prop = PhysicalMemProp(attribute=4)
    prop.location.type = 1
    handle = acl.made("aclrtMallocPhysical", HUGE, ctypes.byref(prop), 0)
    address = acl.mapped(handle)
    acl.write(address, data.encode())
    name = ctypes.create_string_buffer(128)
    acl("aclrtMemExportToShareableHandleV2", handle, LIST_OFF, FABRIC, name)
    parent.tell(name.raw.hex())
    for length in parent:
        parent.tell(acl.read(address, length).decode())
    acl("aclrtFreePhysical", handle)
    acl.unmap(address)
    return ended(acl, 0)


def exchange_memory(parent: Parent, name: str, length: int, data: str) -> tuple[str, list[int]]:
    """Imports, and puts `data` where it found what it returns."""
    acl = begun(1)
    place = ctypes.c_void_p()
    raw = bytes.fromhex(name)
    acl("aclrtMemImportFromShareableHandleV2", raw, FABRIC, 0, ctypes.byref(place))
    assert place.value is not None
    address = acl.mapped(place.value)
    acl("aclrtDeviceEnablePeerAccess", 0, 0)
    found = acl.read(address, length).decode()
    acl.write(address, data.encode())
    acl("aclrtFreePhysical", place.value)
    acl.unmap(address)
    return found, ended(acl, 1)


def test_two_processes_share_memory(spawn: Spawn) -> None:
    exporter = spawn(export_memory, "from here")
    name = exporter.hear()
    importer = spawn(exchange_memory, name, len("from here"), "from there")
    assert importer.result() == ["from here", NOTHING]
    assert exporter.ask(len("from there")) == "from there"
    assert exporter.result() == NOTHING


def test_what_strangers_send_disturbs_nobody(spawn: Spawn) -> None:
    exporter = spawn(export_memory, "from here")
    name = exporter.hear()
    with ExitStack() as strangers:
        for said in [b"", b"x", b"\xff" * 28, bytes(4096)]:
            stranger = strangers.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            stranger.connect(f"\0npu-{exporter.pid}")
            if said:
                stranger.send(said)
        importer = spawn(exchange_memory, name, len("from here"), "from there")
        assert importer.result() == ["from here", NOTHING]
    assert exporter.result() == NOTHING


def look_at_device_memory(parent: Parent) -> None:
    acl = begun(0)
    parent.tell("soon")
    ctypes.string_at(acl.made("aclrtMalloc", 4096, 0), 1)


def test_the_processor_cannot_read_device_memory(spawn: Spawn) -> None:
    child = spawn(look_at_device_memory)
    assert child.hear() == "soon"
    assert child.wait() == -signal.SIGSEGV


def fail_as_ordered(parent: Parent) -> str:
    acl = begun(0, NPU_FAIL="aclrtMalloc:2=507899")
    address = acl.made("aclrtMalloc", 1, 0)
    with pytest.raises(Refused) as refused:
        acl.made("aclrtMalloc", 1, 0)
    acl("aclrtFree", address)
    assert ended(acl, 0) == NOTHING
    return str(refused.value)


def test_a_call_fails_as_ordered(spawn: Spawn) -> None:
    said = spawn(fail_as_ordered).result()
    assert said == "aclrtMalloc: 507899: software NPU: 507899: NPU_FAIL fails aclrtMalloc"


PROGRAM = """
import ctypes
npu = ctypes.CDLL("libascendcl.so")
npu.aclrtGetSocName.restype = ctypes.c_char_p
print(npu.aclInit(None), npu.aclInit(None), npu.aclrtGetSocName().decode())
"""


def run_by_name(**environ: str) -> Any:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NPU_")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**inherited, "LD_LIBRARY_PATH": str(NPU), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@pytest.mark.parametrize(
    ("profile", "name"), [("A2", "Ascend910B"), ("A3", "Ascend910_93"), ("950", "Ascend950")]
)
def test_a_program_finds_it_by_name(profile: str, name: str) -> None:
    run = run_by_name(NPU_PROFILE=profile)
    assert run.stdout.startswith(f"0 100002 {name}")


def test_it_announces_itself_once() -> None:
    assert run_by_name().stderr == ANNOUNCEMENT
    assert run_by_name(NPU_QUIET="1").stderr == ""


def declared() -> set[str]:
    text = (NPU / "acl/acl.h").read_text()
    return set(re.findall(r"^(?:aclError|const char \*|void) ?(\w+)\(", text, re.M))


def listed(heading: str) -> set[str]:
    """The functions that the README names in the section with this heading."""
    _, _, section = (NPU / "README.md").read_text().partition(f"\n## {heading}\n")
    return set(re.findall(r"`((?:acl|npu_)\w+)`", section.partition("\n## ")[0]))


def test_header_readme_and_library_agree() -> None:
    library = ctypes.CDLL(str(LIBRARY))
    assert {name for name in declared() if not hasattr(library, name)} == set()
    assert listed("Present") == declared()
    assert {name for name in listed("Absent") if hasattr(library, name)} == set()
    assert listed("Absent")


def test_the_doctor_does_not_take_it_for_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVFERRY_ACL_LIBRARY", str(LIBRARY))
    verdict = doctor.acl()
    assert "for the software NPU as Ascend" in verdict.detail

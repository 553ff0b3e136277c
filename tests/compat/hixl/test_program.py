"""A program as it is written for HIXL, in two processes that only have it on PYTHONPATH."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .conftest import FOLDER, free_address

PROGRAM = """
import ctypes
import sys

import hixl

here, there, role = sys.argv[1:]
options = {hixl.OPTION_ENABLE_USE_FABRIC_MEM: "1"}
size = 4 << 20

engine = hixl.Hixl()
assert engine.initialize(here, options) == hixl.SUCCESS
status, address = engine.malloc_mem(hixl.MEM_HOST, size)
assert status == hixl.SUCCESS
ctypes.memset(address, 0xAA if role == "write" else 0, size)
status, handle = engine.register_mem(hixl.MemDesc(address, size), hixl.MEM_HOST)
assert status == hixl.SUCCESS

if role == "serve":
    print(address, flush=True)
    input()  # until the other has written
    assert ctypes.string_at(address, size) == b"\\xaa" * size
else:
    remote = int(input())
    assert engine.connect(there) == hixl.SUCCESS
    ops = [hixl.TransferOpDesc(address, remote, size)]
    assert engine.transfer_sync(there, hixl.WRITE, ops) == hixl.SUCCESS
    ctypes.memset(address, 0, size)
    assert engine.transfer_sync(there, hixl.READ, ops) == hixl.SUCCESS
    assert ctypes.string_at(address, size) == b"\\xaa" * size
    assert engine.disconnect(there) == hixl.SUCCESS

assert engine.deregister_mem(handle) == hixl.SUCCESS
assert engine.free_mem(address) == hixl.SUCCESS
engine.finalize()
print("done")
"""


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(FOLDER)}


def test_the_designs_own_program(environment: dict[str, str]) -> None:
    names = [free_address(), free_address()]

    def run(here: str, there: str, role: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, here, there, role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    with run(*names, "serve") as server, run(*names[::-1], "write") as writer:
        address = server.stdout.readline()
        said, _ = writer.communicate(address, timeout=20)
        assert said == "done\n"
        said, _ = server.communicate("\n", timeout=20)
        assert said == "done\n"
        assert (server.wait(), writer.wait()) == (0, 0)

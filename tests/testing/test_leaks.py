from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from mmap import mmap
from pathlib import Path

import pytest

from kvferry.testing import LeakCheck, Leaked
from kvferry.testing.leaks import parse_mapping, parse_parent


def descriptor(undo: ExitStack, _folder: Path) -> str:
    reading, writing = os.pipe()
    undo.callback(os.close, reading)
    undo.callback(os.close, writing)
    return f"descriptor {reading} of pipe:"


def thread(undo: ExitStack, _folder: Path) -> str:
    done = threading.Event()
    worker = threading.Thread(target=done.wait, name="forgotten")
    worker.start()
    undo.callback(worker.join)
    undo.callback(done.set)
    return "(forgotten)"


def child(undo: ExitStack, _folder: Path) -> str:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    undo.callback(process.wait)
    assert process.stdin is not None
    undo.callback(process.stdin.close)
    return f"child process {process.pid} ("


def zombie(undo: ExitStack, _folder: Path) -> str:
    process = subprocess.Popen([sys.executable, "-c", ""])
    undo.callback(process.wait)
    return f"child process {process.pid} ("


def shared_memory(undo: ExitStack, _folder: Path) -> str:
    number = os.memfd_create("kvferry-leak")
    os.ftruncate(number, 3 << 16)
    undo.enter_context(closing(mmap(number, 3 << 16)))
    os.close(number)
    # mmap keeps a duplicate of the descriptor; the mapping is what counts here.
    return f": {3 << 16} bytes"


def socket_file(undo: ExitStack, folder: Path) -> str:
    path = folder / "left.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    undo.callback(path.unlink)
    return f"socket {path}"


LEAKS: list[Callable[[ExitStack, Path], str]] = [
    descriptor,
    thread,
    child,
    zombie,
    shared_memory,
    socket_file,
]


@pytest.mark.parametrize("leak", LEAKS)
def test_names_what_was_left(leak: Callable[[ExitStack, Path], str], tmp_path: Path) -> None:
    check = LeakCheck(folders=[tmp_path], grace=0.05)
    with ExitStack() as undo:
        check.__enter__()
        name = leak(undo, tmp_path)
        with pytest.raises(Leaked) as caught:
            check.__exit__(None, None, None)
    assert any(name in what for what in caught.value.what), caught.value.what


@pytest.mark.parametrize("leak", LEAKS)
def test_accepts_what_was_undone(leak: Callable[[ExitStack, Path], str], tmp_path: Path) -> None:
    with LeakCheck(folders=[tmp_path]), ExitStack() as undo:
        leak(undo, tmp_path)


def test_waits_for_what_ends_by_itself() -> None:
    go = threading.Event()
    worker = threading.Thread(target=go.wait)
    closer = threading.Timer(0.05, go.set)
    with LeakCheck():
        worker.start()
        closer.start()
    worker.join()
    closer.join()


def test_collects_what_only_a_cycle_holds() -> None:
    class Holder:
        def __init__(self, number: int) -> None:
            self.memory = mmap(number, 4096)
            self.me = self

    number = os.memfd_create("kvferry-cycle")
    os.ftruncate(number, 4096)
    gc.disable()
    try:
        with LeakCheck():
            Holder(number)
    finally:
        gc.enable()
        os.close(number)


def test_does_not_hide_the_error_of_its_block() -> None:
    def fail_with_a_descriptor_open(undo: ExitStack) -> None:
        with LeakCheck(grace=0):
            descriptor(undo, Path())
            raise KeyError

    with ExitStack() as undo, pytest.raises(KeyError):
        fail_with_a_descriptor_open(undo)


def test_reads_a_mapping_of_ours() -> None:
    line = "7f00-9f00 rw-s 00000000 00:01 42                 /memfd:kvferry-pool (deleted)"
    assert parse_mapping(line) == ("mapping of /memfd:kvferry-pool inode 42", 0x2000)


@pytest.mark.parametrize(
    "line",
    [
        "7f00-9f00 rw-p 00000000 00:00 0 ",
        "7f00-9f00 rw-s 00000000 00:01 42                 /memfd:other (deleted)",
        "7f00-9f00 r-xp 00000000 08:01 7                  /usr/lib/a file.so",
    ],
)
def test_passes_over_other_mappings(line: str) -> None:
    assert parse_mapping(line) is None


def test_reads_the_parent_behind_a_hostile_name() -> None:
    assert parse_parent("12 (a) S 9 (b) R) S 7 12 12 0") == 7

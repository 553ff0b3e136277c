"""The view's count of exports, and the doors that move no ownership."""

from __future__ import annotations

import ctypes
import errno
import gc
import io
import mmap
import os
from collections.abc import Iterator

import numpy as np
import pytest

from kvferry import _core

PAGE = mmap.PAGESIZE
HUGE = 2 << 20


@pytest.fixture
def memory() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(b"0123456789", 10)


@pytest.fixture
def range_of_pages() -> Iterator[tuple[int, int]]:
    """Address and length of a reservation."""
    length = 3 * HUGE + PAGE
    code, address = _core.vm_reserve(length, HUGE)
    assert (code, address % HUGE) == (0, 0)
    yield address, length
    assert _core.vm_release(address, length) == 0


def test_a_view_is_a_buffer_of_bytes(memory: ctypes.Array[ctypes.c_char]) -> None:
    view = _core.View(ctypes.addressof(memory), 10, False)
    with memoryview(view) as bytes_:
        assert (bytes_.format, bytes_.shape, bytes_.strides) == ("B", (10,), (1,))
        assert bytes_.tobytes() == b"0123456789"
        bytes_[3:5] = b"ab"
    assert memory.raw == b"012ab56789"
    assert len(view) == view.length == 10
    assert np.frombuffer(view, np.uint8)[3] == ord("a")


def test_a_read_only_view_gives_no_writable_buffer(memory: ctypes.Array[ctypes.c_char]) -> None:
    view = _core.View(ctypes.addressof(memory), 10, True)
    assert memoryview(view).readonly
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(b"abc").readinto(view)
    assert memory.raw == b"0123456789"
    assert view.exports == 0


def test_exports_are_counted(memory: ctypes.Array[ctypes.c_char]) -> None:
    view = _core.View(ctypes.addressof(memory), 10, False)
    first, array = memoryview(view), np.frombuffer(view, np.uint8)
    part = first[2:4]
    assert view.exports == 2
    first.release()
    assert view.exports == 2  # the slice holds it
    part.release()
    assert view.exports == 1
    del array
    assert view.exports == 0


def test_an_idle_view_calls_at_once_and_once(memory: ctypes.Array[ctypes.c_char]) -> None:
    calls: list[str] = []
    view = _core.View(ctypes.addressof(memory), 10, False)
    assert not view.retired
    view.on_idle(lambda: calls.append("idle"))
    assert calls == ["idle"]
    assert view.retired
    with pytest.raises(BufferError, match="closed"):
        memoryview(view)
    assert calls == ["idle"]


def test_a_busy_view_calls_when_its_last_export_goes(memory: ctypes.Array[ctypes.c_char]) -> None:
    calls: list[str] = []
    view = _core.View(ctypes.addressof(memory), 10, False)
    first, second = memoryview(view), memoryview(view)
    view.on_idle(lambda: calls.append("idle"))
    first.release()
    with pytest.raises(BufferError):
        memoryview(view)
    assert calls == []
    assert second.tobytes() == b"0123456789"
    second.release()
    assert calls == ["idle"]


def test_the_owner_lives_as_long_as_any_export(memory: ctypes.Array[ctypes.c_char]) -> None:
    gone: list[str] = []

    class Owner:
        def __del__(self) -> None:
            gone.append("gone")

    export = memoryview(_core.View(ctypes.addressof(memory), 10, False, Owner()))
    gc.collect()
    assert gone == []
    export.release()
    assert gone == ["gone"]


def test_a_view_can_be_subclassed(memory: ctypes.Array[ctypes.c_char]) -> None:
    class Named(_core.View):
        pass

    view = Named(ctypes.addressof(memory), 10, False)
    view.name = "kv"  # type: ignore[attr-defined]
    assert bytes(view) == b"0123456789"


def test_reservations_at_a_place(range_of_pages: tuple[int, int]) -> None:
    address, length = range_of_pages
    assert _core.vm_reserve_at(PAGE, address + length - PAGE) == (errno.EEXIST, 0)
    assert _core.vm_release(address + HUGE, HUGE) == 0
    assert _core.vm_reserve_at(HUGE, address + HUGE) == (0, address + HUGE)


def test_absurd_reservations_are_refused() -> None:
    for size in (1 << 62, (1 << 64) - PAGE):
        code, _address = _core.vm_reserve(size, HUGE)
        assert code == errno.ENOMEM


@pytest.mark.parametrize("how", [_core.POPULATE_READ, _core.POPULATE_WRITE, _core.POPULATE_TOUCH])
@pytest.mark.parametrize("threads", [0, 1, 2, 3, 1000])
def test_populating_brings_in_every_page_and_changes_no_byte(
    range_of_pages: tuple[int, int], how: int, threads: int
) -> None:
    address, length = range_of_pages
    fd = os.memfd_create("kvferry", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, length)
        os.pwrite(fd, b"kept", HUGE)
        assert _core.vm_map(fd, 0, length, address, True) == 0
        assert _core.vm_populate(address, length, how, threads) == 0
        assert os.fstat(fd).st_blocks * 512 == length
        assert ctypes.string_at(address + HUGE, 4) == b"kept"
        _core.vm_collapse(address, length, threads)
        assert ctypes.string_at(address + HUGE, 5) == b"kept\0"
    finally:
        assert _core.vm_unmap(address, length) == 0
        os.close(fd)


def test_populating_what_is_not_mapped_is_an_error(range_of_pages: tuple[int, int]) -> None:
    assert _core.vm_populate(*range_of_pages, _core.POPULATE_WRITE, 2) != 0


def test_seals_of_what_has_none() -> None:
    read, write = os.pipe()
    assert _core.vm_seals(read) == (errno.EINVAL, 0)
    assert _core.vm_add_seals(write, _core.SEAL_GROW) == errno.EINVAL
    os.close(read)
    os.close(write)

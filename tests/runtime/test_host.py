"""Committing memory, what was obtained, and what is left when a step fails."""

from __future__ import annotations

import errno
import mmap
import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kvferry import _core
from kvferry.errors import ClosedError, Error, NoMemory, UsageError
from kvferry.runtime import Access, HostRuntime, Place
from kvferry.runtime import host as module

PAGE = mmap.PAGESIZE
HUGE = 2 << 20
SIZE = 3 * HUGE + PAGE


@pytest.fixture
def runtime() -> HostRuntime:
    return HostRuntime(threads=1)


@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, PAGE + 1, HUGE, SIZE])
def test_memory_is_zeroed_rounded_up_and_all_there(runtime: HostRuntime, size: int) -> None:
    with runtime.allocate(size, Place.HOST, PAGE) as allocation:
        granted = -(-size // PAGE) * PAGE
        assert allocation.grant is not None
        assert allocation.grant[:3] == (size, granted, PAGE)
        assert (allocation.size, allocation.page, allocation.shared) == (granted, PAGE, None)
        stat = os.fstat(allocation.handle)
        assert (stat.st_size, stat.st_blocks * 512) == (granted, granted)
        with runtime.map(allocation, runtime.reserve(granted), Access.WRITE) as mapping:
            assert bytes(mapping.view) == bytes(granted)


def test_huge_pages_are_had_or_missed_with_a_note(runtime: HostRuntime) -> None:
    with runtime.allocate(SIZE, page=PAGE) as allocation:
        grant = allocation.grant
        assert grant is not None
        assert grant.huge % HUGE == 0
        assert grant.huge == 3 * HUGE or f"{3 * HUGE - grant.huge} bytes" in grant.notes[-1]


def test_two_mappings_show_the_same_bytes(runtime: HostRuntime) -> None:
    with ExitStack() as undo:
        allocation = undo.enter_context(runtime.allocate(SIZE))
        first, second = (
            undo.enter_context(runtime.map(allocation, runtime.reserve(SIZE + HUGE), access))
            for access in (Access.WRITE, Access.READ)
        )
        assert first.address % HUGE == second.address % HUGE == 0
        pattern = os.urandom(SIZE)
        with memoryview(first.view) as bytes_:
            bytes_[:] = pattern
        assert bytes(second.view) == pattern


def test_many_threads_commit_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with HostRuntime(threads=7).allocate(SIZE, page=PAGE) as allocation:
        assert os.fstat(allocation.handle).st_blocks * 512 == SIZE


@pytest.mark.parametrize("size", [0, -1, -(1 << 70)])
def test_impossible_sizes_are_refused(runtime: HostRuntime, size: int) -> None:
    for verb in (runtime.allocate, runtime.reserve):
        with pytest.raises(UsageError):
            verb(size)


def test_unknown_pages_are_refused(runtime: HostRuntime) -> None:
    assert list(runtime.granularity(Place.HOST)) == [PAGE, HUGE]
    with pytest.raises(UsageError, match="no pages of 3 bytes"):
        runtime.allocate(1, page=3)


@pytest.mark.parametrize("size", [1 << 50, 1 << 64, 1 << 100])
def test_too_much_is_refused_before_anything_is_taken(
    runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(NoMemory, match=f"asked for {size} bytes, [0-9]+ are available") as caught:
        runtime.allocate(size)
    assert caught.value.cause == "no_memory"


def test_too_many_addresses_are_refused(runtime: HostRuntime) -> None:
    for size in (1 << 60, 1 << 100):
        with pytest.raises(NoMemory):
            runtime.reserve(size)


def test_a_reservation_can_be_asked_for_by_address(runtime: HostRuntime) -> None:
    with runtime.reserve(4 * HUGE) as first:
        with pytest.raises(NoMemory) as caught:
            runtime.reserve(PAGE, first.address + HUGE)
        assert caught.value.cause == "address_taken"
        with pytest.raises(UsageError):
            runtime.reserve(PAGE, first.address + 1)
    with runtime.reserve(PAGE, first.address + HUGE) as second:
        assert second.address == first.address + HUGE


def test_what_does_not_fit_is_not_mapped(runtime: HostRuntime) -> None:
    with runtime.allocate(2 * PAGE) as allocation, runtime.reserve(PAGE) as reservation:
        with pytest.raises(UsageError) as caught:
            runtime.map(allocation, reservation, Access.WRITE)
        assert caught.value.range == (reservation.address, PAGE)


def test_closed_owners_are_refused(runtime: HostRuntime) -> None:
    allocation, reservation = runtime.allocate(PAGE), runtime.reserve(PAGE)
    allocation.close()
    with pytest.raises(ClosedError):
        runtime.map(allocation, reservation, Access.WRITE)
    with pytest.raises(ClosedError):
        runtime.export(allocation, Access.READ)
    reservation.close()
    with runtime.allocate(PAGE) as second, pytest.raises(ClosedError):
        runtime.map(second, reservation, Access.WRITE)


def test_memory_with_holes_is_not_filled_by_mapping_it(runtime: HostRuntime) -> None:
    fd = os.memfd_create("kvferry-theirs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SIZE)
    assert _core.vm_add_seals(fd, module.memfile.SIZE_SEALS | _core.SEAL_SEAL) == 0
    handle = module.ShareHandle(fd, SIZE, PAGE, Access.WRITE)
    with (
        runtime.import_handle(handle) as allocation,
        runtime.map(allocation, runtime.reserve(SIZE), Access.WRITE),
    ):
        assert os.fstat(fd).st_blocks == 0


def test_the_host_retains_nothing_and_streams_need_engines(runtime: HostRuntime) -> None:
    assert runtime.retain(0x1000) is None
    with pytest.raises(UsageError):
        runtime.stream()


# Kernels that lack something.


def test_without_populate_pages_are_touched(
    runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _core.vm_populate
    monkeypatch.setattr(
        _core,
        "vm_populate",
        lambda address, length, how, threads: (
            real(address, length, how, threads) if how == _core.POPULATE_TOUCH else errno.EINVAL
        ),
    )
    with runtime.allocate(SIZE, page=PAGE) as allocation:
        assert os.fstat(allocation.handle).st_blocks * 512 == SIZE
        assert allocation.grant is not None
        assert "no MADV_POPULATE_WRITE" in allocation.grant.notes[0]
        with runtime.map(allocation, runtime.reserve(SIZE), Access.READ) as mapping:
            assert bytes(mapping.view) == bytes(SIZE)


def test_without_huge_pages_the_grant_says_so(
    runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_core, "vm_hugepage", lambda *_: errno.EINVAL)
    monkeypatch.setattr(_core, "vm_collapse", lambda *_: errno.EINVAL)
    monkeypatch.setattr(module, "_huge", lambda mapping: 0)
    with runtime.allocate(SIZE, page=PAGE) as allocation:
        assert allocation.grant is not None
        assert allocation.grant.huge == 0
        assert f"{3 * HUGE} bytes stayed in small pages" in allocation.grant.notes[-1]


# The pool of huge pages.


def pretend_pool(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    real = module._read
    texts = {"free_hugepages": f"{pages}\n", "resv_hugepages": "0\n"}
    monkeypatch.setattr(module, "_read", lambda path: texts.get(Path(path).name) or real(path))


def test_the_pool_is_insisted_on(runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_pool(monkeypatch, 1)
    with pytest.raises(NoMemory, match="pool"):
        runtime.allocate(HUGE + 1, page=HUGE)


@pytest.mark.skipif(module._pool().available > 0, reason="the pool has pages to give")
def test_a_pool_that_has_less_than_it_said_is_survived(
    runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_pool(monkeypatch, 1000)
    with pytest.raises(NoMemory):
        runtime.allocate(SIZE, page=HUGE)
    with runtime.allocate(SIZE) as allocation:
        assert (allocation.page, allocation.size) == (PAGE, SIZE)


@pytest.mark.skipif(module._pool().available < 4 * HUGE, reason="the 2 MiB pool is too small")
@pytest.mark.parametrize("page", [0, HUGE])
def test_pages_of_the_pool_are_shared_like_others(runtime: HostRuntime, page: int) -> None:
    with runtime.allocate(HUGE + 1, page=page) as allocation:
        assert allocation.grant == (HUGE + 1, 2 * HUGE, HUGE, 2 * HUGE, ())
        mapping = runtime.map(allocation, runtime.reserve(2 * HUGE), Access.WRITE)
        with mapping, memoryview(mapping.view) as bytes_:
            bytes_[-5:] = b"there"
            handle = runtime.export(allocation, Access.READ)
            with runtime.import_handle(handle) as second:
                other = runtime.map(second, runtime.reserve(2 * HUGE), Access.READ)
                assert bytes(memoryview(other.view)[-5:]) == b"there"
                other.close()


# Failure of any step.

Failure = Callable[[], Any]


def fail_os() -> None:
    raise OSError(errno.ENOMEM, "injected")


STEPS: dict[str, tuple[object, Failure]] = {
    "memfd_create": (os, fail_os),
    "fchmod": (os, fail_os),
    "ftruncate": (os, fail_os),
    "posix_fallocate": (os, fail_os),
    "dup": (os, fail_os),
    "open": (os, fail_os),
    "vm_seals": (_core, lambda: (errno.ENOMEM, 0)),
    "vm_add_seals": (_core, lambda: errno.ENOMEM),
    "vm_reserve": (_core, lambda: (errno.ENOMEM, 0)),
    "vm_map": (_core, lambda: errno.ENOMEM),
}

# In these the runtime does without what failed.
OPTIONAL: dict[str, tuple[object, Failure]] = {
    "vm_hugepage": (_core, lambda: errno.ENOMEM),
    "vm_collapse": (_core, lambda: errno.ENOMEM),
}


class Steps:
    """Counts the calls of each step, and makes one of them fail."""

    def __init__(self, patch: pytest.MonkeyPatch, fail: tuple[str, int] | None = None) -> None:
        self.calls: Counter[str] = Counter()
        self.fail = fail
        for name, (home, failure) in (STEPS | OPTIONAL).items():
            patch.setattr(home, name, self._counted(name, getattr(home, name), failure))

    def _counted(self, name: str, real: Callable[..., Any], failure: Failure) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if (name, self.calls[name]) == self.fail:
                return failure()
            return real(*args, **kwargs)

        return call


def everything(runtime: HostRuntime, size: int) -> bytes:
    """Allocate, map, export either way, import, map again; close all."""
    seen = b""
    for access in Access:
        with ExitStack() as undo:
            allocation = undo.enter_context(runtime.allocate(size, page=PAGE))
            first = undo.enter_context(runtime.reserve(size))
            memoryview(undo.enter_context(runtime.map(allocation, first, Access.WRITE)).view)[0] = 7
            handle = runtime.export(allocation, access)
            theirs = undo.enter_context(runtime.import_handle(handle))
            second = undo.enter_context(runtime.reserve(size))
            seen += memoryview(undo.enter_context(runtime.map(theirs, second, access)).view)[:1]
    return seen


def held() -> tuple[list[str], int, int]:
    """Descriptors, bytes of memory files mapped, bytes reserved."""
    mapped = reserved = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        mapped += (high - low) * ("memfd:kvferry" in line)
        reserved += (high - low) * (" ---p 00000000 00:00 0" in line)
    return os.listdir("/proc/self/fd"), mapped, reserved


def test_a_failure_at_any_step_leaves_nothing(runtime: HostRuntime) -> None:
    everything(runtime, SIZE)
    with pytest.MonkeyPatch.context() as patch:
        calls = Steps(patch).calls
        assert everything(runtime, SIZE) == b"\7\7"
    assert set(calls) == set(STEPS) | (set(calls) & set(OPTIONAL))
    before = held()
    for name, count in calls.items():
        for nth in range(1, count + 1):
            with pytest.MonkeyPatch.context() as patch:
                Steps(patch, (name, nth))
                if name in OPTIONAL:
                    assert everything(runtime, SIZE) == b"\7\7"
                else:
                    with pytest.raises(Error):
                        everything(runtime, SIZE)
            assert held() == before, f"after call {nth} of {name} failed"


@pytest.mark.parametrize("code", [errno.ENOMEM, errno.EFAULT, errno.EIO])
def test_pages_that_do_not_come_undo_the_allocation(
    runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    before = held()
    with monkeypatch.context() as patch:
        patch.setattr(_core, "vm_populate", lambda *_: code)
        with pytest.raises(NoMemory, match=os.strerror(code)):
            runtime.allocate(SIZE, page=PAGE)
    assert held() == before

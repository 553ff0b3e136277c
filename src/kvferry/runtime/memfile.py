"""Memory files: made, sealed, handed out, and checked when they come from somebody else.

    seal           when                          stops, for everyone and for good
    SHRINK, GROW   at once                       a fault in a peer that maps what was cut off
    FUTURE_WRITE   first export, if read-only    new writable mappings, and write()
    SEAL           first export                  any change to the above

FUTURE_WRITE leaves the writable mappings there are. The mode is 0600 and a read-only export is a
descriptor opened for reading, so another uid is stopped even before it comes to the seals. Who is
to read what others write has that descriptor alone: one of the owner's uid can open it again.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from .. import _core
from ..errors import NoMemory, RightsError, UsageError
from .base import ShareHandle
from .owners import Access, Allocation

__all__ = ["HUGE", "create", "hand_out", "must", "narrow", "take_over"]

HUGE = 2 << 20

NAME = "kvferry"
SIZE_SEALS = _core.SEAL_SHRINK | _core.SEAL_GROW
EXPORT_SEALS = {
    Access.READ: _core.SEAL_FUTURE_WRITE | _core.SEAL_SEAL,
    Access.WRITE: _core.SEAL_SEAL,
}


def must(step: str, code: int) -> None:
    """Raise NoMemory when a native step returned an errno."""
    if code:
        raise NoMemory(f"{step}: {os.strerror(code)}", cause="no_memory")


@contextmanager
def _step(step: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        must(step, error.errno or errno.ENOMEM)


def create(size: int, page: int) -> Allocation:
    """A sealed memory file of `size` bytes with nothing in it yet."""
    fd = _open(_core.MFD_HUGETLB | _core.MFD_HUGE_2MB if page == HUGE else 0)
    with ExitStack() as undo:
        allocation = undo.enter_context(Allocation(fd, size, page, partial(os.close, fd)))
        with _step("fchmod"):
            os.fchmod(fd, 0o600)
        with _step("ftruncate"):
            os.ftruncate(fd, size)
        must("F_ADD_SEALS", _core.vm_add_seals(fd, SIZE_SEALS))
        undo.pop_all()
    return allocation


def _open(flags: int) -> int:
    flags |= os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    with _step("memfd_create"):
        try:
            return os.memfd_create(NAME, flags | _core.MFD_NOEXEC_SEAL)
        except OSError as error:
            # Kernels before 6.3 do not know the flag.
            if error.errno != errno.EINVAL:
                raise
        return os.memfd_create(NAME, flags)


def hand_out(allocation: Allocation, access: Access) -> ShareHandle:
    """A descriptor for others, sealed to what they may do."""
    fd = _descriptor(allocation, access)
    with ExitStack() as undo:
        undo.callback(os.close, fd)
        if allocation.shared is None:
            code = _core.vm_add_seals(allocation.handle, EXPORT_SEALS[access])
            if code:
                raise RightsError(f"cannot seal: {os.strerror(code)}", cause="seals")
            allocation.shared = access
        undo.pop_all()
    return ShareHandle(fd, allocation.size, allocation.page, access)


def _descriptor(allocation: Allocation, access: Access) -> int:
    with _step("open"):
        if access is Access.WRITE or not _writable(allocation.handle):
            return os.dup(allocation.handle)
        return _reader_of(allocation.handle)


def _reader_of(fd: int) -> int:
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


def narrow(handle: ShareHandle) -> ShareHandle:
    """In place of a descriptor to write by, which is closed, one to read by."""
    assert handle.fd is not None, "it is a memory file"
    try:
        with _step("open"):
            fd = _reader_of(handle.fd)
    finally:
        os.close(handle.fd)
    return handle._replace(fd=fd, access=Access.READ)


def take_over(handle: ShareHandle) -> Allocation:
    """The memory behind a handle from somebody who is not trusted."""
    fd = _descriptor_of(handle)
    with ExitStack() as undo:
        allocation = Allocation(fd, handle.size, handle.page, partial(os.close, fd), handle.access)
        undo.enter_context(allocation)
        os.set_inheritable(fd, False)
        _verify_seals(handle, fd)
        # Only now: before its seals were seen the owner could still have cut it short.
        _verify_size(handle, fd)
        undo.pop_all()
    return allocation


def _descriptor_of(handle: ShareHandle) -> int:
    if handle.fd is None:
        raise UsageError(f"a handle of kind {handle.kind!r} is no memory file", cause="bad_handle")
    try:
        os.fstat(handle.fd)
    except OSError as error:
        raise UsageError(f"the handle has no descriptor: {error}", cause="bad_handle") from None
    return handle.fd


def _verify_seals(handle: ShareHandle, fd: int) -> None:
    code, seals = _core.vm_seals(fd)
    if code:
        raise UsageError("the handle is not a memory file", cause="not_shared_memory")
    if ~seals & (SIZE_SEALS | _core.SEAL_SEAL):
        raise RightsError("the memory file is not sealed", cause="not_sealed")
    read_only = bool(seals & _core.SEAL_FUTURE_WRITE)
    if handle.access is Access.READ and not read_only and _writable(fd):
        raise RightsError("a read-only handle to memory that can be written", cause="not_sealed")
    if handle.access is Access.WRITE and (read_only or not _writable(fd)):
        raise RightsError("a writable handle to memory that is read-only", cause="read_only")


def _verify_size(handle: ShareHandle, fd: int) -> None:
    """After the seals, which keep the size from changing under us."""
    # A memory file's file system has its pages for blocks.
    page, size = os.fstatvfs(fd).f_bsize, os.fstat(fd).st_size
    if handle.page != page or handle.size <= 0 or handle.size % page:
        raise UsageError(
            f"the handle claims {handle.size} bytes in pages of {handle.page}, not of {page}",
            cause="bad_handle",
        )
    if handle.size > size:
        raise UsageError(
            f"the handle claims {handle.size} bytes of a memory file of {size}", cause="bad_handle"
        )


def _writable(fd: int) -> bool:
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR

# Doors to vm.h, and the buffer over an address range.

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cpython.memoryview cimport PyMemoryView_Check, PyMemoryView_GET_BUFFER

cdef extern from "vm.h" nogil:
    ctypedef enum kvf_vm_work:
        KVF_POPULATE_READ
        KVF_POPULATE_WRITE
        KVF_POPULATE_TOUCH
        KVF_COLLAPSE

    int kvf_vm_reserve(size_t size, size_t align, uintptr_t *address)
    int kvf_vm_reserve_at(size_t size, uintptr_t at, uintptr_t *address)
    int kvf_vm_map(int fd, long long offset, size_t length, uintptr_t address, bint writable)
    int kvf_vm_unmap(uintptr_t address, size_t length)
    int kvf_vm_release(uintptr_t address, size_t length)
    int kvf_vm_hugepage(uintptr_t address, size_t length)
    int kvf_vm_work_on(uintptr_t address, size_t length, kvf_vm_work work, unsigned threads)
    int kvf_vm_seals(int fd, int *seals)
    int kvf_vm_add_seals(int fd, int seals)

    enum:
        F_SEAL_SEAL
        F_SEAL_SHRINK
        F_SEAL_GROW
        F_SEAL_FUTURE_WRITE
        _MFD_NOEXEC_SEAL "MFD_NOEXEC_SEAL"
        _MFD_HUGETLB "MFD_HUGETLB"
        _MFD_HUGE_2MB "MFD_HUGE_2MB"

SEAL_SEAL = F_SEAL_SEAL
SEAL_SHRINK = F_SEAL_SHRINK
SEAL_GROW = F_SEAL_GROW
SEAL_FUTURE_WRITE = F_SEAL_FUTURE_WRITE
MFD_NOEXEC_SEAL = _MFD_NOEXEC_SEAL
MFD_HUGETLB = _MFD_HUGETLB
MFD_HUGE_2MB = _MFD_HUGE_2MB
POPULATE_READ = KVF_POPULATE_READ
POPULATE_WRITE = KVF_POPULATE_WRITE
POPULATE_TOUCH = KVF_POPULATE_TOUCH


def vm_reserve(size_t size, size_t align):
    cdef uintptr_t address = 0
    cdef int code
    with nogil:
        code = kvf_vm_reserve(size, align, &address)
    return code, address


def vm_reserve_at(size_t size, uintptr_t at):
    cdef uintptr_t address = 0
    cdef int code
    with nogil:
        code = kvf_vm_reserve_at(size, at, &address)
    return code, address


def vm_map(int fd, long long offset, size_t length, uintptr_t address, bint writable):
    cdef int code
    with nogil:
        code = kvf_vm_map(fd, offset, length, address, writable)
    return code


def vm_unmap(uintptr_t address, size_t length):
    cdef int code
    with nogil:
        code = kvf_vm_unmap(address, length)
    return code


def vm_release(uintptr_t address, size_t length):
    cdef int code
    with nogil:
        code = kvf_vm_release(address, length)
    return code


def vm_hugepage(uintptr_t address, size_t length):
    return kvf_vm_hugepage(address, length)


def vm_collapse(uintptr_t address, size_t length, unsigned threads):
    cdef int code
    with nogil:
        code = kvf_vm_work_on(address, length, KVF_COLLAPSE, threads)
    return code


def vm_populate(uintptr_t address, size_t length, int how, unsigned threads):
    cdef int code
    with nogil:
        code = kvf_vm_work_on(address, length, <kvf_vm_work>how, threads)
    return code


def vm_seals(int fd):
    cdef int seals = 0
    cdef int code = kvf_vm_seals(fd, &seals)
    return code, seals


def vm_add_seals(int fd, int seals):
    return kvf_vm_add_seals(fd, seals)


def address_of(view):
    if not PyMemoryView_Check(view):
        raise TypeError("a memoryview")
    return <uintptr_t>PyMemoryView_GET_BUFFER(view).buf


# Hidden from the cycle collector, which clears the objects of a dead cycle in any order: what the
# view refers to must be whole when a buffer of that cycle is released and the callback runs.
@cython.no_gc
cdef class View:
    cdef readonly uintptr_t address
    cdef readonly Py_ssize_t length
    cdef readonly bint readonly
    cdef readonly bint opaque
    cdef readonly Py_ssize_t exports
    cdef readonly bint retired
    cdef Py_ssize_t step
    cdef object owner
    cdef object callback

    def __cinit__(self, uintptr_t address, Py_ssize_t length, bint readonly, object owner=None,
                  bint opaque=False):
        self.address = address
        self.length = length
        self.step = 1
        self.readonly = readonly
        self.opaque = opaque
        self.owner = owner

    def __len__(self):
        return self.length

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if self.opaque:
            raise BufferError("this is device memory, which the processor cannot touch: copy with "
                              "load, load_into and store")
        if self.retired:
            raise BufferError("the mapping behind this view was closed")
        if self.readonly and flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("the mapping behind this view is read-only")
        buffer.buf = <void *>self.address
        buffer.obj = self
        buffer.len = self.length
        buffer.itemsize = 1
        buffer.readonly = self.readonly
        buffer.ndim = 1
        buffer.format = NULL
        if flags & PyBUF_FORMAT == PyBUF_FORMAT:
            buffer.format = "B"
        buffer.shape = &self.length if flags & PyBUF_ND == PyBUF_ND else NULL
        buffer.strides = &self.step if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        buffer.suboffsets = NULL
        buffer.internal = NULL
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self.exports -= 1
        if self.exports == 0:
            self._idle()

    def on_idle(self, callback):
        self.retired = True
        self.callback = callback
        if self.exports == 0:
            self._idle()

    cdef _idle(self):
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()

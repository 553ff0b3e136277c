from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from posix.types cimport pid_t

cdef extern from "process.h" nogil:
    ctypedef struct kvf_process_mover:
        kvf_mover mover
    void kvf_process_mover_init(kvf_process_mover *, pid_t, const kvf_watch *)
    int kvf_process_read(pid_t, uint64_t address, void *, size_t length)
    bint kvf_process_dumpable()
    int kvf_process_admit_all()
    int kvf_process_conceal()


# No cycle leads through it, and streams may still be in it when it goes: no_gc.
@cython.no_gc
cdef class ProcessMover(Mover):
    cdef kvf_process_mover process
    cdef PeerWatch watch

    def __cinit__(self, pid_t pid, PeerWatch watch not None):
        self.watch = watch
        kvf_process_mover_init(&self.process, pid, &watch.watch)
        self.mover = &self.process.mover


def process_read(pid_t pid, uint64_t address, size_t length):
    found = PyBytes_FromStringAndSize(NULL, length)
    cdef char *to = PyBytes_AS_STRING(found)
    cdef int code
    with nogil:
        code = kvf_process_read(pid, address, to, length)
    return code, b"" if code else found


def process_dumpable():
    return kvf_process_dumpable()


def process_admit_all():
    return kvf_process_admit_all()


def process_conceal():
    return kvf_process_conceal()

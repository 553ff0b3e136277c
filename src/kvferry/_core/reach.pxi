cdef extern from "reach.h" nogil:
    ctypedef struct kvf_reach:
        int (*load)(kvf_reach *, void *to, uint64_t source, uint64_t n) noexcept nogil
        int (*store)(kvf_reach *, uint64_t to, const void *source, uint64_t n) noexcept nogil


cdef class Reach:
    """How a processor gets at memory it cannot touch; kinds of devices derive from it."""
    cdef kvf_reach *reach

    def load(self, uint64_t address, unsigned char[::1] to not None):
        cdef int code = 0
        cdef uint64_t n = to.shape[0]
        if n:
            with nogil:
                code = self.reach.load(self.reach, &to[0], address, n)
        return code

    def store(self, uint64_t address, const unsigned char[::1] source not None):
        cdef int code = 0
        cdef uint64_t n = source.shape[0]
        if n:
            with nogil:
                code = self.reach.store(self.reach, address, &source[0], n)
        return code

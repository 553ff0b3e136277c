cdef extern from "pool.h" nogil:
    ctypedef struct kvf_pool:
        int (*interrupted)() noexcept nogil
    kvf_pool *kvf_pool_new(size_t count, uint64_t size)
    void kvf_pool_free(kvf_pool *)


# No cycle leads through it, and movers may still be in it when it goes: no_gc.
@cython.no_gc
cdef class BouncePool:
    """Buffers that bytes pass through on their way."""
    cdef kvf_pool *pool
    cdef int pid

    def __cinit__(self, size_t count, uint64_t size):
        if count == 0 or size == 0:
            raise ValueError("a pool has buffers")
        self.pid = getpid()
        with nogil:
            self.pool = kvf_pool_new(count, size)
        if self.pool == NULL:
            raise MemoryError
        self.pool.interrupted = interrupted

    def __dealloc__(self):
        if self.pool != NULL and getpid() == self.pid:
            kvf_pool_free(self.pool)

cdef extern from "bounce.h" nogil:
    ctypedef struct kvf_bounce:
        kvf_mover mover
    const uint64_t KVF_STAGE_BELOW
    kvf_bounce kvf_bounce_short(kvf_mover *inner, kvf_pool *)
    kvf_bounce kvf_bounce_all(kvf_mover *inner, kvf_pool *)

STAGE_BELOW = KVF_STAGE_BELOW


# No cycle leads through it, and streams may still be in it when it goes: no_gc.
@cython.no_gc
cdef class Bounce(Mover):
    """Lets pieces pass through a pool's buffers on their way to another mover."""
    cdef Mover inner
    cdef BouncePool pool
    cdef kvf_bounce registered, plain

    def __cinit__(self, Mover inner not None, BouncePool pool not None):
        self.inner, self.pool = inner, pool
        self.registered = kvf_bounce_short(inner.mover, pool.pool)
        self.plain = kvf_bounce_all(inner.mover, pool.pool)
        self.mover = &self.registered.mover

    cdef kvf_mover *native(self, Descriptors d) noexcept:
        return &self.plain.mover if d.unregistered else self.mover

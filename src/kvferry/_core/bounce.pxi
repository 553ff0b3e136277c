cdef extern from "bounce.h" nogil:
    ctypedef struct kvf_bounce:
        kvf_mover mover
    const uint64_t KVF_STAGE_BELOW
    const uint64_t KVF_NO_LENGTH
    kvf_bounce kvf_bounce_short(kvf_mover *inner, kvf_pool *)
    kvf_bounce kvf_bounce_all(kvf_mover *inner, kvf_pool *)
    kvf_bounce kvf_bounce_opaque(kvf_mover *inner, kvf_pool *, uint64_t below, kvf_table *)

STAGE_BELOW = KVF_STAGE_BELOW


# No cycle leads through it, and streams may still be in it when it goes: no_gc.
@cython.no_gc
cdef class Bounce(Mover):
    """Lets pieces pass through a pool's buffers on their way to another mover."""
    cdef Mover inner
    cdef BouncePool pool
    cdef SpanTable local
    cdef kvf_bounce registered, plain, opaque

    def __cinit__(self, Mover inner not None, BouncePool pool not None, SpanTable local=None):
        self.inner, self.pool, self.local = inner, pool, local
        self.registered = kvf_bounce_short(inner.mover, pool.pool)
        self.plain = kvf_bounce_all(inner.mover, pool.pool)
        if local is not None:
            self.opaque = kvf_bounce_opaque(inner.mover, pool.pool, KVF_STAGE_BELOW, &local.table)
        self.mover = &self.registered.mover

    cdef kvf_mover *native(self, Descriptors d) noexcept:
        if d.opaque and self.local is not None:
            return &self.opaque.mover
        return &self.plain.mover if d.unregistered else self.mover


@cython.no_gc
cdef class OpaqueBounce(Mover):
    """Lets only what lies in a device pass through a pool's buffers."""
    cdef Mover inner
    cdef BouncePool pool
    cdef SpanTable local
    cdef kvf_bounce opaque

    def __cinit__(self, Mover inner not None, BouncePool pool not None, SpanTable local not None):
        self.inner, self.pool, self.local = inner, pool, local
        self.opaque = kvf_bounce_opaque(inner.mover, pool.pool, KVF_NO_LENGTH, &local.table)
        self.mover = &self.opaque.mover

    cdef kvf_mover *native(self, Descriptors d) noexcept:
        return self.mover if d.opaque else self.inner.native(d)

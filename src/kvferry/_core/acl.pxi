cdef extern from "acl.h" nogil:
    ctypedef struct kvf_acl:
        int (*memcpy)(void *, size_t, const void *, size_t, int) noexcept nogil
        int (*memcpy_async)(void *, size_t, const void *, size_t, int, void *) noexcept nogil
        int (*query)(void *, int *) noexcept nogil
        int (*abort)(void *) noexcept nogil
        int (*get_context)(void **) noexcept nogil
        int (*set_context)(void *) noexcept nogil
        bint given_up
    ctypedef struct kvf_acl_mover:
        kvf_mover mover
        bint failed, abandoned
    ctypedef struct kvf_acl_reach:
        kvf_reach reach
    void kvf_acl_mover_init(kvf_acl_mover *, kvf_acl *, void *context, void *stream,
                            kvf_table *aliases, void *flag, void *one)
    void kvf_acl_reach_init(kvf_acl_reach *, kvf_acl *, void *context)


# Movers point into it, and streams may still be in those when it goes: no_gc, as are they.
@cython.no_gc
cdef class AclCalls:
    """The functions of ACL that native threads call."""
    cdef kvf_acl acl

    def __cinit__(self, *, uintptr_t memcpy, uintptr_t memcpy_async, uintptr_t query,
                  uintptr_t abort, uintptr_t get_context, uintptr_t set_context):
        self.acl.memcpy = <int (*)(void *, size_t, const void *, size_t, int) noexcept nogil>memcpy
        self.acl.memcpy_async = (
            <int (*)(void *, size_t, const void *, size_t, int, void *) noexcept nogil>memcpy_async)
        self.acl.query = <int (*)(void *, int *) noexcept nogil>query
        self.acl.abort = <int (*)(void *) noexcept nogil>abort
        self.acl.get_context = <int (*)(void **) noexcept nogil>get_context
        self.acl.set_context = <int (*)(void *) noexcept nogil>set_context

    def give_up(self):
        self.acl.given_up = True


@cython.no_gc
cdef class AclMover(Mover):
    cdef kvf_acl_mover acl
    cdef AclCalls calls
    cdef SpanTable aliases

    def __cinit__(self, AclCalls calls not None, uintptr_t context, uintptr_t stream,
                  SpanTable aliases not None, uintptr_t flag, uintptr_t one):
        self.calls, self.aliases = calls, aliases
        kvf_acl_mover_init(&self.acl, &calls.acl, <void *>context, <void *>stream,
                           &aliases.table, <void *>flag, <void *>one)
        self.mover = &self.acl.mover

    @property
    def failed(self):
        return self.acl.failed

    @property
    def abandoned(self):
        return self.acl.abandoned


@cython.no_gc
cdef class AclReach(Reach):
    cdef kvf_acl_reach acl
    cdef AclCalls calls

    def __cinit__(self, AclCalls calls not None, uintptr_t context):
        self.calls = calls
        kvf_acl_reach_init(&self.acl, &calls.acl, <void *>context)
        self.reach = &self.acl.reach

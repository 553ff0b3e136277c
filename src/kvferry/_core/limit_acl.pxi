cdef extern from "limit_acl.h" nogil:
    int kvf_limit_acl_memcpy(void *, size_t, const void *, size_t, int)
    int kvf_limit_acl_memcpy_async(void *, size_t, const void *, size_t, int, void *)
    int kvf_limit_acl_query(void *, int *)
    int kvf_limit_acl_abort(void *)
    int kvf_limit_acl_get_context(void **)
    int kvf_limit_acl_set_context(void *)
    uint64_t kvf_limit_acl_submit(kvf_acl *, const kvf_descriptor *, uint64_t n, uint64_t streams,
                                  uint64_t times)


def acl_instant():
    return AclCalls(
        memcpy=<uintptr_t>&kvf_limit_acl_memcpy,
        memcpy_async=<uintptr_t>&kvf_limit_acl_memcpy_async,
        query=<uintptr_t>&kvf_limit_acl_query,
        abort=<uintptr_t>&kvf_limit_acl_abort,
        get_context=<uintptr_t>&kvf_limit_acl_get_context,
        set_context=<uintptr_t>&kvf_limit_acl_set_context,
    )


def acl_submit(AclCalls calls not None, Descriptors d not None, uint64_t streams, uint64_t times):
    cdef uint64_t ns
    with nogil:
        ns = kvf_limit_acl_submit(&calls.acl, d.run.d, d.n, streams, times)
    return ns

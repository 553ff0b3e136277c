cdef extern from "limit.h" nogil:
    ctypedef struct kvf_variant:
        const char *name
        void (*copy)(void *, const void *, size_t) noexcept nogil
    const kvf_variant *kvf_variants
    const size_t KVF_VARIANTS
    bint kvf_variant_runs(const kvf_variant *)
    const kvf_variant *kvf_best_nt()
    ctypedef void kvf_limit_loop(char *, const int64_t *, const char *, const int64_t *, size_t,
                                 size_t) noexcept nogil
    kvf_limit_loop **kvf_limits
    int kvf_limit_process(int pid, uint64_t to, const int64_t *, uint64_t source, const int64_t *,
                          size_t, size_t block, size_t batch, kvf_op)


def copy_variants():
    """Names of the copy variants this processor runs, plain memcpy first."""
    return [kvf_variants[i].name.decode() for i in range(KVF_VARIANTS)
            if kvf_variant_runs(&kvf_variants[i])]


def nt_variant():
    """Name of the variant that large runs are copied with."""
    return kvf_best_nt().name.decode()


cdef size_t variant_named(str name) except? 0:
    for i in range(KVF_VARIANTS):
        if kvf_variants[i].name.decode() == name and kvf_variant_runs(&kvf_variants[i]):
            return i
    raise ValueError(f"no copy variant {name!r} on this processor")


def copy(str variant, uint64_t to, uint64_t source, size_t length):
    """Copy between two addresses the caller answers for."""
    cdef const kvf_variant *v = &kvf_variants[variant_named(variant)]
    with nogil:
        v.copy(<void *>to, <const void *>source, length)


def copy_bare(uint64_t to, uint64_t source, size_t length):
    """libc memcpy behind one call and nothing else: the yardstick of call overhead."""
    memcpy(<void *>to, <const void *>source, length)


def copy_blocks(str variant, uint64_t to, const int64_t[::1] to_ids, uint64_t source,
                const int64_t[::1] source_ids, size_t block):
    """Copy block `source_ids[i]` to block `to_ids[i]` for all i: what the memory itself allows."""
    cdef kvf_limit_loop *loop = kvf_limits[variant_named(variant)]
    cdef size_t n = min(to_ids.shape[0], source_ids.shape[0])
    if n:
        with nogil:
            loop(<char *>to, &to_ids[0], <const char *>source, &source_ids[0], n, block)


def process_blocks(int pid, uint64_t to, const int64_t[::1] to_ids, uint64_t source,
                   const int64_t[::1] source_ids, size_t block, size_t batch, bint write):
    """The same between this process and another: what the kernel allows."""
    cdef size_t n = min(to_ids.shape[0], source_ids.shape[0])
    cdef kvf_op op = KVF_WRITE if write else KVF_READ
    cdef int code = 0
    if n:
        with nogil:
            code = kvf_limit_process(pid, to, &to_ids[0], source, &source_ids[0], n, block, batch, op)
    return code

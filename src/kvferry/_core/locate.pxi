from cpython.bytes cimport PyBytes_FromStringAndSize

cdef extern from "locate.h" nogil:
    ctypedef struct kvf_sites:
        uint8_t *answers
        uint64_t *offsets
        uint64_t *lengths
        size_t n
    ctypedef struct kvf_finds:
        int64_t *used
        int64_t *left
        uint64_t *generations
        size_t used_n, left_n, bytes
    enum: KVF_BRIEF, KVF_CARGO
    uint64_t kvf_locate_all(const kvf_index *, const kvf_digest *, const uint64_t *moments,
                            uint64_t now, kvf_sites *, kvf_finds *)
    void kvf_load_cargo(const kvf_sites *, const char *pool, char *to)
    bint kvf_sites_sound(const kvf_sites *, uint64_t pool, uint64_t bytes)
    size_t kvf_unload_cargo(kvf_sites *, const char *, char **, const uint64_t *, int64_t *left)


BRIEF, CARGO = KVF_BRIEF, KVF_CARGO


cdef object column(size_t bytes):
    """Bytes to be filled before anybody sees them."""
    return PyBytes_FromStringAndSize(NULL, bytes)


cdef kvf_sites sites_at(const uint8_t[::1] answers, const uint64_t[::1] offsets,
                        const uint64_t[::1] lengths) except *:
    cdef size_t n = answers.shape[0]
    check_lengths(n, offsets.shape[0])
    check_lengths(n, lengths.shape[0])
    cdef kvf_sites sites = [<uint8_t *>&answers[0], <uint64_t *>words_at(offsets),
                            <uint64_t *>words_at(lengths), n]
    return sites


def locate(Index index not None, const uint64_t[:, ::1] digests not None,
           const uint64_t[::1] moments not None, uint64_t now, uintptr_t pool):
    cdef size_t n = digests.shape[0]
    cdef uint64_t bytes
    check_lengths(kvf_index_slots(&index.index), moments.shape[0])
    answers, offsets, lengths = column(n), column(8 * n), column(8 * n)
    cdef kvf_sites sites = [<uint8_t *>PyBytes_AS_STRING(answers),
                            <uint64_t *>PyBytes_AS_STRING(offsets),
                            <uint64_t *>PyBytes_AS_STRING(lengths), n]
    books = _numpy.empty((3, n), "i8")
    cdef int64_t[:, ::1] rows = books
    cdef kvf_finds finds = [&rows[0, 0], &rows[1, 0], <uint64_t *>&rows[2, 0], 0, 0, 0]
    state = let_others_run(n)
    bytes = kvf_locate_all(&index.index, digests_at(digests), words_at(moments), now, &sites, &finds)
    run_again(state)
    cargo = column(bytes)
    cdef char *to = PyBytes_AS_STRING(cargo)
    state = let_others_run(n, bytes)
    kvf_load_cargo(&sites, <const char *>pool, to)
    run_again(state)
    used, left, generations = books
    return (answers, offsets, lengths, cargo, used[:finds.used_n], left[:finds.left_n],
            generations[:finds.left_n].view("u8"), finds.bytes)


def sound(const uint8_t[::1] answers not None, const uint64_t[::1] offsets not None,
          const uint64_t[::1] lengths not None, uint64_t cargo, uint64_t pool):
    cdef kvf_sites sites = sites_at(answers, offsets, lengths)
    return kvf_sites_sound(&sites, pool, cargo)


cdef object unload(kvf_sites *sites, bytes cargo, tuple outs, Py_buffer *buffers, char **to,
                   uint64_t *rooms):
    cdef size_t i, n
    cdef const char *begin = PyBytes_AS_STRING(cargo)
    found = _numpy.empty(sites.n, "i8")
    cdef int64_t[::1] left = found
    for i in range(sites.n):
        if outs[i] is not None:
            target_of(outs[i], &buffers[i])
            # No bytes are at no address, which is that of no buffer.
            to[i], rooms[i] = <char *>buffers[i].buf or <char *>sites, buffers[i].len
    state = let_others_run(sites.n, PyBytes_GET_SIZE(cargo))
    n = kvf_unload_cargo(sites, begin, to, rooms, &left[0])
    run_again(state)
    return found[:n]


def unload_into(uint8_t[::1] answers not None, const uint64_t[::1] offsets not None,
                const uint64_t[::1] lengths not None, bytes cargo not None, outs):
    cdef kvf_sites sites = sites_at(answers, offsets, lengths)
    cdef tuple owned = tuple(outs)
    cdef size_t n = len(owned)
    check_lengths(sites.n, n)
    if not kvf_sites_sound(&sites, ~<uint64_t>0, PyBytes_GET_SIZE(cargo)):
        raise ValueError("these columns do not belong to this cargo")
    cdef Py_buffer *buffers = <Py_buffer *>calloc(n + 1, sizeof(Py_buffer))
    cdef uint64_t *places = <uint64_t *>calloc(2 * n + 1, sizeof(uint64_t))
    try:
        if buffers == NULL or places == NULL:
            raise MemoryError
        return unload(&sites, cargo, owned, buffers, <char **>places, places + n)
    finally:
        release_all(buffers, n)
        free(places)

cdef extern from "piecewise.h" nogil:
    void kvf_scatter_all(kvf_index_reader *, const kvf_digest *, const kvf_pieces *,
                         const uint64_t *rooms, uint64_t run, uint8_t *codes, uint64_t *lengths)
    void kvf_pick_all(kvf_index_reader *, const kvf_digest *, const kvf_pieces *, uint64_t run,
                      uint8_t *codes, uint64_t *lengths, int64_t *moved)
    size_t kvf_unload_rows(kvf_sites *, const char *cargo, const kvf_variant *, const kvf_pieces *,
                           const uint64_t *rooms, int64_t *left)
    size_t kvf_unload_parts(const kvf_sites *, const char *cargo, const kvf_variant *,
                            const kvf_pieces *, int64_t *moved, int64_t *left)


def scatter_all(IndexReader reader not None, keys, Rows rows not None):
    cdef uint64_t[:, ::1] digests = digest_all(reader.secret, keys)
    cdef size_t n = rows.pieces.n
    check_lengths(n, digests.shape[0])
    statuses, lengths = _numpy.empty(n, "u1"), _numpy.empty(n, "u8")
    cdef uint8_t[::1] codes = statuses
    cdef uint64_t[::1] each = lengths
    cdef const uint64_t[::1] rooms = rows.sizes
    state = let_others_run(n, rows.bytes)
    kvf_scatter_all(&reader.reader, digests_at(digests), &rows.pieces, words_at(rooms), rows.bytes,
                    &codes[0], &each[0])
    run_again(state)
    return statuses, lengths


def pick_all(IndexReader reader not None, keys, Rows rows not None,
             const uint64_t[::1] offsets not None):
    cdef uint64_t[:, ::1] digests = digest_all(reader.secret, keys)
    cdef size_t n = rows.pieces.n
    cdef kvf_pieces p = rows.at(offsets)
    check_lengths(n, digests.shape[0])
    statuses, lengths = _numpy.empty(n, "u1"), _numpy.empty(n, "u8")
    moved = _numpy.full(len(rows.lengths), KVF_BEYOND, "i8")
    cdef uint8_t[::1] codes = statuses
    cdef uint64_t[::1] each = lengths
    cdef int64_t[::1] bytes = moved
    state = let_others_run(n, rows.bytes)
    kvf_pick_all(&reader.reader, digests_at(digests), &p, rows.bytes, &codes[0], &each[0], &bytes[0])
    run_again(state)
    return statuses, lengths, moved


cdef kvf_sites sites_for(uint8_t[::1] answers, const uint64_t[::1] offsets,
                         const uint64_t[::1] lengths, bytes cargo, size_t rows) except *:
    cdef kvf_sites sites = sites_at(answers, offsets, lengths)
    check_lengths(sites.n, rows)
    if not kvf_sites_sound(&sites, ~<uint64_t>0, PyBytes_GET_SIZE(cargo)):
        raise ValueError("these columns do not belong to this cargo")
    return sites


def unload_rows(uint8_t[::1] answers not None, const uint64_t[::1] offsets not None,
                const uint64_t[::1] lengths not None, bytes cargo not None, Rows rows not None):
    cdef kvf_sites sites = sites_for(answers, offsets, lengths, cargo, rows.pieces.n)
    cdef const uint64_t[::1] rooms = rows.sizes
    cdef const char *begin = PyBytes_AS_STRING(cargo)
    cdef size_t n
    found = _numpy.empty(sites.n, "i8")
    cdef int64_t[::1] left = found
    state = let_others_run(sites.n, PyBytes_GET_SIZE(cargo))
    n = kvf_unload_rows(&sites, begin, kvf_best_nt(), &rows.pieces, words_at(rooms), &left[0])
    run_again(state)
    return found[:n]


def unload_parts(uint8_t[::1] answers not None, const uint64_t[::1] offsets not None,
                 const uint64_t[::1] lengths not None, bytes cargo not None, Rows rows not None,
                 const uint64_t[::1] parts not None, int64_t[::1] moved not None):
    cdef kvf_sites sites = sites_for(answers, offsets, lengths, cargo, rows.pieces.n)
    cdef kvf_pieces p = rows.at(parts)
    cdef const char *begin = PyBytes_AS_STRING(cargo)
    cdef size_t n
    check_lengths(len(rows.lengths), moved.shape[0])
    found = _numpy.empty(sites.n, "i8")
    cdef int64_t[::1] left = found
    state = let_others_run(sites.n, PyBytes_GET_SIZE(cargo))
    n = kvf_unload_parts(&sites, begin, kvf_best_nt(), &p, &moved[0], &left[0])
    run_again(state)
    return found[:n]

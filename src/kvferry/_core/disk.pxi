cdef extern from "disk.h" nogil:
    const uint64_t KVF_BLOCK
    enum: KVF_DISK_OK, KVF_DISK_CORRUPT, KVF_DISK_MISSING, KVF_DISK_FAILED
    ctypedef struct kvf_records:
        const int32_t *fds
        const uint64_t *offsets
        const uint64_t *lengths
        const uint64_t *addresses
        const uint32_t *crcs
        size_t n
    uint32_t kvf_crc32c(uint32_t before, const void *, size_t)
    void kvf_crc_all(const uint64_t *addresses, const uint64_t *lengths, size_t, uint32_t *)
    bint kvf_stage_fits(const uint64_t *ats, const uint64_t *lengths, size_t, uint64_t start, uint64_t room)
    void kvf_stage(char *run, uint64_t start, uint64_t room, const uint64_t *ats, const uint64_t *lengths,
                   const uint64_t *addresses, size_t, uint32_t *)
    void kvf_disk_read(const kvf_records *, void *scratch, uint64_t room, uint8_t *)


DISK_OK, DISK_CORRUPT = KVF_DISK_OK, KVF_DISK_CORRUPT
DISK_MISSING, DISK_FAILED = KVF_DISK_MISSING, KVF_DISK_FAILED


def crc32c(const uint8_t[::1] data, uint32_t before=0):
    cdef const uint8_t *at = &data[0] if data.shape[0] else NULL
    cdef size_t n = data.shape[0]
    if at != NULL:
        with nogil:
            before = kvf_crc32c(before, at, n)
    return before


def crc32c_all(const uint64_t[::1] addresses, const uint64_t[::1] lengths):
    cdef size_t n = addresses.shape[0]
    check_lengths(n, lengths.shape[0])
    found = _numpy.empty(n, "u4")
    cdef uint32_t[::1] crcs = found
    if n:
        with nogil:
            kvf_crc_all(&addresses[0], &lengths[0], n, &crcs[0])
    return found


def stage(uintptr_t run, uint64_t start, uint64_t room, const uint64_t[::1] ats,
          const uint64_t[::1] lengths, const uint64_t[::1] addresses):
    cdef size_t n = ats.shape[0]
    check_lengths(n, lengths.shape[0])
    check_lengths(n, addresses.shape[0])
    if not kvf_stage_fits(words_at(ats), words_at(lengths), n, start, room):
        raise ValueError("values lie in ascending order, apart, and within the run")
    found = _numpy.empty(n, "u4")
    cdef uint32_t[::1] crcs = found
    cdef const uint64_t *at = words_at(ats)
    cdef const uint64_t *each = words_at(lengths)
    cdef const uint64_t *source = words_at(addresses)
    cdef uint32_t *out = &crcs[0] if n else NULL
    with nogil:
        kvf_stage(<char *>run, start, room, at, each, source, n, out)
    return found


def disk_read(const int32_t[::1] fds, const uint64_t[::1] offsets, const uint64_t[::1] lengths,
              const uint32_t[::1] crcs, const uint64_t[::1] addresses, uintptr_t scratch, uint64_t room):
    cdef size_t n = fds.shape[0]
    check_lengths(n, offsets.shape[0])
    check_lengths(n, lengths.shape[0])
    check_lengths(n, crcs.shape[0])
    check_lengths(n, addresses.shape[0])
    if scratch % KVF_BLOCK or room % KVF_BLOCK or room < 2 * KVF_BLOCK:
        raise ValueError("scratch memory is of whole blocks, two at least")
    found = _numpy.empty(n, "u1")
    if not n:
        return found
    cdef uint8_t[::1] verdicts = found
    cdef kvf_records r
    r.fds, r.offsets, r.lengths = &fds[0], &offsets[0], &lengths[0]
    r.crcs, r.addresses, r.n = &crcs[0], &addresses[0], n
    with nogil:
        kvf_disk_read(&r, <void *>scratch, room, &verdicts[0])
    return found

cdef extern from "bell.h" nogil:
    ctypedef struct kvf_bell:
        pass

cdef extern from "errand.h" nogil:
    ctypedef struct kvf_desk:
        pass
    ctypedef struct kvf_errand:
        kvf_desk *desk
        kvf_bell *bell
        kvf_commits commits
        size_t n
        uint8_t *answers
    enum: KVF_TRAYS, KVF_TRAY_RECORDS
    ctypedef enum kvf_desk_outcome:
        KVF_DESK_DONE
        KVF_DESK_TIMED_OUT
        KVF_DESK_UNKNOWN
        KVF_DESK_BUSY
    kvf_desk *kvf_desk_at(uintptr_t base, uint64_t length)
    bint kvf_errand_run(kvf_errand *, uint64_t until)
    kvf_desk_outcome kvf_errand_end(kvf_errand *, size_t *answered)


DESK_DONE, DESK_TIMED_OUT = KVF_DESK_DONE, KVF_DESK_TIMED_OUT
DESK_UNKNOWN, DESK_BUSY = KVF_DESK_UNKNOWN, KVF_DESK_BUSY
TRAYS, TRAY_RECORDS = KVF_TRAYS, KVF_TRAY_RECORDS

# So often a thread that waits lets Python look for signals.
cdef enum: SIGNALS_NS = 50000000


cdef inline uint64_t until_signals(uint64_t deadline) noexcept:
    return min(deadline, kvf_now() + SIGNALS_NS)


cdef kvf_desk *desk_at(uintptr_t address, uint64_t length) except NULL:
    cdef kvf_desk *desk = kvf_desk_at(address, length)
    if desk == NULL:
        raise ValueError(f"a desk begins at a cache line and has {sizeof(kvf_desk)} bytes")
    return desk


cdef kvf_bell *bell_at(uintptr_t address) except NULL:
    if address == 0 or address % 4:
        raise ValueError("a bell is a word of 4 bytes at a multiple of 4")
    return <kvf_bell *>address


cdef kvf_commits columns_at(size_t n, const uint64_t[::1] attempts, const uint64_t[:, ::1] digests,
                            const uint64_t[::1] lengths, const uint64_t[::1] attrs,
                            const uint64_t[:, ::1] parents, const uint64_t[::1] expires) except *:
    cdef kvf_commits commits = [words_at(attempts), digest_column_at(digests, n),
                                column_at(lengths, n), column_at(attrs, n),
                                digest_column_at(parents, n), column_at(expires, n)]
    return commits


def desk_bytes():
    return sizeof(kvf_desk)


cdef class Desk:
    cdef kvf_desk *desk
    cdef kvf_bell *bell

    def __cinit__(self, uintptr_t address, uint64_t length, uintptr_t bell):
        self.desk, self.bell = desk_at(address, length), bell_at(bell)

    def commit(self, const uint64_t[::1] attempts not None,
               const uint64_t[:, ::1] digests not None, const uint64_t[::1] lengths not None,
               const uint64_t[::1] attrs=None, const uint64_t[:, ::1] parents=None,
               const uint64_t[::1] expires=None, deadline_ns=None, gone=None):
        cdef size_t n = attempts.shape[0], answered
        cdef uint64_t deadline = deadline_of(deadline_ns)
        cdef kvf_errand errand
        cdef kvf_desk_outcome outcome
        said = _numpy.empty(n, "u1")
        cdef uint8_t[::1] answers = said
        memset(&errand, 0, sizeof(errand))
        errand.desk, errand.bell, errand.n, errand.answers = self.desk, self.bell, n, &answers[0]
        errand.commits = columns_at(n, attempts, digests, lengths, attrs, parents, expires)
        try:
            await_answers(&errand, deadline, gone)
        finally:
            outcome = kvf_errand_end(&errand, &answered)
        return outcome, said[:answered]


cdef int await_answers(kvf_errand *errand, uint64_t deadline, gone) except -1:
    cdef bint done
    cdef uint64_t until
    while True:
        until = until_signals(deadline)
        with nogil:
            done = kvf_errand_run(errand, until)
        if done or kvf_now() >= deadline:
            return 0
        PyErr_CheckSignals()
        if gone is not None and gone():
            return 0

cdef extern from "ledger.h" nogil:
    ctypedef struct kvf_account:
        uint64_t user, extents, bytes
    ctypedef struct kvf_attempts:
        uint64_t *bytes
    ctypedef struct kvf_arrival:
        pass
    ctypedef struct kvf_extent:
        uint64_t offset, room
    ctypedef struct kvf_told:
        kvf_arrival *arrivals
        kvf_extent *returned
        kvf_digest *refused
    ctypedef struct kvf_commit:
        uint64_t attempt
        kvf_digest digest
        uint64_t length, attrs
        kvf_digest parent
        uint64_t expires
    ctypedef struct kvf_commits:
        const uint64_t *attempts
        const kvf_digest *digests
        const uint64_t *lengths
        const uint64_t *attrs
        const kvf_digest *parents
        const uint64_t *expires
    ctypedef struct kvf_ledger:
        kvf_attempts attempts
        kvf_told *told
        const kvf_index *beside
        uint32_t arrivals_n, returned_n, refused_n
    enum: KVF_RESERVED, KVF_QUARANTINED, KVF_ARRIVALS, KVF_NODE
    bint kvf_ledger_make(kvf_ledger *, kvf_index *, uint64_t entries_high)
    void kvf_ledger_free(kvf_ledger *)
    uint8_t kvf_ledger_commit(kvf_ledger *, uint64_t user, const kvf_commit *)
    void kvf_ledger_commit_all(kvf_ledger *, uint64_t, const kvf_commits *, size_t, uint8_t *)
    size_t kvf_ledger_abort_all(kvf_ledger *, uint64_t, const uint64_t *, size_t, uint8_t *,
                                uint64_t *, uint64_t *)
    bint kvf_attempts_open(kvf_attempts *, uint64_t, const uint64_t *, const uint64_t *, size_t,
                           uint64_t *)
    const kvf_account *kvf_account_of(const kvf_attempts *, uint64_t user)
    uint64_t kvf_attempts_left(const kvf_attempts *)
    uint64_t kvf_attempts_count(const kvf_attempts *)
    uint64_t kvf_attempts_quarantine(kvf_attempts *, uint64_t user)
    void kvf_attempts_gone(kvf_attempts *, uint64_t user, uint64_t *, uint64_t *)
    void kvf_attempts_read(const kvf_attempts *, uint64_t *, uint64_t *)


ARRIVALS, NODE = KVF_ARRIVALS, KVF_NODE

# kvf_arrival
ARRIVAL = _numpy.dtype([("generation", "u8"), ("print", "u8"), ("room", "i8"), ("expires", "u8"),
                        ("slot", "u4"), ("parent", "u4")])


cdef const uint64_t *column_at(const uint64_t[::1] words, size_t n) except? NULL:
    if words is None:
        return NULL
    check_lengths(n, words.shape[0])
    return words_at(words)


cdef const kvf_digest *digest_column_at(const uint64_t[:, ::1] digests, size_t n) except? NULL:
    if digests is None:
        return NULL
    check_lengths(n, digests.shape[0])
    return digests_at(digests)


cdef object copied(const void *rows, size_t n, object kind):
    """A new array of n rows."""
    cdef size_t size = n * <size_t>kind.itemsize
    found = _numpy.empty(n, kind)
    cdef uint8_t[::1] to = found.view("u1")
    if size:
        memcpy(&to[0], rows, size)
    return found


# Writes into what its index names, which must be whole as long as this is called: no_gc.
@cython.no_gc
cdef class Ledger:
    cdef kvf_ledger ledger
    cdef readonly Index index
    cdef Index other

    def __cinit__(self, Index index not None, uint64_t entries_high):
        self.index = index
        if not kvf_ledger_make(&self.ledger, &index.index, entries_high):
            raise MemoryError

    def __dealloc__(self):
        kvf_ledger_free(&self.ledger)

    def beside(self, Index other not None):
        self.other = other
        self.ledger.beside = &other.index

    @property
    def reserved(self):
        return self.ledger.attempts.bytes[KVF_RESERVED]

    @property
    def quarantined(self):
        return self.ledger.attempts.bytes[KVF_QUARANTINED]

    @property
    def left(self):
        return kvf_attempts_left(&self.ledger.attempts)

    @property
    def pending(self):
        return self.ledger.arrivals_n + self.ledger.returned_n + self.ledger.refused_n

    def held(self, uint64_t user):
        cdef const kvf_account *account = kvf_account_of(&self.ledger.attempts, user)
        if account == NULL:
            return 0, 0
        return account.extents, account.bytes

    def open(self, uint64_t user, const int64_t[::1] offsets, const int64_t[::1] rooms):
        cdef size_t n = offsets.shape[0]
        check_lengths(n, rooms.shape[0])
        opened = _numpy.empty(n, "u8")
        cdef uint64_t[::1] attempts = opened
        if not kvf_attempts_open(&self.ledger.attempts, user, <const uint64_t *>&offsets[0],
                                 <const uint64_t *>&rooms[0], n, &attempts[0]):
            if n > kvf_attempts_left(&self.ledger.attempts):
                raise OverflowError("more extents reserved at once than there are rows")
            raise MemoryError
        return opened

    def commit(self, uint64_t user, const uint64_t[::1] attempts not None,
               const uint64_t[:, ::1] digests not None, const uint64_t[::1] lengths not None,
               const uint64_t[::1] attrs=None, const uint64_t[:, ::1] parents=None,
               const uint64_t[::1] expires=None):
        cdef size_t n = attempts.shape[0]
        cdef kvf_commits commits = [words_at(attempts), digest_column_at(digests, n),
                                    column_at(lengths, n), column_at(attrs, n),
                                    digest_column_at(parents, n), column_at(expires, n)]
        said = _numpy.empty(n, "u1")
        cdef uint8_t[::1] answers = said
        state = let_others_run(n)
        kvf_ledger_commit_all(&self.ledger, user, &commits, n, &answers[0])
        run_again(state)
        return said

    def abort(self, uint64_t user, const uint64_t[::1] attempts):
        cdef size_t n = attempts.shape[0]
        said, offsets, rooms = _numpy.empty(n, "u1"), _numpy.empty(n, "i8"), _numpy.empty(n, "i8")
        cdef uint8_t[::1] answers = said
        cdef int64_t[::1] starts = offsets
        cdef int64_t[::1] sizes = rooms
        n = kvf_ledger_abort_all(&self.ledger, user, words_at(attempts), n, &answers[0],
                                 <uint64_t *>&starts[0], <uint64_t *>&sizes[0])
        return said, offsets[:n], rooms[:n]

    def quarantine(self, uint64_t user):
        return kvf_attempts_quarantine(&self.ledger.attempts, user)

    def gone(self, uint64_t user):
        cdef size_t n = self.held(user)[0]
        offsets, rooms = _numpy.empty(n, "i8"), _numpy.empty(n, "i8")
        cdef int64_t[::1] starts = offsets
        cdef int64_t[::1] sizes = rooms
        kvf_attempts_gone(&self.ledger.attempts, user, <uint64_t *>&starts[0],
                          <uint64_t *>&sizes[0])
        return offsets, rooms

    def extents(self):
        cdef size_t n = kvf_attempts_count(&self.ledger.attempts)
        offsets, rooms = _numpy.empty(n, "i8"), _numpy.empty(n, "i8")
        cdef int64_t[::1] starts = offsets
        cdef int64_t[::1] sizes = rooms
        kvf_attempts_read(&self.ledger.attempts, <uint64_t *>&starts[0], <uint64_t *>&sizes[0])
        return offsets, rooms

    def arrivals(self):
        cdef kvf_told *told = self.ledger.told
        arrived = copied(told.arrivals, self.ledger.arrivals_n, ARRIVAL)
        returned = copied(told.returned, 2 * self.ledger.returned_n, _numpy.dtype("i8"))
        refused = copied(told.refused, 2 * self.ledger.refused_n, _numpy.dtype("u8"))
        self.ledger.arrivals_n = self.ledger.returned_n = self.ledger.refused_n = 0
        return (arrived, returned[::2].copy(), returned[1::2].copy(), refused.reshape(-1, 2))

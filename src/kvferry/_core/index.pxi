cdef extern from "verbs.h" nogil:
    ctypedef struct kvf_index:
        uint64_t epoch, occupied
    ctypedef struct kvf_object:
        uint64_t generation
        kvf_digest digest
        uint64_t offset, length, room, attrs
    ctypedef struct kvf_rows:
        const kvf_digest *digests
        const uint64_t *generations
        const uint64_t *offsets
        const uint64_t *lengths
        const uint64_t *rooms
        const uint64_t *attrs
    const uint64_t KVF_SLOTS_MAX
    enum: KVF_BUCKET
    enum: KVF_NOWHERE, KVF_FULL, KVF_PRESENT
    uint64_t kvf_index_bytes(uint64_t capacity)
    bint kvf_index_at(kvf_index *, uintptr_t base, uint64_t length, uint64_t epoch)
    uint64_t kvf_index_slots(const kvf_index *)
    void kvf_index_format(kvf_index *)
    void kvf_index_retire(kvf_index *)
    void kvf_index_find_all(const kvf_index *, const kvf_digest *, size_t, int64_t *)
    void kvf_index_rivals(const kvf_index *, const kvf_digest *, size_t, int64_t *)
    void kvf_index_insert_all(kvf_index *, const kvf_rows *, size_t, int64_t *)
    void kvf_index_mark_all(kvf_index *, const int64_t *, const uint64_t *, size_t, uint8_t *)
    void kvf_index_remove_all(kvf_index *, const int64_t *, const uint64_t *, size_t, uint8_t *)
    void kvf_index_read_all(const kvf_index *, const int64_t *, size_t, kvf_object *)
    size_t kvf_index_scan(const kvf_index *, uint64_t, uint64_t, kvf_object *)
    bint kvf_are_generations(const uint64_t *, size_t)


NOWHERE, FULL, PRESENT = KVF_NOWHERE, KVF_FULL, KVF_PRESENT

# kvf_object
ENTRY = _numpy.dtype({
    "names": ["generation", "digest", "offset", "length", "room", "attrs", "slot", "marked"],
    "formats": ["u8", ("u8", 2), "u8", "u8", "u8", "u8", "u4", "?"],
    "offsets": [0, 8, 24, 32, 40, 48, 56, 60],
    "itemsize": 64,
})


cdef int check_lengths(size_t n, size_t other) except -1:
    if n != other:
        raise ValueError("the arrays of a batch have one length")
    return 0


cdef const kvf_digest *digests_at(const uint64_t[:, ::1] digests) except? NULL:
    if digests.shape[1] != 2:
        raise ValueError("digests are rows of two")
    return <const kvf_digest *>&digests[0, 0] if digests.shape[0] else NULL


cdef const uint64_t *words_at(const uint64_t[::1] words) noexcept:
    return &words[0] if words.shape[0] else NULL


def index_bytes(uint64_t capacity):
    if capacity > KVF_SLOTS_MAX:
        raise ValueError(f"an index has at most {KVF_SLOTS_MAX} entries")
    return kvf_index_bytes(capacity)


cdef class Index:
    cdef kvf_index index

    def __cinit__(self, uintptr_t address, uint64_t length, uint64_t epoch):
        if not kvf_index_at(&self.index, address, length, epoch):
            raise ValueError("an index begins at a cache line and has a pair of buckets")
        kvf_index_format(&self.index)

    @property
    def capacity(self):
        return kvf_index_slots(&self.index)

    @property
    def count(self):
        return self.index.occupied

    @property
    def epoch(self):
        return self.index.epoch

    def retire(self):
        kvf_index_retire(&self.index)

    def find(self, const uint64_t[:, ::1] digests):
        cdef const kvf_digest *d = digests_at(digests)
        cdef size_t n = digests.shape[0]
        found = _numpy.empty(n, "i8")
        cdef int64_t[::1] slots = found
        state = let_others_run(n)
        kvf_index_find_all(&self.index, d, n, &slots[0])
        run_again(state)
        return found

    def rivals(self, const uint64_t[:, ::1] digests):
        cdef const kvf_digest *d = digests_at(digests)
        found = _numpy.empty((digests.shape[0], 2 * KVF_BUCKET), "i8")
        cdef int64_t[:, ::1] slots = found
        kvf_index_rivals(&self.index, d, digests.shape[0], &slots[0, 0])
        return found

    def insert(self, const uint64_t[:, ::1] digests, const uint64_t[::1] generations,
               const uint64_t[::1] offsets, const uint64_t[::1] lengths,
               const uint64_t[::1] rooms, const uint64_t[::1] attrs):
        cdef size_t n = digests.shape[0]
        for other in (generations.shape[0], offsets.shape[0], lengths.shape[0], rooms.shape[0],
                      attrs.shape[0]):
            check_lengths(n, other)
        found = _numpy.empty(n, "i8")
        cdef int64_t[::1] slots = found
        cdef kvf_rows rows = [digests_at(digests), words_at(generations), words_at(offsets),
                              words_at(lengths), words_at(rooms), words_at(attrs)]
        if not kvf_are_generations(rows.generations, n):
            raise ValueError("a generation is from 1 to 2**63 - 1")
        state = let_others_run(n)
        kvf_index_insert_all(&self.index, &rows, n, &slots[0])
        run_again(state)
        return found

    def mark(self, const int64_t[::1] slots, const uint64_t[::1] generations):
        cdef size_t n = slots.shape[0]
        check_lengths(n, generations.shape[0])
        answer = _numpy.empty(n, "u1")
        cdef uint8_t[::1] done = answer
        state = let_others_run(n)
        kvf_index_mark_all(&self.index, &slots[0], &generations[0], n, &done[0])
        run_again(state)
        return answer.view("?")

    def remove(self, const int64_t[::1] slots, const uint64_t[::1] generations):
        cdef size_t n = slots.shape[0]
        check_lengths(n, generations.shape[0])
        answer = _numpy.empty(n, "u1")
        cdef uint8_t[::1] done = answer
        state = let_others_run(n)
        kvf_index_remove_all(&self.index, &slots[0], &generations[0], n, &done[0])
        run_again(state)
        return answer.view("?")

    def read(self, const int64_t[::1] slots):
        cdef size_t n = slots.shape[0]
        found = _numpy.empty((n, 8), "u8")
        cdef uint64_t[:, ::1] rows = found
        state = let_others_run(n)
        kvf_index_read_all(&self.index, &slots[0], n, <kvf_object *>&rows[0, 0])
        run_again(state)
        return found.view(ENTRY)[:, 0]

    def scan(self, uint64_t start, uint64_t count):
        cdef uint64_t slots = kvf_index_slots(&self.index)
        cdef size_t n = min(count, slots - min(start, slots))
        found = _numpy.empty((n, 8), "u8")
        cdef uint64_t[:, ::1] rows = found
        state = let_others_run(n)
        n = kvf_index_scan(&self.index, start, n, <kvf_object *>&rows[0, 0])
        run_again(state)
        return found[:n].view(ENTRY)[:, 0]

cdef extern from "leases.h" nogil:
    ctypedef struct kvf_leases:
        uint64_t n
    bint kvf_leases_at(kvf_leases *, uintptr_t base, uint64_t length)
    void kvf_sweep_begin(kvf_index *)
    void kvf_sweep_end(kvf_index *)
    void kvf_leases_held(const kvf_leases *, const int64_t *, size_t, uint64_t now, uint64_t longest,
                         uint8_t *held)
    void kvf_leases_clear(const kvf_leases *, const int64_t *, size_t)
    uint64_t kvf_since_boot()
    size_t kvf_lease_all(const kvf_index_reader *, const kvf_leases *, const kvf_digest *, size_t,
                         uint64_t now, uint64_t until, uint8_t *)


cdef kvf_leases leases_at(uintptr_t address, uint64_t length) except *:
    cdef kvf_leases leases
    if not kvf_leases_at(&leases, address, length):
        raise ValueError("leases begin at a word")
    return leases


def leases_bytes(uint64_t slots):
    return 8 * slots


# Writes to the head of its index, which must be whole as long as this is called: no_gc.
@cython.no_gc
cdef class SharedLeases:
    cdef kvf_leases leases
    cdef Index index

    def __cinit__(self, Index index not None, uintptr_t address, uint64_t length):
        self.index = index
        self.leases = leases_at(address, length)
        if self.leases.n < kvf_index_slots(&index.index):
            raise ValueError("there is a word for each slot of the index")

    def begin(self):
        kvf_sweep_begin(&self.index.index)

    def end(self):
        kvf_sweep_end(&self.index.index)

    def held(self, const int64_t[::1] slots, uint64_t now, uint64_t longest):
        cdef size_t n = slots.shape[0]
        answer = _numpy.empty(n, "u1")
        cdef uint8_t[::1] held = answer
        state = let_others_run(n)
        kvf_leases_held(&self.leases, &slots[0], n, now, longest, &held[0])
        run_again(state)
        return answer.view("?")

    def clear(self, const int64_t[::1] slots):
        kvf_leases_clear(&self.leases, &slots[0], slots.shape[0])


# Uses what its reader holds, which must be whole as long as this is called: no_gc.
@cython.no_gc
cdef class Leasing:
    cdef kvf_leases leases
    cdef IndexReader reader
    cdef uint64_t longest

    def __cinit__(self, IndexReader reader not None, uintptr_t address, uint64_t length,
                  uint64_t longest):
        self.reader, self.longest = reader, longest
        self.leases = leases_at(address, length)

    def take(self, keys, uint64_t span):
        cdef uint64_t[:, ::1] digests = digest_all(self.reader.secret, keys)
        cdef const kvf_digest *d = digests_at(digests)
        cdef size_t n = digests.shape[0], left
        cdef uint64_t now = kvf_since_boot(), until = now + min(span, self.longest)
        found = _numpy.empty(n, "u1")
        cdef uint8_t[::1] codes = found
        state = let_others_run(n)
        left = kvf_lease_all(&self.reader.reader, &self.leases, d, n, now, until, &codes[0])
        run_again(state)
        return found, left

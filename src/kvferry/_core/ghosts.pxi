cdef extern from "ghosts.h" nogil:
    ctypedef struct kvf_ghost_bucket:
        pass
    ctypedef struct kvf_ghosts:
        kvf_ghost_bucket *buckets
        uint64_t mask
    uint64_t kvf_ghost_buckets(uint64_t count)
    void kvf_ghosts_tell(kvf_ghosts *, const uint64_t *, const uint32_t *, size_t)
    void kvf_ghosts_recall(const kvf_ghosts *, const uint64_t *, size_t, uint32_t *)
    void kvf_ghosts_recent(const kvf_ghosts *, const uint64_t *, size_t, uint32_t now, uint32_t most,
                           uint8_t *)


cdef class Ghosts:
    cdef kvf_ghosts ghosts

    def __cinit__(self, uint64_t count):
        cdef uint64_t buckets = kvf_ghost_buckets(count)
        self.ghosts.mask = buckets - 1
        self.ghosts.buckets = <kvf_ghost_bucket *>calloc(buckets, sizeof(kvf_ghost_bucket))
        if self.ghosts.buckets == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.ghosts.buckets)

    def tell(self, const uint64_t[::1] prints, const uint32_t[::1] words):
        check_lengths(prints.shape[0], words.shape[0])
        kvf_ghosts_tell(&self.ghosts, &prints[0], &words[0], prints.shape[0])

    def recall(self, const uint64_t[::1] prints):
        found = _numpy.empty(prints.shape[0], "u4")
        cdef uint32_t[::1] words = found
        kvf_ghosts_recall(&self.ghosts, &prints[0], prints.shape[0], &words[0])
        return found

    def recent(self, const uint64_t[::1] prints, uint32_t now, uint32_t most):
        answer = _numpy.empty(prints.shape[0], "u1")
        cdef uint8_t[::1] recent = answer
        kvf_ghosts_recent(&self.ghosts, &prints[0], prints.shape[0], now, most, &recent[0])
        return answer.view("?")

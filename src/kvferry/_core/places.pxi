from libc.stdint cimport uint16_t

cdef extern from "places.h" nogil:
    ctypedef struct kvf_places:
        uint64_t rows, limit
        uint64_t held[65536]
    ctypedef struct kvf_placed:
        kvf_digest digest
    enum: KVF_PLACES, KVF_SHARDS
    enum: KVF_PLACE_ADDED, KVF_PLACE_KNOWN, KVF_PLACE_CROWDED, KVF_PLACE_FULL, KVF_PLACE_DROPPED
    enum: KVF_PLACE_UNKNOWN
    bint kvf_places_make(kvf_places *, uint64_t limit, kvf_secret seed)
    void kvf_places_free(kvf_places *)
    void kvf_places_tell_all(kvf_places *, uint16_t, const kvf_digest *, const uint8_t *, size_t,
                             uint8_t *)
    void kvf_places_find_all(kvf_places *, const kvf_digest *, size_t, uint16_t *)
    uint64_t kvf_shard_forget(kvf_places *, unsigned, uint16_t)
    size_t kvf_shard_tell(const kvf_places *, unsigned, bint, uint64_t *, size_t, kvf_placed *)
    uint64_t kvf_places_lacking(const kvf_places *)
    uint64_t kvf_places_idle(const kvf_places *)
    uint64_t kvf_places_bytes(const kvf_places *)


PLACE_ADDED, PLACE_KNOWN = KVF_PLACE_ADDED, KVF_PLACE_KNOWN
PLACE_CROWDED, PLACE_FULL = KVF_PLACE_CROWDED, KVF_PLACE_FULL
PLACE_DROPPED, PLACE_UNKNOWN = KVF_PLACE_DROPPED, KVF_PLACE_UNKNOWN
PLACES, SHARDS = KVF_PLACES, KVF_SHARDS

# kvf_placed
PLACED = _numpy.dtype({
    "names": ["digest", "places", "wanted"],
    "formats": [("u8", 2), ("u2", 4), "u8"],
    "offsets": [0, 16, 24],
    "itemsize": 32,
})


cdef class Places:
    cdef kvf_places *places

    def __cinit__(self, uint64_t limit, bytes seed not None):
        cdef kvf_secret secret = secret_of(seed)
        self.places = <kvf_places *>calloc(1, sizeof(kvf_places))
        if self.places == NULL or not kvf_places_make(self.places, limit, secret):
            raise MemoryError

    def __dealloc__(self):
        if self.places != NULL:
            kvf_places_free(self.places)
            free(self.places)

    @property
    def rows(self):
        return self.places.rows

    @property
    def idle(self):
        return kvf_places_idle(self.places)

    @property
    def lacking(self):
        return kvf_places_lacking(self.places)

    @property
    def memory(self):
        return kvf_places_bytes(self.places)

    def held(self, uint16_t node):
        return self.places.held[node]

    def tell(self, uint16_t node, const uint64_t[:, ::1] digests, const uint8_t[::1] wanted):
        cdef const kvf_digest *d = digests_at(digests)
        cdef size_t n = digests.shape[0]
        check_node(node)
        check_lengths(n, wanted.shape[0])
        answer = _numpy.empty(n, "u1")
        cdef uint8_t[::1] codes = answer
        state = let_others_run(n)
        kvf_places_tell_all(self.places, node, d, &wanted[0], n, &codes[0])
        run_again(state)
        return answer

    def find(self, const uint64_t[:, ::1] digests):
        cdef const kvf_digest *d = digests_at(digests)
        cdef size_t n = digests.shape[0]
        found = _numpy.empty((n, KVF_PLACES), "u2")
        cdef uint16_t[:, ::1] places = found
        state = let_others_run(n)
        kvf_places_find_all(self.places, d, n, &places[0, 0])
        run_again(state)
        return found

    def forget(self, uint16_t node, unsigned shard):
        check_node(node)
        check_shard(shard)
        state = let_others_run(self.places.rows)
        cdef uint64_t n = kvf_shard_forget(self.places, shard, node)
        run_again(state)
        return n

    def scan(self, unsigned shard, uint64_t start, size_t most, bint lacking=False):
        check_shard(shard)
        most = min(most, self.places.rows)
        found = _numpy.empty((most, 4), "u8")
        cdef uint64_t[:, ::1] told = found
        state = let_others_run(self.places.rows)
        most = kvf_shard_tell(self.places, shard, lacking, &start, most, <kvf_placed *>&told[0, 0])
        run_again(state)
        return start, found[:most].view(PLACED)[:, 0]


cdef int check_node(uint16_t node) except -1:
    if node == 0:
        raise ValueError("nodes are numbered from 1")
    return 0


cdef int check_shard(unsigned shard) except -1:
    if shard >= KVF_SHARDS:
        raise ValueError(f"a shard is from 0 to {KVF_SHARDS - 1}")
    return 0

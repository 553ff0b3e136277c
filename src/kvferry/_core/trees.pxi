cdef extern from "trees.h" nogil:
    ctypedef struct kvf_trees:
        kvf_queue queue
        uint64_t known
    const uint64_t KVF_PATH
    bint kvf_trees_make(kvf_trees *, uint64_t slots)
    void kvf_trees_free(kvf_trees *)
    void kvf_trees_insert(kvf_trees *, const int64_t *, const int64_t *, size_t)
    void kvf_trees_remove(kvf_trees *, const int64_t *, size_t)
    void kvf_trees_touch(kvf_trees *, const int64_t *, size_t)
    void kvf_trees_kin(const kvf_trees *, const int64_t *, size_t, int64_t *, int64_t *)
    size_t kvf_trees_first(const kvf_trees *, const int64_t *, size_t)
    size_t kvf_trees_members(const kvf_trees *, int64_t *)
    size_t kvf_trees_ahead(kvf_trees *, size_t most, int64_t *)
    void kvf_trees_tell(kvf_trees *, const int64_t *, const uint8_t *, size_t)
    void kvf_trees_leave(kvf_trees *, const int64_t *, int64_t, int64_t *, size_t *, int64_t *,
                         size_t *)
    void kvf_trees_forget(kvf_trees *, const int64_t *, size_t)


cdef class Trees:
    cdef kvf_trees trees

    def __cinit__(self, uint64_t slots):
        if not kvf_trees_make(&self.trees, slots):
            raise MemoryError

    def __dealloc__(self):
        kvf_trees_free(&self.trees)

    def insert(self, const int64_t[::1] slots, const int64_t[::1] parents):
        check_lengths(slots.shape[0], parents.shape[0])
        check_slots(slots, self.trees.queue.slots)
        check_slots(parents, self.trees.queue.slots)
        kvf_trees_insert(&self.trees, &slots[0], &parents[0], slots.shape[0])

    def remove(self, const int64_t[::1] slots):
        check_slots(slots, self.trees.queue.slots)
        kvf_trees_remove(&self.trees, &slots[0], slots.shape[0])

    def touch(self, const int64_t[::1] slots):
        check_slots(slots, self.trees.queue.slots)
        kvf_trees_touch(&self.trees, &slots[0], slots.shape[0])

    def kin(self, const int64_t[::1] slots):
        check_slots(slots, self.trees.queue.slots)
        above, below = _numpy.empty(slots.shape[0], "i8"), _numpy.empty(slots.shape[0], "i8")
        cdef int64_t[::1] parents = above, children = below
        kvf_trees_kin(&self.trees, &slots[0], slots.shape[0], &parents[0], &children[0])
        return above, below

    def first(self, const int64_t[::1] slots):
        check_slots(slots, self.trees.queue.slots)
        cdef size_t at = kvf_trees_first(&self.trees, &slots[0], slots.shape[0])
        return _numpy.asarray(slots[at:at + 1])

    def members(self):
        found = _numpy.empty(self.trees.queue.slots, "i8")
        cdef int64_t[::1] slots = found
        return found[:kvf_trees_members(&self.trees, &slots[0])].copy()

    def ahead(self, uint64_t most):
        most = max(KVF_PATH, min(most, self.trees.queue.slots))
        found = _numpy.empty(most, "i8")
        cdef int64_t[::1] slots = found
        return found[:kvf_trees_ahead(&self.trees, most, &slots[0])]

    def leave(self, const int64_t[::1] slots, const uint8_t[::1] stays, const int64_t[::1] sizes,
              int64_t needed):
        check_lengths(slots.shape[0], stays.shape[0])
        check_lengths(sizes.shape[0], self.trees.queue.slots)
        check_slots(slots, self.trees.queue.slots)
        kvf_trees_tell(&self.trees, &slots[0], &stays[0], slots.shape[0])
        cdef size_t left = 0, stayed = 0
        gone, kept = _numpy.empty((2, self.trees.known), "i8")
        cdef int64_t[::1] out = gone, still = kept
        kvf_trees_leave(&self.trees, &sizes[0], needed, &out[0], &left, &still[0], &stayed)
        return gone[:left], kept[:stayed]

    def forget(self, const int64_t[::1] asked, const int64_t[::1] kept):
        check_slots(asked, self.trees.queue.slots)
        check_slots(kept, self.trees.queue.slots)
        kvf_trees_forget(&self.trees, &asked[0], asked.shape[0])
        kvf_queue_push_all(&self.trees.queue, &kept[0], kept.shape[0])

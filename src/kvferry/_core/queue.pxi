cdef extern from "queue.h" nogil:
    ctypedef struct kvf_queue:
        uint64_t slots, head, tail
    bint kvf_queue_make(kvf_queue *, uint64_t slots)
    void kvf_queue_free(kvf_queue *)
    bint kvf_are_slots(const int64_t *, size_t, uint64_t limit)
    void kvf_queue_push_all(kvf_queue *, const int64_t *, size_t)
    void kvf_queue_move_all(kvf_queue *, const int64_t *, size_t)
    void kvf_queue_drop_all(kvf_queue *, const int64_t *, size_t)
    void kvf_queue_held(const kvf_queue *, const int64_t *, size_t, uint8_t *)
    size_t kvf_queue_peek(const kvf_queue *, uint64_t *, size_t most, int64_t *)
    size_t kvf_queue_pop(kvf_queue *, size_t most, int64_t *)
    bint kvf_queue_give_back(kvf_queue *, const int64_t *, size_t)
    size_t kvf_queue_first(const kvf_queue *, const int64_t *, size_t)


cdef int check_slots(const int64_t[::1] slots, uint64_t limit) except -1:
    if not kvf_are_slots(&slots[0], slots.shape[0], limit):
        raise ValueError(f"a slot is from 0 to {limit - 1}")
    return 0


cdef class Queue:
    cdef kvf_queue queue

    def __cinit__(self, uint64_t slots):
        if not kvf_queue_make(&self.queue, slots):
            raise MemoryError

    def __dealloc__(self):
        kvf_queue_free(&self.queue)

    def push(self, const int64_t[::1] slots):
        check_slots(slots, self.queue.slots)
        kvf_queue_push_all(&self.queue, &slots[0], slots.shape[0])

    def move(self, const int64_t[::1] slots):
        check_slots(slots, self.queue.slots)
        kvf_queue_move_all(&self.queue, &slots[0], slots.shape[0])

    def drop(self, const int64_t[::1] slots):
        check_slots(slots, self.queue.slots)
        kvf_queue_drop_all(&self.queue, &slots[0], slots.shape[0])

    def holds(self, const int64_t[::1] slots):
        check_slots(slots, self.queue.slots)
        answer = _numpy.empty(slots.shape[0], "u1")
        cdef uint8_t[::1] held = answer
        kvf_queue_held(&self.queue, &slots[0], slots.shape[0], &held[0])
        return answer.view("?")

    def pop(self, uint64_t most):
        found = _numpy.empty(min(most, self.queue.tail - self.queue.head), "i8")
        cdef int64_t[::1] slots = found
        return found[:kvf_queue_pop(&self.queue, slots.shape[0], &slots[0])]

    def give_back(self, const int64_t[::1] slots):
        check_slots(slots, self.queue.slots)
        if not kvf_queue_give_back(&self.queue, &slots[0], slots.shape[0]):
            raise ValueError("so many were not popped")

    def first(self, const int64_t[::1] slots):
        check_slots(slots, self.queue.slots)
        cdef size_t at = kvf_queue_first(&self.queue, &slots[0], slots.shape[0])
        return _numpy.asarray(slots[at:at + 1])

    def members(self):
        cdef uint64_t start = self.queue.head
        found = _numpy.empty(self.queue.tail - start, "i8")
        cdef int64_t[::1] slots = found
        return found[:kvf_queue_peek(&self.queue, &start, slots.shape[0], &slots[0])]

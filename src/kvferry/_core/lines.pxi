cdef extern from "lines.h" nogil:
    ctypedef struct kvf_lines:
        uint64_t n
    enum: KVF_TOUCHES, KVF_MISSES, KVF_COUNTERS
    uint64_t kvf_lines_bytes(uint64_t)
    bint kvf_lines_at(kvf_lines *, uintptr_t base, uint64_t length)
    void kvf_scan_hazards(const kvf_lines *, const uint64_t *, size_t, uint8_t *)
    size_t kvf_drain_touches(kvf_lines *, uint64_t *)
    size_t kvf_drain_misses(kvf_lines *, uint64_t *)
    bint kvf_anything_touched(const kvf_lines *)
    uint64_t kvf_leave_lines(kvf_lines *)
    void kvf_read_counters(const kvf_lines *, uint64_t *)
    ctypedef struct kvf_claimed_line:
        pass
    size_t kvf_claimed(const kvf_lines *, kvf_claimed_line *)


TOUCHES, MISSES = KVF_TOUCHES, KVF_MISSES
COUNTERS = ("hits", "bytes", "absent", "retried", "too_small", "changing", "no_line", "corrupt")

TOUCH = _numpy.dtype([("generation", "u4"), ("slot", "u4")])
CLAIMED = _numpy.dtype([("line", "u8"), ("generation", "u8"), ("since", "u8"), ("owner", "u8")])


def lines_bytes(uint64_t lines):
    return kvf_lines_bytes(lines)


cdef class Lines:
    cdef kvf_lines lines

    def __cinit__(self, uintptr_t address, uint64_t length):
        if not kvf_lines_at(&self.lines, address, length):
            raise ValueError("hazard lines begin at a cache line, and are one at least")

    def __len__(self):
        return self.lines.n

    def leave(self):
        return kvf_leave_lines(&self.lines)

    def held(self, const uint64_t[::1] generations):
        cdef size_t n = generations.shape[0]
        answer = _numpy.zeros(n, "u1")
        cdef uint8_t[::1] held = answer
        state = let_others_run(n)
        kvf_scan_hazards(&self.lines, &generations[0], n, &held[0])
        run_again(state)
        return answer.view("?")

    def claimed(self):
        found = _numpy.empty((self.lines.n, 4), "u8")
        cdef uint64_t[:, ::1] rows = found
        return found[:kvf_claimed(&self.lines, <kvf_claimed_line *>&rows[0, 0])].view(CLAIMED)[:, 0]

    def touches(self):
        found = _numpy.empty(KVF_TOUCHES if kvf_anything_touched(&self.lines) else 1, "u8")
        cdef uint64_t[::1] words = found
        cdef size_t n = kvf_drain_touches(&self.lines, &words[0]) if len(found) > 1 else 0
        return found[:n].view(TOUCH)

    def misses(self):
        found = _numpy.empty(KVF_MISSES, "u8")
        cdef uint64_t[::1] words = found
        cdef size_t n = kvf_drain_misses(&self.lines, &words[0])
        return found[:n]

    def counters(self):
        found = _numpy.empty(KVF_COUNTERS, "u8")
        cdef uint64_t[::1] counted = found
        kvf_read_counters(&self.lines, &counted[0])
        return found

cdef extern from "resolve.h" nogil:
    ctypedef struct kvf_span:
        uint64_t base, length, delta
        bint writable
        kvf_gate gate
    ctypedef enum kvf_side:
        KVF_LOCAL
        KVF_REMOTE
    ctypedef enum kvf_verdict:
        KVF_RESOLVED
        KVF_UNKNOWN
        KVF_LEAVES
        KVF_READONLY
        KVF_STALE
        KVF_NO_MEMORY
    bint kvf_span_covers(const kvf_span *, uint64_t low, uint64_t high)
    kvf_verdict kvf_resolve_side(const kvf_descriptor *, uint64_t n, kvf_side, bint write,
                                 kvf_span **table, uint64_t spans, uint8_t *hits,
                                 kvf_descriptor *out, uint64_t *index)
    uint64_t kvf_first_outside(const kvf_descriptor *, uint64_t n, kvf_side, uint64_t low,
                               uint64_t high)


LOCAL, REMOTE = KVF_LOCAL, KVF_REMOTE
RESOLVED, UNKNOWN, LEAVES = KVF_RESOLVED, KVF_UNKNOWN, KVF_LEAVES
READONLY, STALE, NO_MEMORY = KVF_READONLY, KVF_STALE, KVF_NO_MEMORY


cdef class Span:
    """Native half of a region. Its gate is held by every transfer in flight over it."""
    cdef kvf_span span
    cdef SpanTable home

    def __cinit__(self, uint64_t base, uint64_t length, uint64_t here, bint writable):
        self.span.base, self.span.length, self.span.writable = base, length, writable
        self.span.delta = here - base
        kvf_gate_init(&self.span.gate)

    @property
    def base(self):
        return self.span.base

    @property
    def length(self):
        return self.span.length

    @property
    def here(self):
        return self.span.base + self.span.delta

    def close(self):
        return kvf_gate_close(&self.span.gate)

    def drain(self, deadline_ns=None):
        return drain(&self.span.gate, deadline_of(deadline_ns))

    @property
    def inside(self):
        return kvf_gate_inside(&self.span.gate)


cdef class SpanTable:
    """Spans sorted by base. Changed under its owner's lock; read by submitters under the GIL."""
    cdef list spans
    cdef kvf_span **row
    cdef uint64_t n

    def __cinit__(self):
        self.spans = []

    def __dealloc__(self):
        free(self.row)

    def __len__(self):
        return self.n

    def _lay(self, list spans):
        cdef kvf_span **row = <kvf_span **>calloc(len(spans) + 1, sizeof(kvf_span *))
        cdef Span span
        if row == NULL:
            raise MemoryError
        for i, span in enumerate(spans):
            row[i] = &span.span
        free(self.row)
        self.row, self.n, self.spans = row, len(spans), spans

    def overlapping(self, uint64_t base, uint64_t length):
        return [s for s in self.spans if s.base < base + length and base < s.base + s.length]

    def add(self, Span span not None):
        self._lay(sorted([*self.spans, span], key=lambda s: s.base))
        span.home = self

    def discard(self, Span span not None):
        if span.home is self:
            span.home = None
            self._lay([s for s in self.spans if s is not span])


cdef int check_span(Span span, SpanTable table, Descriptors d, uint64_t low, uint64_t high, bint write,
                    kvf_side side, uint64_t *index):
    if span.home is not table:
        return KVF_STALE
    if write and not span.span.writable:
        return KVF_READONLY
    if not kvf_span_covers(&span.span, low, high):
        index[0] = kvf_first_outside(d.run.d, d.n, side, span.span.base,
                                     span.span.base + span.span.length)
        return KVF_LEAVES
    return KVF_RESOLVED


cdef int check_table(SpanTable table, Descriptors d, bint write, kvf_side side, kvf_descriptor *out,
                     list used, uint64_t *index) except -1:
    cdef uint8_t *hits = <uint8_t *>calloc(table.n + 1, 1)
    cdef int verdict
    if hits == NULL:
        return KVF_NO_MEMORY
    verdict = kvf_resolve_side(d.run.d, d.n, side, write, table.row, table.n, hits, out, index)
    for i in range(table.n):
        if hits[i]:
            used.append(table.spans[i])
    free(hits)
    return verdict


cdef bint enter(Descriptors found, Span span):
    if kvf_gate_enter(&span.span.gate) != KVF_ENTERED:
        found.verdict = KVF_STALE
        found.release()
        return False
    return True


cdef int enter_listed(Descriptors found, list used) except -1:
    """Enter the spans that one side's table gave."""
    cdef Span span
    if found.spans is None:
        found.spans = []
    for span in used:
        if not enter(found, span):
            return 0
        found.spans.append(span)
    return 0


cdef int resolve_local(Descriptors found, Descriptors d, bint write, Span span,
                       SpanTable table) except -1:
    found.side = KVF_LOCAL
    if span is None:
        if table is not None:
            used = []
            found.verdict = check_table(table, d, not write, KVF_LOCAL, NULL, used, &found.index)
            if not found.verdict:
                enter_listed(found, used)
        return 0
    found.verdict = check_span(span, table, d, d.bounds.local_low, d.bounds.local_high, not write,
                               KVF_LOCAL, &found.index)
    if not found.verdict and enter(found, span):
        found.local_span = span
    return 0


cdef int resolve_remote(Descriptors found, Descriptors d, bint write, Span span,
                        SpanTable table) except -1:
    found.side = KVF_REMOTE
    if span is None:
        used = []
        found.verdict = relocate(write, d, table, found, used)
        if not found.verdict:
            enter_listed(found, used)
        return 0
    found.verdict = check_span(span, table, d, d.bounds.remote_low, d.bounds.remote_high, write,
                               KVF_REMOTE, &found.index)
    found.run.delta = span.span.delta
    if not found.verdict and enter(found, span):
        found.remote_span = span
    return 0


cpdef Descriptors resolve(bint write, Descriptors d, Span local, SpanTable local_table, Span remote,
                          SpanTable remote_table):
    cdef Descriptors found = Descriptors.__new__(Descriptors)
    found.array, found.n, found.run, found.bounds = d.array, d.n, d.run, d.bounds
    if d.n == 0:
        return found
    resolve_local(found, d, write, local, local_table)
    if not found.verdict:
        resolve_remote(found, d, write, remote, remote_table)
    if found.verdict:
        found.release()
    return found


cdef int relocate(bint write, Descriptors d, SpanTable table, Descriptors found,
                  list used) except -1:
    """Look every remote address up; where all lie in one span, its delta serves the whole batch."""
    cdef list hit = []
    cdef Span span
    cdef int verdict = check_table(table, d, write, KVF_REMOTE, NULL, hit, &found.index)
    if verdict:
        return verdict
    used.extend(hit)
    if len(hit) == 1:
        span = hit[0]
        found.run.delta = span.span.delta
        return KVF_RESOLVED
    copy = bytearray(d.n * sizeof(kvf_descriptor))
    memcpy(<char *>copy, d.run.d, d.n * sizeof(kvf_descriptor))
    found.array, found.run.d = copy, <const kvf_descriptor *><char *>copy
    return check_table(table, d, write, KVF_REMOTE, <kvf_descriptor *><char *>copy, [],
                       &found.index)

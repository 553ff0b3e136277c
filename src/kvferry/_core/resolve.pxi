cdef extern from "resolve.h" nogil:
    ctypedef struct kvf_visitor:
        uint64_t epoch
        uint32_t tenant
        bint writes
    ctypedef struct kvf_audience:
        bint alone
        kvf_visitor one
    ctypedef struct kvf_span:
        uint64_t base, length, delta
        bint writable
        uint8_t offer, way
        kvf_audience audience
        kvf_reach *reach
        kvf_gate gate
    ctypedef struct kvf_table:
        pthread_mutex_t lock
        kvf_span **row
        uint64_t n
    ctypedef enum kvf_offer:
        KVF_OFFER_NONE
        KVF_OFFER_READ
        KVF_OFFER_WRITE
    ctypedef enum kvf_side:
        KVF_LOCAL
        KVF_REMOTE
    ctypedef enum kvf_verdict:
        KVF_RESOLVED
        KVF_UNKNOWN
        KVF_LEAVES
        KVF_READONLY
        KVF_STALE
        KVF_MIXED
        KVF_NO_MEMORY
    uint64_t kvf_first_other_way(const kvf_descriptor *, uint64_t n, kvf_span **table,
                                 uint64_t spans, uint8_t way)
    bint kvf_span_touches(const kvf_span *, uint64_t low, uint64_t high)
    bint kvf_span_covers(const kvf_span *, uint64_t low, uint64_t high)
    kvf_verdict kvf_resolve_side(const kvf_descriptor *, uint64_t n, kvf_side, bint write,
                                 kvf_span **table, uint64_t spans, uint8_t *hits,
                                 kvf_descriptor *out, uint64_t *index)
    uint64_t kvf_find_span(kvf_span **table, uint64_t n, uint64_t address)
    uint64_t kvf_first_outside(const kvf_descriptor *, uint64_t n, kvf_side, uint64_t low,
                               uint64_t high)


LOCAL, REMOTE = KVF_LOCAL, KVF_REMOTE
RESOLVED, UNKNOWN, LEAVES = KVF_RESOLVED, KVF_UNKNOWN, KVF_LEAVES
READONLY, STALE, MIXED, NO_MEMORY = KVF_READONLY, KVF_STALE, KVF_MIXED, KVF_NO_MEMORY
OFFER_NONE, OFFER_READ, OFFER_WRITE = KVF_OFFER_NONE, KVF_OFFER_READ, KVF_OFFER_WRITE


cdef class Span:
    """Native half of a region. Its gate is held by every transfer in flight over it."""
    cdef kvf_span span
    cdef SpanTable home
    cdef readonly Reach reach  # keeps what the span points to

    def __cinit__(self, uint64_t base, uint64_t length, uint64_t here, bint writable,
                  int offer=KVF_OFFER_NONE, Reach reach=None):
        self.span.base, self.span.length, self.span.writable = base, length, writable
        self.span.offer = offer
        self.span.delta = here - base
        self.reach = reach
        self.span.reach = NULL if reach is None else reach.reach
        kvf_gate_init(&self.span.gate)

    def admit(self, uint32_t tenant, bint alone=False, uint64_t epoch=0, bint writes=True):
        self.span.audience.alone = alone
        self.span.audience.one = kvf_visitor(epoch, tenant, writes)

    @property
    def base(self):
        return self.span.base

    @property
    def length(self):
        return self.span.length

    @property
    def here(self):
        return self.span.base + self.span.delta

    @property
    def way(self):
        return self.span.way

    @way.setter
    def way(self, int way):
        self.span.way = way

    def enter(self):
        return kvf_gate_enter(&self.span.gate)

    def leave(self):
        kvf_gate_leave(&self.span.gate)

    def close(self):
        return kvf_gate_close(&self.span.gate)

    def drain(self, deadline_ns=None):
        return drain(&self.span.gate, deadline_of(deadline_ns))

    @property
    def inside(self):
        return kvf_gate_inside(&self.span.gate)


cdef class SpanTable:
    """Spans sorted by base. Changed under its owner's lock and the GIL; read by submitters under the
    GIL, and by native threads under the lock of the table."""
    cdef list spans
    cdef bint opaque  # one of them, at least, is memory that the processor cannot touch
    cdef kvf_table table

    def __cinit__(self):
        self.spans = []
        pthread_mutex_init(&self.table.lock, NULL)

    def __dealloc__(self):
        free(self.table.row)
        pthread_mutex_destroy(&self.table.lock)

    def __len__(self):
        return self.table.n

    def _lay(self, list spans):
        cdef kvf_span **row = <kvf_span **>calloc(len(spans) + 1, sizeof(kvf_span *))
        cdef Span span
        if row == NULL:
            raise MemoryError
        for i, span in enumerate(spans):
            row[i] = &span.span
        pthread_mutex_lock(&self.table.lock)
        free(self.table.row)
        self.table.row, self.table.n = row, len(spans)
        pthread_mutex_unlock(&self.table.lock)
        self.spans = spans
        self.opaque = any_opaque(spans)

    def overlapping(self, uint64_t base, uint64_t length):
        return [s for s in self.spans if s.base < base + length and base < s.base + s.length]

    def add(self, Span span not None):
        self._lay(sorted([*self.spans, span], key=lambda s: s.base))
        span.home = self

    def discard(self, Span span not None):
        if span.home is self:
            span.home = None
            self._lay([s for s in self.spans if s is not span])


cdef bint any_opaque(list spans) except -1:
    cdef Span span
    for span in spans:
        if span.span.reach != NULL:
            return True
    return False


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
    cdef uint64_t n = table.table.n
    cdef uint8_t *hits
    cdef int verdict
    if check_extremes(table, d, write, side, used):
        return KVF_RESOLVED
    hits = <uint8_t *>calloc(n + 1, 1)
    if hits == NULL:
        return KVF_NO_MEMORY
    verdict = kvf_resolve_side(d.run.d, d.n, side, write, table.table.row, n, hits, out, index)
    for i in range(n):
        if hits[i]:
            used.append(table.spans[i])
    free(hits)
    return verdict


cdef bint check_extremes(SpanTable table, Descriptors d, bint write, kvf_side side,
                         list used) except -1:
    """Does one span hold the whole side? Then one look stands for all descriptors."""
    cdef uint64_t low = d.bounds.local_low if side == KVF_LOCAL else d.bounds.remote_low
    cdef uint64_t high = d.bounds.local_high if side == KVF_LOCAL else d.bounds.remote_high
    cdef uint64_t k = kvf_find_span(table.table.row, table.table.n, low)
    cdef Span span
    if k == table.table.n:
        return False
    span = table.spans[k]
    if (write and not span.span.writable) or not kvf_span_covers(&span.span, low, high):
        return False
    used.append(span)
    return True


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


cdef int keep_touched(Descriptors found, SpanTable table, kvf_side side) except -1:
    """Enter the spans that a side's extremes touch: who carries the batch out checks against them.
    One that is closed is as good as not there."""
    cdef uint64_t low = found.bounds.local_low if side == KVF_LOCAL else found.bounds.remote_low
    cdef uint64_t high = found.bounds.local_high if side == KVF_LOCAL else found.bounds.remote_high
    cdef kvf_late *late = &found.batch.late
    cdef kvf_snapshot *kept = &late.local if side == KVF_LOCAL else &late.remote
    cdef Span span
    late.n = found.n
    kept.row = <kvf_span **>calloc(table.table.n + 1, sizeof(kvf_span *))
    if kept.row == NULL:
        return KVF_NO_MEMORY
    if found.spans is None:
        found.spans = []
    for span in table.spans:
        if (kvf_span_touches(&span.span, low, high)
                and kvf_gate_enter(&span.span.gate) == KVF_ENTERED):
            found.spans.append(span)
            kept.row[kept.n] = &span.span
            kept.n += 1
    return KVF_RESOLVED


cdef int postpone(Descriptors found, SpanTable table, bint write, kvf_side side) except -1:
    """The same work for any number of descriptors: one span holds them all, or they are checked
    late."""
    cdef Span span
    cdef list used = []
    if not check_extremes(table, found, write, side, used):
        found.verdict = keep_touched(found, table, side)
        return 0
    span = used[0]
    if side == KVF_REMOTE:
        found.run.delta = span.span.delta
    return enter_listed(found, used)


cdef int way_of(Descriptors d, Span span, SpanTable table) except -1:
    """The way of the first descriptor; where no span holds it, any: it will be refused."""
    cdef uint64_t k
    if span is not None:
        return span.span.way
    k = kvf_find_span(table.table.row, table.table.n, d.run.d.remote)
    return table.table.row[k].way if k < table.table.n else 0


cdef int resolve_local(Descriptors found, Descriptors d, bint write, Span span, SpanTable table,
                       bint late) except -1:
    found.side = KVF_LOCAL
    if span is None:
        # Links judge by what lies in a device before a byte moves: there all is looked up at once.
        if table is not None and late and not table.opaque:
            postpone(found, table, not write, KVF_LOCAL)
        elif table is not None:
            used = []
            found.verdict = check_table(table, d, not write, KVF_LOCAL, NULL, used, &found.index)
            if not found.verdict:
                found.opaque = any_opaque(used)
                enter_listed(found, used)
        return 0
    found.opaque = span.span.reach != NULL
    found.verdict = check_span(span, table, d, d.bounds.local_low, d.bounds.local_high, not write,
                               KVF_LOCAL, &found.index)
    if not found.verdict and enter(found, span):
        found.local_span = span
    return 0


cdef int resolve_remote(Descriptors found, Descriptors d, bint write, Span span, SpanTable table,
                        bint late) except -1:
    found.side, found.index = KVF_REMOTE, 0
    if span is None and late:
        return postpone(found, table, write, KVF_REMOTE)
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
                          SpanTable remote_table, int late=0):
    cdef bint wait
    cdef Descriptors found = Descriptors.__new__(Descriptors)
    found.array, found.n, found.run, found.bounds = d.array, d.n, d.run, d.bounds
    found.unregistered = local is None and local_table is None
    if d.n == 0:
        return found
    found.way = found.batch.late.way = way_of(d, remote, remote_table)
    wait = late >> found.way & 1
    resolve_local(found, d, write, local, local_table, wait)
    if not found.verdict:
        resolve_remote(found, d, write, remote, remote_table, wait)
    if found.verdict:
        found.release()
    return found


cdef bint one_way(list spans) except -1:
    cdef Span span
    cdef uint8_t way = (<Span>spans[0]).span.way
    for span in spans:
        if span.span.way != way:
            return False
    return True


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
    if not one_way(hit):
        found.index = kvf_first_other_way(d.run.d, d.n, table.table.row, table.table.n, found.way)
        return KVF_MIXED
    copy = bytearray(d.n * sizeof(kvf_descriptor))
    memcpy(<char *>copy, d.run.d, d.n * sizeof(kvf_descriptor))
    found.array, found.run.d = copy, <const kvf_descriptor *><char *>copy
    return check_table(table, d, write, KVF_REMOTE, <kvf_descriptor *><char *>copy, [],
                       &found.index)

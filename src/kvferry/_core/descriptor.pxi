cdef extern from "descriptor.h" nogil:
    ctypedef struct kvf_descriptor:
        uint64_t local, remote, length
    ctypedef enum kvf_op:
        KVF_WRITE
        KVF_READ
    ctypedef struct kvf_bounds:
        uint64_t local_low, local_high, remote_low, remote_high, bytes, shortest, longest
    ctypedef struct kvf_run:
        const kvf_descriptor *d
        uint64_t skip, bytes, delta
    ctypedef enum kvf_misfit:
        KVF_FIT
        KVF_EMPTY_PIECE
        KVF_WRAPS
        KVF_TOO_MANY_BYTES
    kvf_misfit kvf_measure(const kvf_descriptor *, uint64_t n, kvf_bounds *, uint64_t *index)
    void kvf_fill_blocks(kvf_descriptor *, uint64_t n, uint64_t local, const int64_t *local_ids,
                         uint64_t remote, const int64_t *remote_ids, uint64_t block)
    uint64_t kvf_first_stray(const int64_t *ids, uint64_t n, uint64_t limit)
    uint64_t kvf_first_beyond(const int64_t *offsets, const int64_t *lengths, uint64_t n,
                               uint64_t limit)
    void kvf_skip(kvf_run *, uint64_t bytes)

cdef extern from "unfold.h" nogil:
    ctypedef struct kvf_snapshot:
        kvf_span **row
        uint64_t n
    ctypedef struct kvf_late:
        uint64_t n
        kvf_snapshot local, remote
        uint8_t way
    ctypedef struct kvf_batch:
        kvf_mover *mover
        kvf_late late


WRITE, READ = KVF_WRITE, KVF_READ
FIT, EMPTY_PIECE, WRAPS, TOO_MANY_BYTES = KVF_FIT, KVF_EMPTY_PIECE, KVF_WRAPS, KVF_TOO_MANY_BYTES


# No cycle leads through it, and the spans it holds must be whole when it leaves their gates: no_gc.
@cython.no_gc
@cython.freelist(64)
cdef class Descriptors:
    cdef object array    # keeps the memory at run.d
    cdef object parent   # of a cut: keeps what the whole holds
    cdef Span local_span, remote_span  # whose gates this holds until release,
    cdef list spans                    # and those of more than one a side
    cdef Mover mover                   # None: both sides lie in this address space
    cdef bint unregistered             # the local side is a caller's own buffer
    cdef readonly bint opaque          # some of the local side is beyond the processor's reach
    cdef uint64_t n
    cdef kvf_run run
    cdef kvf_batch batch               # for a coprocessor
    cdef kvf_bounds bounds
    cdef readonly int verdict, side, way
    cdef readonly uint64_t index

    def __cinit__(self, array=None):
        cdef const uint64_t[:, ::1] rows
        if array is None:
            return
        rows = array
        if rows.shape[1] != 3:
            raise ValueError("descriptors are rows of three")
        self.array = array
        self.n = rows.shape[0]
        self.run.d = <const kvf_descriptor *>&rows[0, 0] if self.n else NULL
        with nogil:
            self.verdict = kvf_measure(self.run.d, self.n, &self.bounds, &self.index)
        self.run.bytes = self.bounds.bytes

    def __dealloc__(self):
        self.release()
        free(self.batch.late.local.row)
        free(self.batch.late.remote.row)

    def __len__(self):
        return self.n

    @property
    def bytes(self):
        return self.run.bytes

    @property
    def late(self):
        return self.batch.late.local.row != NULL or self.batch.late.remote.row != NULL

    @property
    def longest(self):
        return self.bounds.longest

    @property
    def local(self):
        return self.bounds.local_low, self.bounds.local_high

    @property
    def remote(self):
        return self.bounds.remote_low, self.bounds.remote_high

    def via(self, Mover mover):
        self.mover = mover

    def holds(self, Span span not None):
        spans = self.spans
        return (span is self.local_span or span is self.remote_span
                or (spans is not None and span in spans))

    def row(self, uint64_t index):
        if index >= self.n:
            raise IndexError(index)
        cdef const kvf_descriptor *d = &self.run.d[index]
        return d.local, d.remote, d.length

    def first_at(self, int side, uint64_t address):
        cdef uint64_t i, begin
        found = None
        for i in range(self.n):
            begin = self.run.d[i].local if side == KVF_LOCAL else self.run.d[i].remote
            if begin == address:
                return i
            if found is None and address - begin < self.run.d[i].length:
                found = i
        return found

    cpdef release(self):
        cdef Span span = self.local_span
        if span is not None:
            self.local_span = None
            kvf_gate_leave(&span.span.gate)
        span = self.remote_span
        if span is not None:
            self.remote_span = None
            kvf_gate_leave(&span.span.gate)
        if self.spans is not None:
            spans, self.spans = self.spans, None
            for span in spans:
                kvf_gate_leave(&span.span.gate)

    def cut(self, uint64_t parts):
        """`parts` runs of about equal bytes, whole pages each but the last; empty ones left out."""
        cdef uint64_t share = ((self.run.bytes + parts - 1) // parts + 4095) & ~<uint64_t>4095
        cdef kvf_run rest = self.run
        cdef Descriptors piece
        runs = []
        while rest.bytes:
            piece = Descriptors.__new__(Descriptors)
            piece.parent = self
            piece.n = self.n
            piece.bounds = self.bounds
            piece.mover, piece.way = self.mover, self.way
            piece.unregistered, piece.opaque = self.unregistered, self.opaque
            piece.run = rest
            if <uint64_t>len(runs) + 1 < parts and share < rest.bytes:
                piece.run.bytes = share
            kvf_skip(&rest, piece.run.bytes)
            runs.append(piece)
        return runs


def fill_blocks(uint64_t[:, ::1] rows, uint64_t local, const int64_t[::1] local_ids, uint64_t remote,
                const int64_t[::1] remote_ids, uint64_t block):
    cdef uint64_t n = rows.shape[0]
    if n == 0:
        return
    with nogil:
        kvf_fill_blocks(<kvf_descriptor *>&rows[0, 0], n, local, &local_ids[0], remote,
                        &remote_ids[0], block)


def first_stray(const int64_t[::1] ids, uint64_t limit):
    return kvf_first_stray(&ids[0], ids.shape[0], limit) if ids.shape[0] else 0


def first_beyond(const int64_t[::1] offsets, const int64_t[::1] lengths, uint64_t limit):
    cdef uint64_t n = offsets.shape[0]
    if <uint64_t>lengths.shape[0] != n:
        raise ValueError("an offset and a length each")
    return kvf_first_beyond(&offsets[0], &lengths[0], n, limit)

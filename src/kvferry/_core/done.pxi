cdef extern from "done.h" nogil:
    ctypedef struct kvf_done:
        uint64_t sequence, begun_ns, started_ns, staged, served, address
        uint32_t verdict, side, batches
        int32_t code
    const int KVF_STREAMS_MAX
    ctypedef enum kvf_outcome:
        KVF_OK
        KVF_ABORTED
        KVF_EXPIRED
        KVF_LOST
        KVF_REFUSED
        KVF_FAULT
        KVF_DEVICE
        KVF_ABANDONED
    void kvf_done_begin(kvf_done *)
    uint32_t kvf_done_streams(kvf_done *)
    void kvf_done_spread(kvf_done *, uint32_t streams)
    bint kvf_done_quiet(kvf_done *)
    bint kvf_done_wait(kvf_done *, uint64_t deadline)
    void kvf_done_abort(kvf_done *)
    bint kvf_done_aborted(const kvf_done *, uint64_t sequence)
    void kvf_done_drop(kvf_done *)
    void kvf_done_finish(kvf_done *, uint32_t word, uint64_t sequence)
    void kvf_done_start(kvf_done *)
    void kvf_done_fail(kvf_done *, uint32_t outcome)
    void kvf_done_refuse(kvf_done *, uint32_t verdict, uint32_t side, uint64_t address)
    void kvf_done_notify(kvf_done *, int eventfd)
    uint32_t kvf_done_outcome(kvf_done *)
    bint kvf_done_abandoned(kvf_done *)
    uint64_t kvf_done_ended(kvf_done *)


OK, ABORTED, EXPIRED = KVF_OK, KVF_ABORTED, KVF_EXPIRED
LOST, REFUSED, FAULT, DEVICE = KVF_LOST, KVF_REFUSED, KVF_FAULT, KVF_DEVICE
STREAMS_MAX = KVF_STREAMS_MAX


# No cycle leads through it, and its arena must be whole when it goes: no_gc.
@cython.no_gc
@cython.freelist(256)
cdef class Done:
    """One transfer's hold on a completion line; the line goes back to its arena with the last
    reference, or never when it is not quiet by then."""
    cdef CopyEngines arena
    cdef kvf_done *line
    cdef readonly uint32_t inline_copies, stream_submissions  # counted by the doors that make them
    cdef bint published  # to a coprocessor, which completes it

    def __cinit__(self, CopyEngines arena not None):
        self.arena = arena
        self.line = kvf_line_take(arena.engines)
        if self.line == NULL:
            raise MemoryError
        kvf_done_begin(self.line)

    def __dealloc__(self):
        if self.line != NULL and kvf_done_quiet(self.line):
            kvf_line_give(self.arena.engines, self.line)

    def spread(self, uint32_t streams):
        kvf_done_spread(self.line, streams)

    @property
    def quiet(self):
        return kvf_done_quiet(self.line)

    @property
    def abandoned(self):
        return kvf_done_abandoned(self.line)

    @property
    def outcome(self):
        return kvf_done_outcome(self.line)

    @property
    def elapsed_ns(self):
        return kvf_done_ended(self.line) - self.line.begun_ns

    @property
    def moving_ns(self):
        cdef uint64_t started = self.line.started_ns
        return kvf_done_ended(self.line) - started if started else 0

    @property
    def staged(self):
        return self.line.staged

    @property
    def served(self):
        return self.line.served

    @property
    def coprocessor_batches(self):
        return self.line.batches

    @property
    def refused(self):
        return self.line.verdict, self.line.side, self.line.address

    @property
    def code(self):
        return self.line.code

    @property
    def begun(self):
        return self.line.started_ns != 0

    @property
    def aborted(self):
        return kvf_done_aborted(self.line, self.line.sequence)

    def abort(self):
        kvf_done_abort(self.line)

    def drop(self):
        kvf_done_drop(self.line)

    def forsake(self):
        cdef uint32_t word
        kvf_done_fail(self.line, KVF_ABORTED)
        kvf_done_abort(self.line)
        if self.published:
            kvf_done_drop(self.line)
            return
        for word in range(self.stream_submissions, kvf_done_streams(self.line)):
            kvf_done_finish(self.line, word, self.line.sequence)

    def finish(self, uint32_t word):
        kvf_done_finish(self.line, word, self.line.sequence)

    def fail(self, uint32_t outcome):
        kvf_done_fail(self.line, outcome)

    def notify(self, int eventfd):
        kvf_done_notify(self.line, eventfd)

    def wait(self, deadline_ns=None):
        cdef uint64_t deadline
        cdef bint quiet = kvf_done_quiet(self.line)
        if quiet:
            return True
        deadline = deadline_of(deadline_ns)
        while True:
            with nogil:
                quiet = kvf_done_wait(self.line, deadline)
            if quiet or kvf_now() >= deadline or kvf_done_abandoned(self.line):
                return quiet
            PyErr_CheckSignals()

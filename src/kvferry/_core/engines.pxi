cdef extern from "engines.h" nogil:
    ctypedef struct kvf_entry:
        uint32_t kind, op
        kvf_done *done
        uint64_t sequence, word
        kvf_run run
    ctypedef enum kvf_entry_kind:
        KVF_ENTRY_COPY
        KVF_ENTRY_FLAG
    ctypedef struct kvf_ring:
        pass
    ctypedef struct kvf_stream:
        kvf_ring ring
    ctypedef struct kvf_engines:
        const kvf_variant *nt
    kvf_engines *kvf_engines_new(const kvf_variant *)
    int kvf_engines_start(kvf_engines *, unsigned threads)
    void kvf_engines_stop(kvf_engines *)
    void kvf_engines_free(kvf_engines *)
    void kvf_engines_hold(kvf_engines *, bint held)
    uint32_t kvf_engines_held(kvf_engines *)
    uint64_t kvf_engines_bytes(kvf_engines *)
    kvf_done *kvf_line_take(kvf_engines *)
    void kvf_line_give(kvf_engines *, kvf_done *)
    kvf_stream *kvf_stream_new()
    bint kvf_ring_push(kvf_ring *, const kvf_entry *)
    void kvf_doorbell(kvf_engines *, kvf_stream *, bint wake)
    void kvf_wake_engines(kvf_engines *)
    void kvf_help(kvf_engines *, kvf_stream *, const kvf_done *, uint64_t deadline)
    void kvf_stream_free(kvf_engines *, kvf_stream *)
    bint kvf_stream_busy(kvf_engines *, kvf_stream *)
    bint kvf_stream_settle(kvf_engines *, kvf_stream *, uint64_t deadline)

# Below this a copy takes less time than another thread may take to give the GIL back.
cdef uint64_t NOGIL_BYTES = 64 << 10


cdef class CopyEngines:
    """A few native copy threads, the completion lines, and the copies of callers themselves."""
    cdef kvf_engines *engines
    cdef int pid
    cdef unsigned threads

    def __cinit__(self, unsigned threads):
        self.engines = kvf_engines_new(kvf_best_nt())
        if self.engines == NULL:
            raise MemoryError
        self.pid, self.threads = getpid(), threads

    def __dealloc__(self):
        if self.engines != NULL and getpid() == self.pid:
            with nogil:
                kvf_engines_stop(self.engines)
            kvf_engines_free(self.engines)

    def start(self):
        """Start the threads unless they run; 0 or an errno."""
        return kvf_engines_start(self.engines, self.threads)

    def stop(self):
        """Block until every submitted copy is carried out, then end the threads."""
        if getpid() == self.pid:
            with nogil:
                kvf_engines_stop(self.engines)

    def wake(self):
        """Wake sleeping threads for the streams that are ready."""
        kvf_wake_engines(self.engines)

    def hold(self, bint held):
        """Test point: while held, an engine waits inside the chunk it has begun."""
        kvf_engines_hold(self.engines, held)

    @property
    def held(self):
        return kvf_engines_held(self.engines)

    @property
    def bytes(self):
        return kvf_engines_bytes(self.engines)

    def copy_inline(self, kvf_op op, Descriptors d not None, Done done not None, deadline_ns=None):
        """Copy in the calling thread and complete `done`."""
        cdef kvf_brake brake
        cdef kvf_outcome outcome
        done.inline_copies += 1
        brake.done = done.line
        brake.sequence = done.line.sequence
        brake.deadline = deadline_of(deadline_ns)
        brake.hold = NULL
        if d.run.bytes < NOGIL_BYTES:
            outcome = kvf_copy_run(self.engines.nt, d.run, op, &brake)
        else:
            with nogil:
                outcome = kvf_copy_run(self.engines.nt, d.run, op, &brake)
        if outcome != KVF_OK:
            kvf_done_fail(done.line, outcome)
        kvf_done_finish(done.line, 0, brake.sequence)


# No cycle leads through it, and its engines must be whole when it goes: no_gc.
@cython.no_gc
cdef class Stream:
    """An ordered queue of copies. One thread at a time submits to it. The caller keeps alive what it
    enqueued until the flag behind it is set."""
    cdef CopyEngines home
    cdef kvf_stream *stream

    def __cinit__(self, CopyEngines home not None):
        self.home = home
        self.stream = kvf_stream_new()
        if self.stream == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.stream != NULL and getpid() == self.home.pid:
            kvf_stream_free(self.home.engines, self.stream)

    cdef bint push(self, kvf_entry_kind kind, kvf_op op, Done done, uint64_t word, kvf_run run):
        cdef kvf_entry entry
        entry.kind, entry.op, entry.done, entry.word, entry.run = kind, op, done.line, word, run
        entry.sequence = done.line.sequence
        return kvf_ring_push(&self.stream.ring, &entry)

    def copy(self, kvf_op op, Descriptors run not None, Done done not None):
        """Enqueue a run; False when the ring is full."""
        return self.push(KVF_ENTRY_COPY, op, done, 0, run.run)

    def flag(self, Done done not None, uint64_t word, bint wake=True):
        """Enqueue the completion of `word` behind all copies so far, and ring the doorbell."""
        cdef kvf_run none
        none.d, none.skip, none.bytes, none.delta = NULL, 0, 0, 0
        if not self.push(KVF_ENTRY_FLAG, KVF_WRITE, done, word, none):
            return False
        done.stream_submissions += 1
        kvf_doorbell(self.home.engines, self.stream, wake)
        return True

    def help(self, Done done not None, deadline_ns=None):
        """Carry out in this thread what no engine has begun of `done` on this stream."""
        cdef uint64_t deadline = deadline_of(deadline_ns)
        with nogil:
            kvf_help(self.home.engines, self.stream, done.line, deadline)

    @property
    def busy(self):
        return kvf_stream_busy(self.home.engines, self.stream)

    def settle(self, deadline_ns=None):
        """Block until no engine touches this stream; False at the deadline."""
        cdef bint idle
        cdef uint64_t deadline = deadline_of(deadline_ns)
        with nogil:
            idle = kvf_stream_settle(self.home.engines, self.stream, deadline)
        return idle

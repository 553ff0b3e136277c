cdef extern from "engines.h" nogil:
    ctypedef struct kvf_entry:
        uint32_t kind, op
        kvf_done *done
        uint64_t sequence, word
        kvf_mover *mover
        const kvf_batch *batch
        kvf_run run
    ctypedef enum kvf_entry_kind:
        KVF_ENTRY_COPY
        KVF_ENTRY_FLAG
        KVF_ENTRY_BATCH
    ctypedef struct kvf_ring:
        pass
    ctypedef struct kvf_stream:
        kvf_ring ring
    ctypedef struct kvf_hold:
        pass
    ctypedef struct kvf_engines:
        kvf_memory_mover memory
        kvf_hold hold
        uint64_t unfold_ns
    const uint32_t KVF_LOGICAL_MOST, KVF_RING_ENTRIES
    kvf_engines *kvf_engines_new(const kvf_variant *)
    int kvf_engines_start(kvf_engines *, unsigned threads)
    void kvf_engines_stop(kvf_engines *)
    void kvf_engines_free(kvf_engines *)
    void kvf_engines_hold(kvf_engines *, bint held, int32_t passing)
    uint32_t kvf_engines_held(kvf_engines *)
    uint64_t kvf_engines_bytes(kvf_engines *)
    uint64_t kvf_engines_cpu(kvf_engines *)
    bint kvf_bind(kvf_stream *control, uint32_t most)
    bint kvf_ring_full(const kvf_ring *)
    bint kvf_await_room(kvf_stream *control, uint64_t deadline)
    void kvf_stir(kvf_stream *control)
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

    def grow(self, unsigned threads):
        """Start threads until there are so many; 0 or an errno."""
        return kvf_engines_start(self.engines, threads)

    def stop(self):
        """Block until every submitted copy is carried out, then end the threads."""
        if getpid() == self.pid:
            with nogil:
                kvf_engines_stop(self.engines)

    def wake(self):
        """Wake sleeping threads for the streams that are ready."""
        kvf_wake_engines(self.engines)

    def hold(self, bint held, int32_t passing=0):
        """Test point: while held, an engine or who copies inline waits inside the chunk it has
        begun; `passing` chunks from now on go through."""
        kvf_engines_hold(self.engines, held, passing)

    @property
    def held(self):
        return kvf_engines_held(self.engines)

    @property
    def bytes(self):
        return kvf_engines_bytes(self.engines)

    @property
    def unfold_ns(self):
        return self.engines.unfold_ns

    @property
    def cpu_ns(self):
        return kvf_engines_cpu(self.engines)

    def copy_inline(self, kvf_op op, Descriptors d not None, Done done not None, deadline_ns=None):
        """Copy in the calling thread and complete `done`."""
        cdef kvf_brake brake
        cdef kvf_outcome outcome
        cdef kvf_mover *mover = &self.engines.memory.mover if d.mover is None else d.mover.native(d)
        done.inline_copies += 1
        kvf_done_start(done.line)
        brake.done = done.line
        brake.sequence = done.line.sequence
        brake.deadline = deadline_of(deadline_ns)
        brake.hold = NULL
        if d.run.bytes < NOGIL_BYTES and d.mover is None:
            outcome = mover.run(mover, d.run, op, &brake)
        else:
            brake.hold = &self.engines.hold
            with nogil:
                outcome = mover.run(mover, d.run, op, &brake)
        if outcome != KVF_OK:
            kvf_done_fail(done.line, outcome)
        kvf_done_finish(done.line, 0, brake.sequence)
        raise_pending()  # what a signal handler raised meanwhile


# No cycle leads through it, and its engines must be whole when it goes: no_gc.
@cython.no_gc
cdef class Stream:
    """An ordered queue of copies. One thread at a time submits to it. The caller keeps alive what it
    enqueued until the flag behind it is set."""
    cdef CopyEngines home
    cdef kvf_stream *stream
    cdef Mover mover

    def __cinit__(self, CopyEngines home not None, *_, **__):
        self.home = home
        self.stream = kvf_stream_new()
        if self.stream == NULL:
            raise MemoryError

    def __init__(self, CopyEngines home, Mover mover=None):
        self.mover = mover

    def __dealloc__(self):
        if self.stream != NULL and getpid() == self.home.pid:
            kvf_stream_free(self.home.engines, self.stream)

    def copy(self, kvf_op op, Descriptors run not None, Done done not None):
        """Enqueue a run; False when the ring is full."""
        cdef Mover mover = run.mover if self.mover is None else self.mover
        cdef kvf_entry entry
        entry.kind, entry.op, entry.done, entry.run = KVF_ENTRY_COPY, op, done.line, run.run
        entry.sequence = done.line.sequence
        entry.mover = NULL if mover is None else mover.native(run)
        return kvf_ring_push(&self.stream.ring, &entry)

    def flag(self, Done done not None, uint64_t word, bint wake=True):
        """Enqueue the completion of `word` behind all copies so far, and ring the doorbell."""
        cdef kvf_entry entry
        entry.kind, entry.done, entry.word = KVF_ENTRY_FLAG, done.line, word
        entry.sequence = done.line.sequence
        if not kvf_ring_push(&self.stream.ring, &entry):
            return False
        done.stream_submissions += 1
        kvf_doorbell(self.home.engines, self.stream, wake)
        return True

    def help(self, Done done not None, deadline_ns=None):
        """Carry out in this thread what no engine has begun of `done` on this stream."""
        cdef uint64_t deadline = deadline_of(deadline_ns)
        with nogil:
            kvf_help(self.home.engines, self.stream, done.line, deadline)
        raise_pending()  # what a signal handler raised meanwhile

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


LOGICAL_MOST = KVF_LOGICAL_MOST


@cython.no_gc
cdef class ControlStream(Stream):
    """The stream on which batches are published to a coprocessor, and its bound slot."""

    def __init__(self, CopyEngines home, uint32_t most):
        if not kvf_bind(self.stream, most):
            raise MemoryError

    def publish(self, kvf_op op, Descriptors d not None, Done done not None):
        """One entry and one doorbell, whatever the size; False when the ring is full."""
        cdef kvf_entry entry
        d.batch.mover = NULL if d.mover is None else d.mover.native(d)
        entry.kind, entry.op, entry.done, entry.run = KVF_ENTRY_BATCH, op, done.line, d.run
        entry.sequence, entry.batch = done.line.sequence, &d.batch
        if not kvf_ring_push(&self.stream.ring, &entry):
            return False
        done.published = True
        kvf_doorbell(self.home.engines, self.stream, True)
        return True

    @property
    def depth(self):
        # Entries in the ring, the batch that is unfolded, and the one whose end is to come.
        return KVF_RING_ENTRIES + 2

    @property
    def full(self):
        return kvf_ring_full(&self.stream.ring)

    def await_room(self, deadline_ns=None):
        """Block until the ring may have room, or a while."""
        cdef uint64_t deadline = deadline_of(deadline_ns)
        with nogil:
            kvf_await_room(self.stream, deadline)
        PyErr_CheckSignals()

    def stir(self):
        kvf_stir(self.stream)

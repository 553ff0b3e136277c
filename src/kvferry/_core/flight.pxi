cdef enum:
    FLIGHT_PENDING = 0
    FLIGHT_LANDED = 1
    FLIGHT_ENDED = 2

PENDING, LANDED, ENDED = FLIGHT_PENDING, FLIGHT_LANDED, FLIGHT_ENDED


cdef class Tally:
    """Sums over transfers. Each add is whole: it runs under the GIL."""
    cdef readonly uint64_t transfers, bytes, descriptors, inline_copies, stream_submissions
    cdef readonly uint64_t coprocessor_batches, staged
    cdef readonly uint64_t total_ns, longest_ns, moving_ns, longest_moving_ns

    cdef add(self, Done done, Descriptors d):
        cdef uint64_t ns = kvf_done_ended(done.line) - done.line.begun_ns
        cdef uint64_t moving = done.moving_ns
        self.transfers += 1
        self.bytes += d.run.bytes
        self.descriptors += d.n
        self.inline_copies += done.inline_copies
        self.stream_submissions += done.stream_submissions
        self.staged += done.line.staged
        self.coprocessor_batches += done.coprocessor_batches
        self.moving_ns += moving
        if moving > self.longest_moving_ns:
            self.longest_moving_ns = moving
        self.total_ns += ns
        if ns > self.longest_ns:
            self.longest_ns = ns


# no_gc_clear: the gate must be whole when the last reference leaves it.
@cython.no_gc_clear
cdef class Flight:
    """What one transfer holds while it is under way. Changes of `state` are whole: they run under
    the GIL, so of several threads that wait for one transfer one settles it."""
    cdef Gate entered
    cdef readonly object channel, batch
    cdef readonly int op, state
    cdef readonly Descriptors d
    cdef readonly Done done
    cdef public object lent, why, failure

    def __cinit__(self, channel, int op, batch, Descriptors d not None, Done done not None):
        self.channel, self.op, self.batch, self.d, self.done = channel, op, batch, d, done

    def __dealloc__(self):
        self.leave()

    cpdef leave(self):
        gate, self.entered = self.entered, None
        if gate is not None:
            kvf_gate_leave(&(<Gate>gate).gate)

    def land(self, PeerWatch watch not None, Tally tally not None):
        """Quiet, complete and the peer still there: settle it as a success, once."""
        if self.state != FLIGHT_PENDING:
            return self.state == FLIGHT_LANDED
        if not kvf_done_quiet(self.done.line) or kvf_done_outcome(self.done.line) != KVF_OK:
            return False
        # After the last byte: mapped memory outlives its owner, so a copy to a peer that died would
        # look like a success.
        if watch.gone() or self.state != FLIGHT_PENDING:
            return self.state == FLIGHT_LANDED
        self.state = FLIGHT_LANDED
        tally.add(self.done, self.d)
        self.d.release()
        return True

    def take_lent(self):
        lent, self.lent = self.lent, None
        return lent

    def end(self, failure):
        """Settle it as anything but a success; False when it was settled before."""
        if self.state != FLIGHT_PENDING:
            return False
        self.failure = failure
        self.state = FLIGHT_ENDED
        self.d.release()
        return True


cdef class Gateway(Gate):
    """A channel's gate, with what every submission that passes it is checked against."""
    cdef CopyEngines engines
    cdef SpanTable local, remote
    cdef int late

    def __init__(self, CopyEngines engines not None, SpanTable local not None,
                 SpanTable remote not None, int late=0):
        self.engines, self.local, self.remote, self.late = engines, local, remote, late

    def admit(self, type kind, channel, int op, batch):
        cdef Descriptors d
        cdef Flight flight
        if kvf_gate_enter(&self.gate) != KVF_ENTERED:
            return None
        try:
            d = resolve(op == KVF_WRITE, batch.descriptors, batch.local,
                        self.local if batch.local_held is None else None, batch.remote, self.remote,
                        self.late)
            if d.verdict:
                kvf_gate_leave(&self.gate)
                return d
            flight = kind(channel, op, batch, d, Done(self.engines))
        except:
            kvf_gate_leave(&self.gate)
            raise
        flight.entered = self
        return flight


cdef class Counts:
    """What was counted in one transfer."""
    cdef readonly object path
    cdef Done done
    cdef Descriptors d

    def __cinit__(self, path, Flight flight not None):
        self.path, self.done, self.d = path, flight.done, flight.d

    @property
    def bytes(self):
        return self.d.run.bytes

    @property
    def descriptors(self):
        return self.d.n

    @property
    def inline_copies(self):
        return self.done.inline_copies

    @property
    def stream_submissions(self):
        return self.done.stream_submissions

    @property
    def coprocessor_batches(self):
        return self.done.coprocessor_batches

    @property
    def staged_bytes(self):
        return self.done.staged

    @property
    def served_bytes(self):
        return self.done.served

    @property
    def elapsed_ns(self):
        return self.done.elapsed_ns

    @property
    def moving_ns(self):
        return self.done.moving_ns

cdef extern from "gate.h" nogil:
    ctypedef struct kvf_gate:
        pass
    ctypedef enum kvf_gate_code:
        KVF_ENTERED
        KVF_CLOSED
        KVF_FORKED
    void kvf_gate_init(kvf_gate *)
    kvf_gate_code kvf_gate_enter(kvf_gate *)
    void kvf_gate_leave(kvf_gate *)
    bint kvf_gate_close(kvf_gate *)
    void kvf_gate_fork(kvf_gate *)
    uint64_t kvf_gate_inside(const kvf_gate *)
    bint kvf_gate_drain(kvf_gate *, uint64_t deadline)


ENTERED, CLOSED, FORKED = KVF_ENTERED, KVF_CLOSED, KVF_FORKED


cdef bint drain(kvf_gate *gate, uint64_t deadline) except -1:
    cdef bint empty
    while True:
        with nogil:
            empty = kvf_gate_drain(gate, deadline)
        if empty or kvf_now() >= deadline:
            return empty
        PyErr_CheckSignals()


cdef class Gate:
    cdef kvf_gate gate

    def __cinit__(self):
        kvf_gate_init(&self.gate)

    def enter(self):
        return kvf_gate_enter(&self.gate)

    def leave(self):
        kvf_gate_leave(&self.gate)

    def close(self):
        return kvf_gate_close(&self.gate)

    def fork(self):
        kvf_gate_fork(&self.gate)

    @property
    def inside(self):
        return kvf_gate_inside(&self.gate)

    def drain(self, deadline_ns=None):
        return drain(&self.gate, deadline_of(deadline_ns))

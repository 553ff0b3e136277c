cdef extern from "pulse.h" nogil:
    ctypedef struct kvf_pulse_page:
        pass
    ctypedef struct kvf_keeper:
        pass
    kvf_keeper *kvf_keeper_start(kvf_pulse_page *, uint64_t epoch)
    void kvf_keeper_stop(kvf_keeper *)
    bint kvf_pulse_beats(const kvf_pulse_page *, uint64_t epoch)


cdef class Keeper:
    cdef kvf_keeper *keeper
    cdef int pid

    def __cinit__(self, uintptr_t page, uint64_t epoch):
        self.pid = getpid()
        with nogil:
            self.keeper = kvf_keeper_start(<kvf_pulse_page *>page, epoch)

    def __dealloc__(self):
        self.stop()

    @property
    def keeps(self):
        return self.keeper != NULL

    cpdef stop(self):
        cdef kvf_keeper *keeper = self.keeper
        self.keeper = NULL
        if keeper != NULL and getpid() == self.pid:
            with nogil:
                kvf_keeper_stop(keeper)


cdef class PeerWatch:
    cdef readonly int pidfd, sock
    cdef const kvf_pulse_page *pulse
    cdef uint64_t epoch
    cdef object mapping  # keeps the pulse mapped
    cdef public bint lost

    def __cinit__(self, pidfd, int sock, mapping=None, uint64_t epoch=0):
        self.pidfd = -1 if pidfd is None else pidfd
        self.sock = sock
        self.mapping, self.epoch = mapping, epoch
        if mapping is not None:
            self.pulse = <const kvf_pulse_page *><uintptr_t>mapping.address

    cpdef bint gone(self):
        if self.lost:
            return True
        if self.pulse != NULL:
            return not kvf_pulse_beats(self.pulse, self.epoch)
        return kvf_peer_gone(self.pidfd, self.sock) != 0

cdef extern from "watch.h" nogil:
    ctypedef struct kvf_watch:
        const kvf_pulse_page *pulse
        uint64_t epoch
        int pidfd, sock
    void kvf_watch_lose(kvf_watch *, bint lost)
    bint kvf_watch_lost(const kvf_watch *)
    bint kvf_watch_gone(const kvf_watch *)


cdef class PeerWatch:
    cdef kvf_watch watch
    cdef object mapping  # keeps the pulse mapped

    def __cinit__(self, pidfd, sock, mapping=None, uint64_t epoch=0):
        self.watch.pidfd = -1 if pidfd is None else pidfd
        self.watch.sock = -1 if sock is None else sock
        self.mapping, self.watch.epoch = mapping, epoch
        if mapping is not None:
            self.watch.pulse = <const kvf_pulse_page *><uintptr_t>mapping.address

    @property
    def pidfd(self):
        return self.watch.pidfd

    @property
    def sock(self):
        return self.watch.sock

    @property
    def lost(self):
        return kvf_watch_lost(&self.watch)

    @lost.setter
    def lost(self, bint lost):
        kvf_watch_lose(&self.watch, lost)

    cpdef bint gone(self):
        return kvf_watch_gone(&self.watch)

cdef extern from "pulse.h" nogil:
    ctypedef struct kvf_pulse_page:
        pass
    ctypedef struct kvf_keeper:
        pass
    kvf_keeper *kvf_keeper_start(kvf_pulse_page *, uint64_t epoch)
    void kvf_keeper_stop(kvf_keeper *)


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

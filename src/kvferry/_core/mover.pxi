cdef extern from "mover.h" nogil:
    ctypedef struct kvf_brake:
        kvf_done *done
        uint64_t sequence, deadline
        void *hold
    ctypedef struct kvf_mover:
        kvf_outcome (*run)(kvf_mover *, kvf_run, kvf_op, const kvf_brake *) noexcept nogil
    ctypedef struct kvf_memory_mover:
        kvf_mover mover


cdef class Mover:
    """How the bytes of a run move; kinds of links derive from it."""
    cdef kvf_mover *mover

    cdef kvf_mover *native(self, Descriptors d) noexcept:
        """What moves the bytes of these."""
        return self.mover


cdef class MoverAt(Mover):
    """A mover that lives elsewhere, at an address."""

    def __cinit__(self, uintptr_t address):
        self.mover = <kvf_mover *>address

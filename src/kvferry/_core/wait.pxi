cdef extern from "wait.h" nogil:
    const uint64_t KVF_FOREVER
    uint64_t kvf_now()


def now() -> int:
    return kvf_now()


cdef inline uint64_t deadline_of(object deadline_ns):
    return KVF_FOREVER if deadline_ns is None else <uint64_t>deadline_ns

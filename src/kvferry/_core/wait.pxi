cdef extern from "wait.h" nogil:
    const uint64_t KVF_FOREVER
    uint64_t kvf_now()

cdef extern from "poll.h" nogil:
    """
    #include <poll.h>
    /* Has the process or the connection ended? -1 stands for a descriptor there is none of. */
    static inline int kvf_peer_gone(int pidfd, int sock) {
        struct pollfd p[2] = {{pidfd, POLLIN, 0}, {sock, POLLRDHUP, 0}};
        return poll(p, 2, 0) > 0;
    }
    """
    int kvf_peer_gone(int pidfd, int sock)


def now() -> int:
    return kvf_now()


cdef inline uint64_t deadline_of(object deadline_ns):
    return KVF_FOREVER if deadline_ns is None else <uint64_t>deadline_ns

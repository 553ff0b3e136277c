cdef extern from "limit_socket.h" nogil:
    int kvf_limit_send_blocks(int fd, const char *, const int64_t *ids, size_t n, size_t block,
                              size_t batch)
    int kvf_limit_receive_blocks(int fd, char *, const int64_t *ids, size_t n, size_t block,
                                 size_t batch)
    int kvf_limit_round_trips(int fd, const char *, size_t length, uint64_t *taken, size_t n)
    int kvf_limit_echo(int fd, char *, size_t length, size_t n)


def socket_send_blocks(int fd, uint64_t source, const int64_t[::1] ids, size_t block, size_t batch):
    cdef size_t n = ids.shape[0]
    cdef int code = 0
    if n and batch:
        with nogil:
            code = kvf_limit_send_blocks(fd, <const char *>source, &ids[0], n, block, batch)
    return code


def socket_receive_blocks(int fd, uint64_t to, const int64_t[::1] ids, size_t block, size_t batch):
    cdef size_t n = ids.shape[0]
    cdef int code = 0
    if n and batch:
        with nogil:
            code = kvf_limit_receive_blocks(fd, <char *>to, &ids[0], n, block, batch)
    return code


def socket_round_trips(int fd, uint64_t source, size_t length, uint64_t[::1] taken):
    cdef size_t n = taken.shape[0]
    cdef int code = 0
    if n:
        with nogil:
            code = kvf_limit_round_trips(fd, <const char *>source, length, &taken[0], n)
    return code


def socket_echo(int fd, uint64_t to, size_t length, size_t n):
    cdef int code
    with nogil:
        code = kvf_limit_echo(fd, <char *>to, length, n)
    return code

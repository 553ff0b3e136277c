/* limit_socket.h: what a connected stream socket allows: blocks sent and received by a bare loop.
 *
 * The yardstick of paths over sockets. One end sends, the other receives into place, as many blocks
 * a system call as the kernel takes; after every batch the receiver answers with one byte, for which
 * the sender waits. Blocking sockets; functions return 0 or an errno, ECONNRESET when the other end
 * hangs up.
 */
#ifndef KVF_LIMIT_SOCKET_H
#define KVF_LIMIT_SOCKET_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "wait.h"

#define KVF_LIMIT_VECTORS 1024u

static inline void kvf_limit_pass(struct msghdr *m, size_t moved) {
    for (; m->msg_iovlen && moved >= m->msg_iov->iov_len; m->msg_iovlen--)
        moved -= m->msg_iov++->iov_len;
    if (!moved) return;
    m->msg_iov->iov_base = (char *)m->msg_iov->iov_base + moved;
    m->msg_iov->iov_len -= moved;
}

static inline int kvf_limit_send(int fd, struct iovec *v, size_t n) {
    struct msghdr m = {.msg_iov = v, .msg_iovlen = n};
    while (m.msg_iovlen) {
        ssize_t sent = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) return errno;
        if (sent > 0) kvf_limit_pass(&m, (size_t)sent);
    }
    return 0;
}

static inline int kvf_limit_receive(int fd, struct iovec *v, size_t n) {
    struct msghdr m = {.msg_iov = v, .msg_iovlen = n};
    while (m.msg_iovlen) {
        ssize_t got = recvmsg(fd, &m, MSG_WAITALL);
        if (got == 0) return ECONNRESET;
        if (got < 0 && errno != EINTR) return errno;
        if (got > 0) kvf_limit_pass(&m, (size_t)got);
    }
    return 0;
}

static inline int kvf_limit_answer(int fd) {
    char answer = 0;
    return kvf_limit_send(fd, &(struct iovec){&answer, 1}, 1);
}

static inline int kvf_limit_await_answer(int fd) {
    char answer;
    return kvf_limit_receive(fd, &(struct iovec){&answer, 1}, 1);
}

/* The head of the blocks: at most to the end of the batch that block `at` belongs to. */
static inline size_t kvf_limit_lay(struct iovec *v, const char *base, const int64_t *ids, size_t at,
                                   size_t n, size_t block, size_t batch) {
    size_t take = batch - at % batch;
    if (take > n - at) take = n - at;
    if (take > KVF_LIMIT_VECTORS) take = KVF_LIMIT_VECTORS;
    for (size_t i = 0; i < take; i++)
        v[i] = (struct iovec){(char *)base + (size_t)ids[at + i] * block, block};
    return take;
}

static inline int kvf_limit_send_blocks(int fd, const char *from, const int64_t *ids, size_t n,
                                        size_t block, size_t batch) {
    struct iovec v[KVF_LIMIT_VECTORS];
    int code = 0;
    for (size_t at = 0; !code && at < n;) {
        size_t take = kvf_limit_lay(v, from, ids, at, n, block, batch);
        code = kvf_limit_send(fd, v, take);
        at += take;
        if (!code && (at % batch == 0 || at == n)) code = kvf_limit_await_answer(fd);
    }
    return code;
}

static inline int kvf_limit_receive_blocks(int fd, char *to, const int64_t *ids, size_t n,
                                           size_t block, size_t batch) {
    struct iovec v[KVF_LIMIT_VECTORS];
    int code = 0;
    for (size_t at = 0; !code && at < n;) {
        size_t take = kvf_limit_lay(v, to, ids, at, n, block, batch);
        code = kvf_limit_receive(fd, v, take);
        at += take;
        if (!code && (at % batch == 0 || at == n)) code = kvf_limit_answer(fd);
    }
    return code;
}

/* `length` bytes there and one byte back, n times; taken[i] in nanoseconds. */
static inline int kvf_limit_round_trips(int fd, const char *from, size_t length, uint64_t *taken,
                                        size_t n) {
    int code = 0;
    for (size_t i = 0; !code && i < n; i++) {
        uint64_t begin = kvf_now();
        code = kvf_limit_send(fd, &(struct iovec){(char *)from, length}, 1);
        if (!code) code = kvf_limit_await_answer(fd);
        taken[i] = kvf_now() - begin;
    }
    return code;
}

static inline int kvf_limit_echo(int fd, char *to, size_t length, size_t n) {
    int code = 0;
    for (size_t i = 0; !code && i < n; i++) {
        code = kvf_limit_receive(fd, &(struct iovec){to, length}, 1);
        if (!code) code = kvf_limit_answer(fd);
    }
    return code;
}

#endif

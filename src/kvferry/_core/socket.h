/* socket.h: bytes between a connected socket and scattered memory, without ever blocking.
 *
 * Every call here moves what can be moved now. Who has nothing else to do polls; how that notices a
 * stop is left to the callers. It spins a little first: an answer to a small frame comes sooner than
 * a sleeping processor wakes.
 *
 *   socket -> | reader: 16 KiB |  -> headers, and the head of a body        one call for a small frame
 *          -> message: its vectors                                  the rest of it, into place
 */
#ifndef KVF_SOCKET_H
#define KVF_SOCKET_H

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "wait.h"

/* Longer than a small frame takes there and back on one host, and what is lost when it does not come. */
#define KVF_SOCKET_SPIN_NS 50000ull

typedef enum {
    KVF_IO_MOVED,
    KVF_IO_WAIT,   /* nothing can be moved now */
    KVF_IO_BROKEN, /* nothing ever will */
    KVF_IO_FAULT,  /* the memory is not there; the stream is no longer in step */
} kvf_io;

static inline kvf_io kvf_io_of(ssize_t moved) {
    if (moved > 0) return KVF_IO_MOVED;
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return KVF_IO_WAIT;
    return moved < 0 && errno == EFAULT ? KVF_IO_FAULT : KVF_IO_BROKEN;
}

/* Small frames must not wait for one another's acknowledgement. No TCP socket: no need. */
static inline void kvf_socket_prepare(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* ---- message: what is left of it ---- */

#define KVF_MESSAGE_VECTORS 1025u /* a header and every piece of a frame */

typedef struct kvf_message {
    struct iovec vector[KVF_MESSAGE_VECTORS];
    unsigned first, end;
    uint64_t left; /* bytes */
} kvf_message;

static inline void kvf_message_clear(kvf_message *m) { m->first = m->end = 0, m->left = 0; }

static inline void kvf_message_add(kvf_message *m, const void *at, uint64_t length) {
    m->vector[m->end++] = (struct iovec){(void *)at, length};
    m->left += length;
}

static inline void kvf_message_pass(kvf_message *m, uint64_t bytes) {
    m->left -= bytes;
    while (bytes && bytes >= m->vector[m->first].iov_len) bytes -= m->vector[m->first++].iov_len;
    if (!bytes) return;
    m->vector[m->first].iov_base = (char *)m->vector[m->first].iov_base + bytes;
    m->vector[m->first].iov_len -= bytes;
}

static inline struct msghdr kvf_message_header(kvf_message *m) {
    unsigned n = m->end - m->first;
    return (struct msghdr){.msg_iov = m->vector + m->first, .msg_iovlen = n < IOV_MAX ? n : IOV_MAX};
}

/* Only while something is left. */
static inline kvf_io kvf_send_some(int fd, kvf_message *m) {
    struct msghdr header = kvf_message_header(m);
    ssize_t moved = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (moved > 0) kvf_message_pass(m, (uint64_t)moved);
    return kvf_io_of(moved);
}

static inline kvf_io kvf_receive_some(int fd, kvf_message *m) {
    struct msghdr header = kvf_message_header(m);
    ssize_t moved = recvmsg(fd, &header, MSG_DONTWAIT);
    if (moved > 0) kvf_message_pass(m, (uint64_t)moved);
    return kvf_io_of(moved);
}

/* ---- reader: what came and was not looked at yet ---- */

#define KVF_READER_BYTES (16u << 10)

typedef struct kvf_reader {
    uint32_t head, tail;
    uint8_t bytes[KVF_READER_BYTES];
} kvf_reader;

static inline uint32_t kvf_reader_has(const kvf_reader *r) { return r->tail - r->head; }

static inline kvf_io kvf_reader_fill(kvf_reader *r, int fd) {
    uint32_t kept = kvf_reader_has(r);
    if (kept) memmove(r->bytes, r->bytes + r->head, kept);
    r->head = 0, r->tail = kept;
    ssize_t moved = recv(fd, r->bytes + kept, KVF_READER_BYTES - kept, MSG_DONTWAIT);
    if (moved > 0) r->tail += (uint32_t)moved;
    return kvf_io_of(moved);
}

/* At most `n` bytes of what is there; returns how many. */
static inline uint64_t kvf_reader_take(kvf_reader *r, void *to, uint64_t n) {
    if (n > kvf_reader_has(r)) n = kvf_reader_has(r);
    memcpy(to, r->bytes + r->head, n);
    r->head += (uint32_t)n;
    return n;
}

/* As much of what is there as belongs to `v`, into place. */
static inline void kvf_reader_pour(kvf_reader *r, kvf_message *m) {
    while (m->left && kvf_reader_has(r)) {
        struct iovec *to = &m->vector[m->first];
        kvf_message_pass(m, kvf_reader_take(r, to->iov_base, to->iov_len));
    }
}

/* Leave out what is there of the *left bytes, or look for more; *left is how many are still to come. */
static inline kvf_io kvf_reader_discard(kvf_reader *r, int fd, uint64_t *left) {
    uint64_t here = kvf_reader_has(r) < *left ? kvf_reader_has(r) : *left;
    if (!here) return kvf_reader_fill(r, fd);
    r->head += (uint32_t)here;
    *left -= here;
    return KVF_IO_MOVED;
}

/* ---- waiting ---- */

#define KVF_SLICE_MS ((int)(KVF_SLICE_NS / 1000000))

/* Sleep until one of `events` or an error, at most `ms`; false when interrupted by a signal. */
static inline bool kvf_await_socket(int fd, short events, int ms) {
    struct pollfd p = {.fd = fd, .events = events};
    uint64_t until = kvf_now() + KVF_SOCKET_SPIN_NS;
    do {
        if (poll(&p, 1, 0) > 0) return true;
        sched_yield(); /* the other end may be waiting for this very processor */
    } while (kvf_now() < until);
    return poll(&p, 1, ms) >= 0 || errno != EINTR;
}

#endif

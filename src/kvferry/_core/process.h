/* process.h: bytes that the kernel copies between this process and another (cross memory attach).
 *
 *   run      | piece | piece | piece | ...                    at most KVF_CHUNK bytes and
 *   local    | base, length | base, length | ...              KVF_VECTORS_MAX pieces a call
 *   remote   | base, length | base, length | ...              addresses as the peer has them
 *
 * The peer is named by a number, which the kernel may give to another process once the peer has ended
 * and was waited for. So its watch is asked before each call, lest it moves bytes of a stranger, and
 * after the last: a peer that is there then was there all the time. Between two calls one look is both.
 *
 * No store fence is needed: the kernel copies in this thread and with ordinary stores, which are
 * visible before whatever the thread stores with release afterwards (a completion word).
 */
#ifndef KVF_PROCESS_H
#define KVF_PROCESS_H

#include <sys/prctl.h>
#include <sys/uio.h>

#include "mover.h"
#include "watch.h"

#define KVF_VECTORS_MAX 1024 /* the kernel's own limit, UIO_MAXIOV */

typedef struct kvf_process_mover {
    kvf_mover mover;
    pid_t pid;
    const kvf_watch *watch;
} kvf_process_mover;

typedef struct kvf_vectors {
    struct iovec local[KVF_VECTORS_MAX], remote[KVF_VECTORS_MAX];
    unsigned long n;
} kvf_vectors;

/* The head of the run as vectors for one call. */
static inline void kvf_cut_vectors(kvf_run r, kvf_vectors *v) {
    uint64_t room = KVF_CHUNK;
    kvf_piece p;
    for (v->n = 0; v->n < KVF_VECTORS_MAX && room && kvf_next_piece(&r, room, &p); v->n++) {
        v->local[v->n] = (struct iovec){(void *)p.local, p.length};
        v->remote[v->n] = (struct iovec){(void *)p.remote, p.length};
        room -= p.length;
    }
}

/* How many bytes crossed, from the first on; or -1 and errno when none did. */
static inline ssize_t kvf_cross(pid_t pid, kvf_op op, const kvf_vectors *v) {
    return op == KVF_WRITE ? process_vm_writev(pid, v->local, v->n, v->remote, v->n, 0)
                           : process_vm_readv(pid, v->local, v->n, v->remote, v->n, 0);
}

/* Why nothing crossed. A peer that is gone may look like memory that is not there: it became another
 * program. */
static inline kvf_outcome kvf_why_not_crossed(const kvf_process_mover *m, int code) {
    return code == ESRCH || kvf_watch_gone(m->watch) ? KVF_LOST : KVF_FAULT;
}

/* A call that met memory which is not there says how much it moved before; the next one, which begins
 * there, fails. */
static inline kvf_outcome kvf_move_between(kvf_mover *mover, kvf_run r, kvf_op op,
                                           const kvf_brake *brake) {
    const kvf_process_mover *m = (kvf_process_mover *)mover;
    kvf_vectors v;
    while (r.bytes) {
        kvf_outcome outcome = kvf_brake_check(brake);
        if (outcome) return outcome;
        if (kvf_watch_gone(m->watch)) return KVF_LOST;
        kvf_cut_vectors(r, &v);
        ssize_t crossed = kvf_cross(m->pid, op, &v);
        if (crossed <= 0) return kvf_why_not_crossed(m, crossed ? errno : EFAULT);
        kvf_skip(&r, (uint64_t)crossed);
    }
    return kvf_watch_gone(m->watch) ? KVF_LOST : KVF_OK;
}

static inline void kvf_process_mover_init(kvf_process_mover *m, pid_t pid, const kvf_watch *watch) {
    *m = (kvf_process_mover){{kvf_move_between}, pid, watch};
}

/* Copy `length` bytes at `address` of a process; 0 or an errno. */
static inline int kvf_process_read(pid_t pid, uint64_t address, void *to, size_t length) {
    struct iovec here = {to, length}, there = {(void *)address, length};
    ssize_t crossed = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (crossed < 0) return errno;
    return (size_t)crossed == length ? 0 : EFAULT;
}

/* May processes of the same user look into this one, as far as its own rules go? */
static inline bool kvf_process_dumpable(void) { return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1; }

/* Let nobody but administrators look into this one, its memory or its descriptors, and keep no image of
 * it; 0 or an errno. */
static inline int kvf_process_conceal(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ? errno : 0; }

/* Let every process of the same user look into this one where Yama allows none; 0 or an errno. */
static inline int kvf_process_admit_all(void) {
    return prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) ? errno : 0;
}

#endif

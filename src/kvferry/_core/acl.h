/* acl.h: a run whose bytes the streams of an accelerator move, by ACL's functions.
 *
 *   a round   | memcpy_async | memcpy_async | ... | 8 bytes: the constant 1 -> flag |
 *               one a descriptor, at most KVF_ACL_ROUND     told by the stream's order
 *
 * The thread that carries the run out submits a round, polls the flag in pinned host memory, and asks
 * the stream now and then whether it failed, since a failed stream sets no flag. What shall stop is
 * aborted: the library's abort returns when no byte of the stream moves any more. When that fails for
 * KVF_ACL_PATIENCE_NS, or the whole library is given up, bytes may still land, and nobody can say for
 * how long: the transfer is abandoned, and never quiet.
 *
 * A copy runs between addresses by which the device reaches memory. `aliases` gives those of local
 * memory; what it does not hold is a caller's own buffer, which the library stages by itself. What
 * lies over a border is several copies.
 *
 * Owned by one stream: one run at a time. The library looks at a thread's current context; a caller's
 * own is put back.
 */
#ifndef KVF_ACL_H
#define KVF_ACL_H

#include "mover.h"
#include "reach.h"
#include "resolve.h"

#define KVF_ACL_ROUND 1919u          /* copies under way: what a device's queue holds beside the flag */
#define KVF_ACL_LOOK 64u             /* copies between two looks at the brake */
#define KVF_ACL_NAP_NS 50000ull
#define KVF_ACL_ASK_NS 1000000ull    /* between two questions to a stream whose flag is not set */
#define KVF_ACL_RETRY_NS 10000000ull /* between two aborts that failed */
#define KVF_ACL_PATIENCE_NS 5000000000ull

/* aclrtMemcpyKind and aclrtStreamStatus. */
enum { KVF_ACL_HOST_TO_DEVICE = 1, KVF_ACL_DEVICE_TO_HOST = 2, KVF_ACL_DEVICE_TO_DEVICE = 3 };
enum { KVF_ACL_COMPLETE = 0, KVF_ACL_NOT_READY = 1 };

/* The library's functions, as ctypes found them. */
typedef struct kvf_acl {
    int (*memcpy)(void *to, size_t room, const void *from, size_t n, int kind);
    int (*memcpy_async)(void *to, size_t room, const void *from, size_t n, int kind, void *stream);
    int (*query)(void *stream, int *status);
    int (*abort)(void *stream);
    int (*get_context)(void **context);
    int (*set_context)(void *context);
    _Atomic bool given_up; /* nothing it says is waited for any more */
} kvf_acl;

typedef struct kvf_acl_mover {
    kvf_mover mover;
    kvf_acl *acl;
    void *context, *stream;
    kvf_table *aliases;
    _Atomic uint64_t *flag; /* pinned host memory */
    void *one;              /* eight bytes of device memory that hold 1 */
    _Atomic bool failed;    /* a round ended early: the stream was aborted and serves no other */
    _Atomic bool abandoned; /* it could not be aborted: what it was made with stays */
} kvf_acl_mover;

typedef struct kvf_acl_reach {
    kvf_reach reach;
    kvf_acl *acl;
    void *context;
} kvf_acl_reach;

/* ---- contexts ---- */

/* Make `context` the thread's own; 0 or a code. `before` is what to put back afterwards. NULL: nothing;
 * a thread that had none keeps ours, for ACL cannot take one away. */
static inline int kvf_acl_enter(kvf_acl *a, void *context, void **before) {
    if (a->get_context(before)) *before = NULL;
    int code = *before == context ? 0 : a->set_context(context);
    if (code || *before == context) *before = NULL;
    return code;
}

static inline void kvf_acl_leave(kvf_acl *a, void *before) {
    if (before) a->set_context(before);
}

/* ---- one copy ---- */

/* A stretch of local memory: inside one alias, or between two. */
typedef struct kvf_alias {
    uint64_t base, length, delta;
    bool known;
} kvf_alias;

static inline bool kvf_alias_holds(const kvf_alias *a, uint64_t address) {
    return address - a->base < a->length;
}

/* The stretch around `address`, unless `found` is that already. */
static inline void kvf_find_alias(kvf_table *t, uint64_t address, kvf_alias *found) {
    if (kvf_alias_holds(found, address)) return;
    pthread_mutex_lock(&t->lock);
    uint64_t k = kvf_count_spans(t->row, t->n, address);
    const kvf_span *last = k ? t->row[k - 1] : NULL, *next = k < t->n ? t->row[k] : NULL;
    if (last && address - last->base < last->length) {
        *found = (kvf_alias){last->base, last->length, last->delta, true};
    } else {
        uint64_t base = last ? last->base + last->length : 0;
        *found = (kvf_alias){base, (next ? next->base : UINT64_MAX) - base, 0, false};
    }
    pthread_mutex_unlock(&t->lock);
}

/* What is left of the run's first descriptor, to the end of the stretch it begins in. */
static inline kvf_piece kvf_acl_take(kvf_run *r, kvf_table *aliases, kvf_alias *alias) {
    kvf_piece p = {r->d->local + r->skip, r->d->remote + r->skip + r->delta, r->d->length - r->skip};
    kvf_find_alias(aliases, p.local, alias);
    uint64_t rest = alias->length - (p.local - alias->base);
    if (p.length > rest) p.length = rest;
    if (p.length > r->bytes) p.length = r->bytes;
    kvf_skip(r, p.length);
    return p;
}

static inline int kvf_acl_copy(kvf_acl_mover *m, kvf_piece p, kvf_op op, const kvf_alias *alias,
                               kvf_done *done) {
    int kind = KVF_ACL_DEVICE_TO_DEVICE;
    if (alias->known) p.local += alias->delta;
    else kind = op == KVF_WRITE ? KVF_ACL_HOST_TO_DEVICE : KVF_ACL_DEVICE_TO_HOST;
    void *here = (void *)p.local, *there = (void *)p.remote;
    int code = op == KVF_WRITE
                   ? m->acl->memcpy_async(there, p.length, here, p.length, kind, m->stream)
                   : m->acl->memcpy_async(here, p.length, there, p.length, kind, m->stream);
    if (!code && !alias->known)
        atomic_fetch_add_explicit(&done->staged, p.length, memory_order_relaxed);
    return code;
}

/* ---- a round ---- */

static inline kvf_outcome kvf_acl_failed(const kvf_brake *brake, int code) {
    kvf_done_blame(brake->done, code);
    return KVF_DEVICE;
}

/* Submit copies, and the flag behind them. */
static inline kvf_outcome kvf_acl_submit(kvf_acl_mover *m, kvf_run *r, kvf_op op, kvf_alias *alias,
                                         const kvf_brake *brake) {
    for (unsigned n = 0; r->bytes && n < KVF_ACL_ROUND; n++) {
        bool look = n && n % KVF_ACL_LOOK == 0;
        kvf_outcome outcome = look ? kvf_brake_check(brake) : KVF_OK;
        if (outcome) return outcome;
        kvf_piece p = kvf_acl_take(r, m->aliases, alias);
        int code = kvf_acl_copy(m, p, op, alias, brake->done);
        if (code) return kvf_acl_failed(brake, code);
    }
    int code = m->acl->memcpy_async((void *)m->flag, sizeof *m->flag, m->one, sizeof *m->flag,
                                    KVF_ACL_DEVICE_TO_HOST, m->stream);
    return code ? kvf_acl_failed(brake, code) : KVF_OK;
}

static inline bool kvf_acl_told(kvf_acl_mover *m) {
    return atomic_load_explicit(m->flag, memory_order_acquire);
}

static inline void kvf_nap(uint64_t ns) {
    struct timespec t = {0, (long)ns};
    nanosleep(&t, NULL);
}

/* The stream is slow, or it failed and will never tell. */
static inline kvf_outcome kvf_acl_ask(kvf_acl_mover *m, const kvf_brake *brake) {
    int status = KVF_ACL_NOT_READY;
    int code = m->acl->query(m->stream, &status);
    if (code) return kvf_acl_failed(brake, code);
    bool dropped = status == KVF_ACL_COMPLETE && !kvf_acl_told(m); /* all is over, but not done */
    return dropped ? KVF_DEVICE : KVF_OK;
}

/* Until the flag is set, the stream fails or the brake stops it. */
static inline kvf_outcome kvf_acl_await(kvf_acl_mover *m, const kvf_brake *brake) {
    uint64_t now = kvf_now(), nap = now + KVF_SPIN_NS, ask = now + KVF_ACL_ASK_NS;
    while (!kvf_acl_told(m)) {
        now = kvf_now();
        if (now < nap) {
            kvf_relax();
            continue;
        }
        kvf_outcome outcome = kvf_brake_check(brake);
        if (!outcome && now >= ask) outcome = kvf_acl_ask(m, brake), ask = now + KVF_ACL_ASK_NS;
        if (outcome) return outcome;
        kvf_nap(KVF_ACL_NAP_NS);
    }
    return KVF_OK;
}

/* ---- a run ---- */

/* Return when no byte moves any more; false when nobody can say so. */
static inline bool kvf_acl_halt(kvf_acl_mover *m) {
    uint64_t until = kvf_now() + KVF_ACL_PATIENCE_NS;
    int status = KVF_ACL_COMPLETE + 1;
    while (m->acl->abort(m->stream)) {
        if (!m->acl->query(m->stream, &status) && status == KVF_ACL_COMPLETE) return true;
        if (atomic_load_explicit(&m->acl->given_up, memory_order_acquire)) return false;
        if (kvf_now() >= until) return false;
        kvf_nap(KVF_ACL_RETRY_NS);
    }
    return true;
}

/* What was submitted and did not end is aborted, and that is the end of the stream. */
static inline kvf_outcome kvf_acl_round(kvf_acl_mover *m, kvf_run *r, kvf_op op, kvf_alias *alias,
                                        const kvf_brake *brake) {
    atomic_store_explicit(m->flag, 0, memory_order_relaxed);
    kvf_outcome outcome = kvf_acl_submit(m, r, op, alias, brake);
    if (!outcome) outcome = kvf_acl_await(m, brake);
    if (!outcome) return KVF_OK;
    atomic_store_explicit(&m->failed, true, memory_order_relaxed);
    if (kvf_acl_halt(m)) return outcome;
    atomic_store_explicit(&m->abandoned, true, memory_order_relaxed);
    return KVF_ABANDONED;
}

static inline kvf_outcome kvf_acl_rounds(kvf_acl_mover *m, kvf_run r, kvf_op op, const kvf_brake *brake) {
    kvf_alias alias = {0, 0, 0, false};
    kvf_outcome outcome = KVF_OK;
    while (!outcome && r.bytes) {
        outcome = kvf_brake_check(brake); /* nothing is under way: the stream stays as good as it is */
        if (!outcome) outcome = kvf_acl_round(m, &r, op, &alias, brake);
    }
    return outcome;
}

static inline kvf_outcome kvf_acl_run(kvf_mover *mover, kvf_run r, kvf_op op, const kvf_brake *brake) {
    kvf_acl_mover *m = (kvf_acl_mover *)mover;
    if (atomic_load_explicit(&m->failed, memory_order_relaxed)) return KVF_ABORTED;
    void *before = NULL;
    int code = kvf_acl_enter(m->acl, m->context, &before);
    if (code) {
        atomic_store_explicit(&m->failed, true, memory_order_relaxed);
        return kvf_acl_failed(brake, code);
    }
    kvf_outcome outcome = kvf_acl_rounds(m, r, op, brake);
    kvf_acl_leave(m->acl, before);
    return outcome;
}

static inline void kvf_acl_mover_init(kvf_acl_mover *m, kvf_acl *acl, void *context, void *stream,
                                      kvf_table *aliases, void *flag, void *one) {
    *m = (kvf_acl_mover){.mover = {kvf_acl_run}, .acl = acl, .context = context, .stream = stream,
                         .aliases = aliases, .flag = (_Atomic uint64_t *)flag, .one = one};
}

/* ---- reach ---- */

static inline int kvf_acl_cross(kvf_reach *reach, void *to, const void *from, uint64_t n, int kind) {
    kvf_acl_reach *r = (kvf_acl_reach *)reach;
    void *before = NULL;
    int code = kvf_acl_enter(r->acl, r->context, &before);
    if (code) return code;
    code = r->acl->memcpy(to, n, from, n, kind);
    kvf_acl_leave(r->acl, before);
    return code;
}

static inline int kvf_acl_load(kvf_reach *r, void *to, uint64_t from, uint64_t n) {
    return kvf_acl_cross(r, to, (const void *)from, n, KVF_ACL_DEVICE_TO_HOST);
}

static inline int kvf_acl_store(kvf_reach *r, uint64_t to, const void *from, uint64_t n) {
    return kvf_acl_cross(r, (void *)to, from, n, KVF_ACL_HOST_TO_DEVICE);
}

static inline void kvf_acl_reach_init(kvf_acl_reach *r, kvf_acl *acl, void *context) {
    *r = (kvf_acl_reach){{kvf_acl_load, kvf_acl_store}, acl, context};
}

#endif

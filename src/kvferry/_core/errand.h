/* errand.h: one user thread's commits, any number, on their way over the desk.
 *
 *   keys   0 ......... answered | on trays, 128 each, or answered out of turn ... next | not posted ...
 *
 * Whoever makes one either sees it done or gives it up; only then are its trays free for others.
 */
#ifndef KVF_ERRAND_H
#define KVF_ERRAND_H

#include "desk.h"

typedef enum {
    KVF_DESK_DONE,
    KVF_DESK_TIMED_OUT, /* withdrawn: nothing happened to the rest */
    KVF_DESK_UNKNOWN,   /* the clerk had some of the rest */
    KVF_DESK_BUSY       /* no tray became free for the rest */
} kvf_desk_outcome;

typedef struct kvf_errand {
    kvf_desk *desk;
    kvf_bell *bell;
    kvf_commits commits;
    size_t n, next;
    uint8_t *answers;
    size_t start[KVF_TRAYS]; /* what a tray of ours carries: from this key on */
    uint32_t count[KVF_TRAYS]; /* so many; 0: it is none of ours */
    size_t got; /* answers */
} kvf_errand;

static inline void kvf_errand_post(kvf_errand *e) {
    size_t before = e->next;
    kvf_tray *s;
    while (e->next < e->n && (s = kvf_desk_claim(e->desk))) {
        size_t i = (size_t)(s - e->desk->trays), left = e->n - e->next;
        e->start[i] = e->next;
        e->count[i] = left < KVF_TRAY_RECORDS ? (uint32_t)left : KVF_TRAY_RECORDS;
        kvf_desk_post(e->desk, s, &e->commits, e->next, e->count[i]);
        e->next += e->count[i];
    }
    if (e->next != before) kvf_bell_ring(e->bell);
}

/* Is the tray answered? Then its answers are ours, and it is free. */
static inline bool kvf_errand_fetch(kvf_errand *e, unsigned i) {
    kvf_tray *s = &e->desk->trays[i];
    if (kvf_bell_heard(&s->state) != KVF_TRAY_ANSWERED) return false;
    for (uint32_t k = 0; k < e->count[i]; k++)
        e->answers[e->start[i] + k] = atomic_load_explicit(&s->answers[k], memory_order_relaxed);
    e->got += e->count[i];
    e->count[i] = 0;
    kvf_tray_free(e->desk, s, KVF_TRAY_ANSWERED);
    return true;
}

/* The one that has been out for longest, after the answers of others were fetched; NULL: none is. */
static inline kvf_tray *kvf_errand_fetch_all(kvf_errand *e) {
    size_t first = e->n;
    kvf_tray *oldest = NULL;
    for (unsigned i = 0; i < KVF_TRAYS; i++) {
        if (!e->count[i] || kvf_errand_fetch(e, i) || e->start[i] > first) continue;
        first = e->start[i], oldest = &e->desk->trays[i];
    }
    return oldest;
}

/* True once all is answered; false at `until`. Blocks. */
static inline bool kvf_errand_run(kvf_errand *e, uint64_t until) {
    for (;;) {
        kvf_errand_post(e);
        kvf_tray *oldest = kvf_errand_fetch_all(e);
        if (!oldest && e->next == e->n) return true;
        if (kvf_now() >= until) return false;
        if (oldest) kvf_tray_await(e->desk, oldest, until);
        else kvf_desk_await(e->desk, until);
    }
}

/* Of one tray, which is none of ours afterwards: DONE when it was answered at the last moment. */
static inline kvf_desk_outcome kvf_errand_leave(kvf_errand *e, unsigned i) {
    kvf_tray *s = &e->desk->trays[i];
    kvf_desk_outcome left = KVF_DESK_DONE;
    if (kvf_tray_free(e->desk, s, KVF_TRAY_POSTED)) left = KVF_DESK_TIMED_OUT;
    else if (kvf_tray_step(s, KVF_TRAY_TAKEN, KVF_TRAY_ORPHAN)) left = KVF_DESK_UNKNOWN;
    else if (!kvf_errand_fetch(e, i)) left = KVF_DESK_UNKNOWN; /* its word is garbled */
    e->count[i] = 0;
    return left;
}

/* Nobody waits any more. `answered`: of so many keys, from the first on, there are answers; the outcome
 * is of the rest. */
static inline kvf_desk_outcome kvf_errand_end(kvf_errand *e, size_t *answered) {
    kvf_desk_outcome worst = e->next < e->n ? KVF_DESK_BUSY : KVF_DESK_DONE;
    *answered = e->next;
    for (unsigned i = 0; i < KVF_TRAYS; i++) {
        if (!e->count[i]) continue;
        kvf_desk_outcome left = kvf_errand_leave(e, i);
        if (left == KVF_DESK_DONE) continue;
        if (e->start[i] < *answered) *answered = e->start[i];
        if (worst != KVF_DESK_UNKNOWN) worst = left;
    }
    return e->got > *answered ? KVF_DESK_UNKNOWN : worst;
}

#endif

/* clerk.h: who answers the desks in the node, and whose lock its ledger is behind.
 *
 *   seat   user | desk | for each tray: what is owed
 *
 * What the ledger cannot decide alone (INDEX_FULL) is owed: the tray stays TAKEN, with the other answers
 * kept here, until the catalog has spoken. Of a desk nothing is believed but what was copied from it.
 *
 * The lock is never held while waiting for anything but the processor. Seats change under it.
 *
 * One thread may wait for news: of what was stored, as the ledger counts it, or that somebody tells.
 * Both are looked at under the lock, and whoever drops that looks whether the other waits: what came
 * before the waiter looked it saw, and who comes later sees it waiting.
 */
#ifndef KVF_CLERK_H
#define KVF_CLERK_H

#include "desk.h"
#include "lock.h"

typedef struct kvf_owed {
    uint32_t count, open; /* answers, and those of them that are owed; none: nothing is */
    uint8_t answers[KVF_TRAY_RECORDS];
} kvf_owed;

typedef struct kvf_seat {
    uint64_t user;
    kvf_desk *desk;
    kvf_owed owed[KVF_TRAYS];
} kvf_seat;

typedef struct kvf_owing {
    uint64_t user, tray;
} kvf_owing;

typedef struct kvf_clerk {
    kvf_lock lock;
    kvf_ledger *ledger;
    kvf_bell *bell;
    kvf_seat *seats;
    size_t n, room;
    size_t owing;      /* trays */
    uint64_t answered; /* posts */
    _Atomic uint32_t woken;
    kvf_vain vain;
    bool news, awaited; /* under the lock: something was told; somebody sleeps on `told` */
    kvf_bell told;
} kvf_clerk;

static inline void kvf_clerk_init(kvf_clerk *c, kvf_ledger *ledger, kvf_bell *bell) {
    kvf_lock_init(&c->lock);
    c->ledger = ledger, c->bell = bell;
    c->seats = NULL, c->n = c->room = c->owing = 0, c->answered = 0;
    atomic_init(&c->woken, 0);
    atomic_init(&c->vain, 0);
    c->news = c->awaited = false;
    atomic_init(&c->told, 0);
}

static inline void kvf_clerk_free(kvf_clerk *c) { free(c->seats); }

static inline void kvf_clerk_wake(kvf_clerk *c) {
    atomic_store_explicit(&c->woken, 1, memory_order_release);
    kvf_bell_ring(c->bell);
}

static inline bool kvf_clerk_has_news(const kvf_clerk *c) { return c->news || c->ledger->arrivals_n; }

/* The lock is the caller's until then. */
static inline void kvf_clerk_drop(kvf_clerk *c) {
    bool ring = c->awaited && kvf_clerk_has_news(c);
    if (ring) c->awaited = false;
    kvf_lock_drop(&c->lock);
    if (!ring) return;
    atomic_fetch_add_explicit(&c->told, 1, memory_order_seq_cst);
    kvf_wake_all(&c->told);
}

/* ---- under the lock ---- */

static inline kvf_seat *kvf_clerk_seat_of(const kvf_clerk *c, uint64_t user) {
    for (size_t i = 0; i < c->n; i++)
        if (c->seats[i].user == user) return &c->seats[i];
    return NULL;
}

/* False: no memory. What the user posted before is answered, too. */
static inline bool kvf_clerk_seat(kvf_clerk *c, uint64_t user, kvf_desk *desk) {
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 8;
        kvf_seat *seats = realloc(c->seats, room * sizeof *seats);
        if (!seats) return false;
        c->seats = seats, c->room = room;
    }
    kvf_seat *seat = memset(&c->seats[c->n++], 0, sizeof *seat);
    seat->user = user, seat->desk = desk;
    kvf_bell_ring(c->bell);
    return true;
}

static inline void kvf_clerk_answer(kvf_clerk *c, kvf_seat *seat, unsigned i, const uint8_t *answers,
                                    uint32_t count) {
    c->answered++;
    kvf_tray_answer(seat->desk, &seat->desk->trays[i], answers, count);
}

static inline void kvf_clerk_pay(kvf_clerk *c, kvf_seat *seat, unsigned i) {
    kvf_owed *owed = &seat->owed[i];
    owed->open = 0, c->owing--;
    kvf_clerk_answer(c, seat, i, owed->answers, owed->count);
}

/* Its desk is not looked at any more. What is owed it gets as it is: refused. */
static inline bool kvf_clerk_unseat(kvf_clerk *c, uint64_t user) {
    kvf_seat *seat = kvf_clerk_seat_of(c, user);
    if (!seat) return false;
    for (unsigned i = 0; i < KVF_TRAYS; i++)
        if (seat->owed[i].open) kvf_clerk_pay(c, seat, i);
    *seat = c->seats[--c->n];
    return true;
}

/* The first `room` trays that are owed something. */
static inline size_t kvf_clerk_owing(const kvf_clerk *c, kvf_owing *out, size_t room) {
    size_t n = 0;
    for (size_t k = 0; k < c->n; k++)
        for (unsigned i = 0; i < KVF_TRAYS && n < room; i++)
            if (c->seats[k].owed[i].open) out[n++] = (kvf_owing){c->seats[k].user, i};
    return n;
}

static inline kvf_owed *kvf_clerk_owed(const kvf_clerk *c, uint64_t user, uint64_t tray, kvf_seat **seat) {
    *seat = kvf_clerk_seat_of(c, user);
    return *seat && tray < KVF_TRAYS && (*seat)->owed[tray].open ? &(*seat)->owed[tray] : NULL;
}

/* A copy of the records that are owed an answer, at most KVF_TRAY_RECORDS. */
static inline size_t kvf_clerk_records(const kvf_clerk *c, uint64_t user, uint64_t tray, kvf_commit *out) {
    kvf_seat *seat;
    const kvf_owed *owed = kvf_clerk_owed(c, user, tray, &seat);
    size_t n = 0;
    for (uint32_t i = 0; owed && i < owed->count; i++)
        if (owed->answers[i] == KVF_SAY_INDEX_FULL) out[n++] = kvf_tray_read(&seat->desk->trays[tray], i);
    return n;
}

typedef enum { KVF_PAID, KVF_NOT_OWED, KVF_NOT_SO_MANY } kvf_payment;

/* The answers of those records. */
static inline kvf_payment kvf_clerk_settle(kvf_clerk *c, uint64_t user, uint64_t tray,
                                           const uint8_t *answers, size_t n) {
    kvf_seat *seat;
    kvf_owed *owed = kvf_clerk_owed(c, user, tray, &seat);
    if (!owed) return KVF_NOT_OWED;
    if (n != owed->open) return KVF_NOT_SO_MANY;
    for (uint32_t i = 0; i < owed->count; i++)
        if (owed->answers[i] == KVF_SAY_INDEX_FULL) owed->answers[i] = *answers++;
    kvf_clerk_pay(c, seat, (unsigned)tray);
    return KVF_PAID;
}

/* How many of the answers are owed yet. */
static inline uint32_t kvf_clerk_commit(kvf_clerk *c, const kvf_seat *seat, unsigned tray, kvf_owed *to) {
    kvf_commit commits[KVF_TRAY_RECORDS];
    kvf_digest digests[KVF_TRAY_RECORDS];
    to->count = kvf_tray_count(&seat->desk->trays[tray]), to->open = 0;
    for (uint32_t i = 0; i < to->count; i++) {
        commits[i] = kvf_tray_read(&seat->desk->trays[tray], i);
        digests[i] = commits[i].digest;
    }
    for (uint32_t i = 0; i < to->count; i++) {
        kvf_index_expect(c->ledger->index, digests, i, to->count);
        to->answers[i] = kvf_ledger_commit(c->ledger, seat->user, &commits[i]);
        to->open += to->answers[i] == KVF_SAY_INDEX_FULL;
    }
    return to->open;
}

static inline void kvf_clerk_take(kvf_clerk *c, kvf_seat *seat, unsigned i) {
    kvf_owed *owed = &seat->owed[i];
    if (owed->open || !kvf_tray_step(&seat->desk->trays[i], KVF_TRAY_POSTED, KVF_TRAY_TAKEN)) return;
    if (kvf_clerk_commit(c, seat, i, owed)) c->owing++;
    else kvf_clerk_answer(c, seat, i, owed->answers, owed->count);
}

/* True: there was something on the desk. */
static inline bool kvf_clerk_look(kvf_clerk *c, kvf_seat *seat) {
    if (!atomic_load_explicit(&seat->desk->posted, memory_order_seq_cst)) return false;
    uint64_t posted = atomic_exchange_explicit(&seat->desk->posted, 0, memory_order_seq_cst);
    for (unsigned i = 0; i < KVF_TRAYS; i++)
        if (posted >> i & 1) kvf_clerk_take(c, seat, i);
    return true;
}

static inline bool kvf_clerk_look_around(kvf_clerk *c) {
    bool something = false;
    for (size_t i = 0; i < c->n; i++) something |= kvf_clerk_look(c, &c->seats[i]);
    return something;
}

/* ---- without the lock ---- */

/* Answer desks until something is owed, or it is woken: true; or until then: false. Blocks. */
static inline bool kvf_clerk_serve(kvf_clerk *c, uint64_t until) {
    for (;;) {
        uint32_t heard = kvf_bell_heard(c->bell);
        kvf_lock_take(&c->lock);
        bool worked = kvf_clerk_look_around(c), owing = c->owing;
        kvf_clerk_drop(c);
        if (atomic_exchange_explicit(&c->woken, 0, memory_order_acquire) || owing) return true;
        if (kvf_now() >= until) return false;
        /* After an answer more work is likely at hand. */
        if (!worked || !kvf_bell_spin(c->bell, heard, &c->vain, until)) kvf_bell_sleep(c->bell, heard, until);
    }
}

/* Sleep until there is news since this was true the last time, or something stored that the catalog has
 * not taken: true; or until then: false. One thread at a time. Blocks. */
static inline bool kvf_clerk_await(kvf_clerk *c, uint64_t until) {
    for (;;) {
        uint32_t seen = kvf_bell_heard(&c->told);
        uint64_t now = kvf_now();
        kvf_lock_take(&c->lock);
        bool news = kvf_clerk_has_news(c);
        c->news = false, c->awaited = !news && now < until;
        kvf_lock_drop(&c->lock);
        if (news || now >= until) return news;
        kvf_sleep_while(&c->told, seen, until - now);
    }
}

#endif

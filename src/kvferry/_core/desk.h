/* desk.h: the part of a user's memory through which it commits what it wrote, without a message. Its
 * user and the node map it to write, nobody else has it. Zeroed memory is a desk where nothing lies.
 *
 *   head    | posted u64, a bit for each tray |               one cache line
 *           | freed u32 | waiting u32 | vain u32 |            another: for threads that want a tray
 *   trays   8 x | state u32 | asleep u32 | count u32 |        one cache line
 *               | 128 records of 64 bytes |                   kvf_commit, in words
 *               | 128 answers u8 |                            kvf_answer
 *
 * States of a tray; every step is a compare-and-swap of its word, on which its user sleeps:
 *
 *   from      to        who    when
 *   FREE      CLAIMED   user   a thread of it fills the tray, whose it is until it is FREE again
 *   CLAIMED   POSTED    user   the records are there; then the bit is set, and the bell of the node rung
 *   POSTED    FREE      user   withdrawn: nothing happened
 *   POSTED    TAKEN     clerk  the records are read
 *   TAKEN     ANSWERED  clerk  the answers are there
 *   TAKEN     ORPHAN    user   the thread waits no longer: what happened, it does not know
 *   ANSWERED  FREE      user   the answers are read
 *   ORPHAN    FREE      clerk  there is an answer, and nobody to read it
 *
 * The clerk reads the bell before the bits, and takes them all before it looks at the trays: what is
 * posted later rings later. A step and the look at `asleep` (`waiting`) after it, and on the other side
 * the announcement there and the look at the state after it, are seq_cst: one sees the other.
 *
 * What the user may change meanwhile is read once, by relaxed loads, and then believed.
 */
#ifndef KVF_DESK_H
#define KVF_DESK_H

#include "bell.h"
#include "ledger.h"

#define KVF_TRAYS 8u
#define KVF_TRAY_RECORDS 128u
#define KVF_RECORD_WORDS (sizeof(kvf_commit) / 8)

typedef enum {
    KVF_TRAY_FREE,
    KVF_TRAY_CLAIMED,
    KVF_TRAY_POSTED,
    KVF_TRAY_TAKEN,
    KVF_TRAY_ANSWERED,
    KVF_TRAY_ORPHAN
} kvf_tray_state;

typedef struct kvf_tray {
    _Alignas(64) kvf_bell state;
    _Atomic uint32_t asleep, count;
    _Alignas(64) _Atomic uint64_t records[KVF_TRAY_RECORDS][KVF_RECORD_WORDS];
    _Atomic uint8_t answers[KVF_TRAY_RECORDS];
} kvf_tray;

typedef struct kvf_desk {
    _Alignas(64) _Atomic uint64_t posted;
    _Alignas(64) kvf_bell freed;
    _Atomic uint32_t waiting;
    kvf_vain vain; /* the user's */
    kvf_tray trays[KVF_TRAYS];
} kvf_desk;
_Static_assert(sizeof(kvf_tray) == 64 + 128 * 64 + 128, "a tray as it is drawn");
_Static_assert(sizeof(kvf_desk) == 128 + 8 * sizeof(kvf_tray), "a desk as it is drawn");

/* NULL: too short, or not aligned to a cache line. */
static inline kvf_desk *kvf_desk_at(uintptr_t base, uint64_t bytes) {
    return bytes < sizeof(kvf_desk) || base % 64 ? NULL : (kvf_desk *)base;
}

/* ---- both sides ---- */

static inline bool kvf_tray_step(kvf_tray *s, uint32_t from, uint32_t to) {
    return atomic_compare_exchange_strong_explicit(&s->state, &from, to, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

static inline bool kvf_tray_free(kvf_desk *d, kvf_tray *s, uint32_t from) {
    if (!kvf_tray_step(s, from, KVF_TRAY_FREE)) return false;
    if (atomic_load_explicit(&d->waiting, memory_order_seq_cst)) kvf_bell_ring(&d->freed);
    return true;
}

/* ---- the user ---- */

/* NULL when all are in use. */
static inline kvf_tray *kvf_desk_claim(kvf_desk *d) {
    for (unsigned i = 0; i < KVF_TRAYS; i++)
        if (kvf_bell_heard(&d->trays[i].state) == KVF_TRAY_FREE &&
            kvf_tray_step(&d->trays[i], KVF_TRAY_FREE, KVF_TRAY_CLAIMED))
            return &d->trays[i];
    return NULL;
}

static inline void kvf_tray_write(kvf_tray *s, size_t at, const kvf_commit *c) {
    uint64_t words[KVF_RECORD_WORDS];
    memcpy(words, c, sizeof words);
    for (size_t i = 0; i < KVF_RECORD_WORDS; i++)
        atomic_store_explicit(&s->records[at][i], words[i], memory_order_relaxed);
}

/* The tray is claimed. Whoever posted rings the bell, once for all. */
static inline void kvf_desk_post(kvf_desk *d, kvf_tray *s, const kvf_commits *commits, size_t start,
                                 uint32_t count) {
    for (size_t i = 0; i < count; i++) {
        kvf_commit c = kvf_commit_at(commits, start + i);
        kvf_tray_write(s, i, &c);
    }
    atomic_store_explicit(&s->count, count, memory_order_relaxed);
    kvf_tray_step(s, KVF_TRAY_CLAIMED, KVF_TRAY_POSTED);
    atomic_fetch_or_explicit(&d->posted, 1ull << (s - d->trays), memory_order_seq_cst);
}

static inline bool kvf_tray_lies(uint32_t state) {
    return state == KVF_TRAY_POSTED || state == KVF_TRAY_TAKEN;
}

/* Until it is answered, or the deadline, or one slice. */
static inline void kvf_tray_await(kvf_desk *d, kvf_tray *s, uint64_t deadline) {
    uint32_t state = kvf_bell_heard(&s->state);
    if (!kvf_tray_lies(state) || kvf_bell_spin(&s->state, state, &d->vain, deadline)) return;
    atomic_store_explicit(&s->asleep, 1, memory_order_seq_cst);
    state = kvf_bell_heard(&s->state);
    if (kvf_tray_lies(state)) kvf_bell_sleep(&s->state, state, deadline);
    atomic_store_explicit(&s->asleep, 0, memory_order_relaxed);
}

/* Until there may be a free tray, or the deadline, or one slice. */
static inline void kvf_desk_await(kvf_desk *d, uint64_t deadline) {
    atomic_fetch_add_explicit(&d->waiting, 1, memory_order_seq_cst);
    uint32_t heard = kvf_bell_heard(&d->freed);
    bool free = false;
    for (unsigned i = 0; i < KVF_TRAYS; i++)
        free |= kvf_bell_heard(&d->trays[i].state) == KVF_TRAY_FREE;
    if (!free) kvf_bell_sleep(&d->freed, heard, deadline);
    atomic_fetch_sub_explicit(&d->waiting, 1, memory_order_relaxed);
}

/* ---- the clerk ---- */

static inline kvf_commit kvf_tray_read(const kvf_tray *s, size_t at) {
    uint64_t words[KVF_RECORD_WORDS];
    for (size_t i = 0; i < KVF_RECORD_WORDS; i++)
        words[i] = atomic_load_explicit(&s->records[at][i], memory_order_relaxed);
    kvf_commit c;
    memcpy(&c, words, sizeof c);
    return c;
}

static inline uint32_t kvf_tray_count(const kvf_tray *s) {
    uint32_t count = atomic_load_explicit(&s->count, memory_order_relaxed);
    return count < KVF_TRAY_RECORDS ? count : KVF_TRAY_RECORDS;
}

static inline void kvf_tray_answer(kvf_desk *d, kvf_tray *s, const uint8_t *answers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        atomic_store_explicit(&s->answers[i], answers[i], memory_order_relaxed);
    if (!kvf_tray_step(s, KVF_TRAY_TAKEN, KVF_TRAY_ANSWERED)) {
        kvf_tray_free(d, s, KVF_TRAY_ORPHAN);
        return;
    }
    if (atomic_load_explicit(&s->asleep, memory_order_seq_cst)) kvf_bell_wake(&s->state);
}

#endif

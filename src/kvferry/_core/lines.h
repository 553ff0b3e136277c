/* lines.h: what one user process tells the node without asking it. The user writes, the node looks.
 *
 *   counters   | hits | bytes | absent | retried | too small | changing | no line | corrupt |  u64 each
 *   head       touches so far u64                                            one cache line
 *   touches    8,192 x | slot u32 | low half of the generation u32 |        the oldest are written over
 *   misses     likewise a head, and 2,048 x the second half of the digest of a key that was not found
 *   hazards    one cache line each: | generation u64 | since u64 | owner u64 |   to the memory's end
 *
 * Nobody but its user and the node has this memory, so nobody clears another's hazards. Zeroed memory
 * is unused. `owner` is the thread (as pthread_self names it) that has claimed the line, 0 nobody; the
 * extent of the object of `generation` is not used again as long as a line names it; `since` is when
 * it was claimed, in nanoseconds of the monotonic clock. KVF_LEFT owns the lines of a user that leaves.
 *
 * The node believes nothing of it but that a named generation is held.
 */
#ifndef KVF_LINES_H
#define KVF_LINES_H

#include <pthread.h>

#include "index.h"
#include "wait.h"

#define KVF_TOUCHES 8192u
#define KVF_MISSES 2048u
#define KVF_LEFT UINT64_MAX

typedef enum {
    KVF_HITS,
    KVF_HIT_BYTES,
    KVF_ABSENTS,
    KVF_RETRIES,
    KVF_TOO_SMALLS,
    KVF_CHANGINGS,
    KVF_NO_LINES,
    KVF_CORRUPTS,
    KVF_COUNTERS
} kvf_counter;

typedef struct kvf_hazard {
    _Alignas(64) _Atomic uint64_t generation;
    _Atomic uint64_t since, owner;
} kvf_hazard;

typedef struct kvf_lines_memory {
    _Alignas(64) _Atomic uint64_t counters[KVF_COUNTERS];
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t touches[KVF_TOUCHES];
    _Alignas(64) _Atomic uint64_t missed;
    _Alignas(64) _Atomic uint64_t misses[KVF_MISSES];
    kvf_hazard hazards[];
} kvf_lines_memory;

/* Process-private. */
typedef struct kvf_lines {
    kvf_lines_memory *memory;
    uint64_t n;
    _Atomic uint64_t next; /* where a user looks for a free line first */
    uint64_t drained;      /* how far the node has read the touches, */
    uint64_t looked_up;    /* and the misses */
} kvf_lines;

static inline uint64_t kvf_lines_bytes(uint64_t lines) {
    return sizeof(kvf_lines_memory) + lines * sizeof(kvf_hazard);
}

/* False: too short for a line, or not aligned to a cache line. */
static inline bool kvf_lines_at(kvf_lines *l, uintptr_t base, uint64_t bytes) {
    if (bytes < kvf_lines_bytes(1) || base % 64) return false;
    l->memory = (kvf_lines_memory *)base;
    l->n = (bytes - sizeof(kvf_lines_memory)) / sizeof(kvf_hazard);
    l->drained = l->looked_up = 0;
    atomic_init(&l->next, 0);
    return true;
}

/* ---- the user ---- */

static inline void kvf_count(kvf_lines *l, kvf_counter counter, uint64_t by) {
    atomic_fetch_add_explicit(&l->memory->counters[counter], by, memory_order_relaxed);
}

static inline void kvf_touch(kvf_lines *l, const kvf_stay *stay) {
    uint64_t at = atomic_fetch_add_explicit(&l->memory->head, 1, memory_order_relaxed);
    atomic_store_explicit(&l->memory->touches[at % KVF_TOUCHES],
                          stay->slot << 32 | (uint32_t)kvf_generation(stay->tag), memory_order_release);
}

static inline void kvf_miss(kvf_lines *l, kvf_digest d) {
    uint64_t at = atomic_fetch_add_explicit(&l->memory->missed, 1, memory_order_relaxed);
    atomic_store_explicit(&l->memory->misses[at % KVF_MISSES], d.half[1], memory_order_release);
}

static inline bool kvf_claim_line(kvf_hazard *h, uint64_t owner) {
    uint64_t nobody = 0;
    return atomic_load_explicit(&h->owner, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong_explicit(&h->owner, &nobody, owner, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* NULL when all are taken. */
static inline kvf_hazard *kvf_claim(kvf_lines *l) {
    uint64_t start = atomic_load_explicit(&l->next, memory_order_relaxed);
    for (uint64_t i = 0; i < l->n; i++) {
        uint64_t at = start + i < l->n ? start + i : start + i - l->n;
        kvf_hazard *h = &l->memory->hazards[at];
        if (!kvf_claim_line(h, (uint64_t)(uintptr_t)pthread_self())) continue;
        atomic_store_explicit(&h->since, kvf_now(), memory_order_relaxed);
        atomic_store_explicit(&l->next, at + 1 < l->n ? at + 1 : 0, memory_order_relaxed);
        return h;
    }
    return NULL;
}

static inline void kvf_publish(kvf_hazard *h, uint64_t generation) {
    atomic_store_explicit(&h->generation, generation, memory_order_seq_cst);
}

/* Whoever sees this sees that all reading before it is over. */
static inline void kvf_clear(kvf_hazard *h) {
    atomic_store_explicit(&h->generation, 0, memory_order_release);
}

static inline void kvf_give_back(kvf_lines *l, kvf_hazard *h) {
    kvf_clear(h);
    atomic_store_explicit(&h->owner, 0, memory_order_release);
    atomic_store_explicit(&l->next, (uint64_t)(h - l->memory->hazards), memory_order_relaxed);
}

/* The user leaves: no line is claimed any more. How many are in use still. */
static inline uint64_t kvf_leave_lines(kvf_lines *l) {
    uint64_t left = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        kvf_hazard *h = &l->memory->hazards[i];
        left += !kvf_claim_line(h, KVF_LEFT) && kvf_load(&h->owner) != KVF_LEFT;
    }
    return left;
}

/* ---- the node ---- */

/* Marks which of the generations, in ascending order, a line names; others stay as they are. */
static inline void kvf_scan_hazards(const kvf_lines *l, const uint64_t *generations, size_t n,
                                    uint8_t *held) {
    for (uint64_t i = 0; i < l->n; i++) {
        uint64_t named =
            atomic_load_explicit(&l->memory->hazards[i].generation, memory_order_seq_cst);
        if (!named) continue;
        size_t low = 0, high = n;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (generations[middle] < named) low = middle + 1;
            else high = middle;
        }
        for (; low < n && generations[low] == named; low++) held[low] = 1;
    }
}

static inline void kvf_read_counters(const kvf_lines *l, uint64_t *out) {
    for (int i = 0; i < KVF_COUNTERS; i++)
        out[i] = atomic_load_explicit(&l->memory->counters[i], memory_order_relaxed);
}

/* A claimed line as the node reports it. */
typedef struct kvf_claimed_line {
    uint64_t line, generation, since, owner;
} kvf_claimed_line;

static inline size_t kvf_claimed(const kvf_lines *l, kvf_claimed_line *out) {
    size_t n = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        const kvf_hazard *h = &l->memory->hazards[i];
        uint64_t owner = kvf_load(&h->owner);
        if (owner && owner != KVF_LEFT) out[n++] = (kvf_claimed_line){i, kvf_load(&h->generation), kvf_load(&h->since), owner};
    }
    return n;
}

/* What was written to a ring since `*seen` and not written over; it is seen now. One caller at a time.
 * A word that is on its way is missed, or shows the one before it in its place. */
static inline size_t kvf_drain(const _Atomic uint64_t *head, const _Atomic uint64_t *ring, uint64_t size,
                               uint64_t *seen, uint64_t *out) {
    uint64_t end = atomic_load_explicit(head, memory_order_relaxed);
    uint64_t count = end - *seen < size ? end - *seen : size;
    size_t n = 0;
    for (uint64_t at = end - count; at != end; at++) {
        uint64_t word = kvf_load(&ring[at % size]);
        if (word) out[n++] = word;
    }
    *seen = end;
    return n;
}

/* At most KVF_TOUCHES words. */
static inline size_t kvf_drain_touches(kvf_lines *l, uint64_t *out) {
    return kvf_drain(&l->memory->head, l->memory->touches, KVF_TOUCHES, &l->drained, out);
}

/* At most KVF_MISSES words. */
static inline size_t kvf_drain_misses(kvf_lines *l, uint64_t *out) {
    return kvf_drain(&l->memory->missed, l->memory->misses, KVF_MISSES, &l->looked_up, out);
}

static inline bool kvf_anything_touched(const kvf_lines *l) {
    return atomic_load_explicit(&l->memory->head, memory_order_relaxed) != l->drained;
}

#endif

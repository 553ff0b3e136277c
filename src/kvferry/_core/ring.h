/* ring.h: a queue of cache-line entries from one producer to one consumer.
 *
 *   | head | pad | tail | pad | entry 0 | entry 1 | ... | entry mask |
 *
 * head is written by the producer alone, tail by the consumer alone; both only rise. An entry is
 * filled before head is stored (release) and copied out before tail is stored (release), so neither
 * side ever reads what the other is writing. Private to one process.
 */
#ifndef KVF_RING_H
#define KVF_RING_H

#include "mover.h"

typedef enum {
    KVF_ENTRY_COPY,
    KVF_ENTRY_FLAG,   /* completes a word of the line */
    KVF_ENTRY_NOTIFY, /* moves the stream's own counter */
    KVF_ENTRY_BATCH,  /* a whole batch, for a coprocessor to unfold */
} kvf_entry_kind;

struct kvf_batch;

typedef struct kvf_entry {
    uint32_t kind;
    uint32_t op;
    kvf_done *done;
    uint64_t sequence;
    union {
        uint64_t word;    /* FLAG: which word of the line; NOTIFY: what the counter becomes */
        kvf_mover *mover; /* COPY */
        const struct kvf_batch *batch; /* BATCH: only for who has claimed it */
    };
    kvf_run run; /* COPY, BATCH */
} kvf_entry;
_Static_assert(sizeof(kvf_entry) == 64, "an entry is one cache line");

#define KVF_RING_ENTRIES 64u /* a stream serves one transfer at a time: a few runs and a flag */

typedef struct kvf_ring {
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) kvf_entry entry[KVF_RING_ENTRIES];
} kvf_ring;

static inline bool kvf_ring_push(kvf_ring *r, const kvf_entry *e) {
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    if (head - atomic_load_explicit(&r->tail, memory_order_acquire) == KVF_RING_ENTRIES) return false;
    r->entry[head % KVF_RING_ENTRIES] = *e;
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return true;
}

static inline bool kvf_ring_pop(kvf_ring *r, kvf_entry *e) {
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    if (atomic_load_explicit(&r->head, memory_order_acquire) == tail) return false;
    *e = r->entry[tail % KVF_RING_ENTRIES];
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

/* Is the oldest entry one of transfer `d`? Only while nobody pops. */
static inline bool kvf_ring_serves(const kvf_ring *r, const kvf_done *d) {
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    return atomic_load_explicit(&r->head, memory_order_acquire) != tail &&
           r->entry[tail % KVF_RING_ENTRIES].done == d;
}

static inline bool kvf_ring_full(const kvf_ring *r) {
    return atomic_load_explicit(&r->head, memory_order_acquire) -
               atomic_load_explicit(&r->tail, memory_order_acquire) >=
           KVF_RING_ENTRIES;
}

static inline bool kvf_ring_empty(const kvf_ring *r) {
    return atomic_load_explicit(&r->head, memory_order_acquire) ==
           atomic_load_explicit(&r->tail, memory_order_acquire);
}

#endif

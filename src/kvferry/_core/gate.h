/* gate.h: many may be inside, until somebody closes it and waits for the last to leave.
 *
 *   state  | 63 closed | 62 forked | 61..0 how many are inside |
 *
 * enter and leave are one atomic addition each. A refused entry leaves again at once, so the count
 * may show a visitor who is on the way out; drain waits for those as well. Leaving looks at the gate
 * no more: once it is drained it may be freed, although the last one, who names its address to the
 * kernel yet, is on the way to wake whoever drains.
 */
#ifndef KVF_GATE_H
#define KVF_GATE_H

#include "wait.h"

#define KVF_GATE_CLOSED (1ull << 63)
#define KVF_GATE_FORKED (1ull << 62)
#define KVF_GATE_COUNT (KVF_GATE_FORKED - 1)

typedef enum { KVF_ENTERED, KVF_CLOSED, KVF_FORKED } kvf_gate_code;

typedef struct kvf_gate {
    _Atomic uint64_t state;
} kvf_gate;

/* What who drains sleeps on: the low half of how many are inside. */
static inline _Atomic uint32_t *kvf_gate_word(kvf_gate *g) { return (_Atomic uint32_t *)&g->state; }

static inline void kvf_gate_init(kvf_gate *g) {
    atomic_init(&g->state, 0);
}

static inline void kvf_gate_leave(kvf_gate *g) {
    uint64_t before = atomic_fetch_sub_explicit(&g->state, 1, memory_order_acq_rel);
    if ((before & KVF_GATE_CLOSED) && (before & KVF_GATE_COUNT) == 1) kvf_wake_all(kvf_gate_word(g));
}

static inline kvf_gate_code kvf_gate_enter(kvf_gate *g) {
    uint64_t before = atomic_fetch_add_explicit(&g->state, 1, memory_order_acq_rel);
    if (!(before & ~KVF_GATE_COUNT)) return KVF_ENTERED;
    kvf_gate_leave(g);
    return (before & KVF_GATE_FORKED) ? KVF_FORKED : KVF_CLOSED;
}

/* True for the one caller who closed it. */
static inline bool kvf_gate_close(kvf_gate *g) {
    uint64_t before = atomic_fetch_or_explicit(&g->state, KVF_GATE_CLOSED, memory_order_acq_rel);
    return !(before & KVF_GATE_CLOSED);
}

/* In a forked child nobody inside will ever leave, so the count is forgotten. */
static inline void kvf_gate_fork(kvf_gate *g) {
    atomic_store_explicit(&g->state, KVF_GATE_CLOSED | KVF_GATE_FORKED, memory_order_release);
}

/* For who is inside and waits for something: does somebody wait for him? */
static inline bool kvf_gate_closed(const kvf_gate *g) {
    return atomic_load_explicit(&g->state, memory_order_acquire) & KVF_GATE_CLOSED;
}

static inline uint64_t kvf_gate_inside(const kvf_gate *g) {
    return atomic_load_explicit(&g->state, memory_order_acquire) & KVF_GATE_COUNT;
}

/* After close: true once nobody is inside; false at the deadline or after one slice. */
static inline bool kvf_gate_drain(kvf_gate *g, uint64_t deadline) {
    uint64_t inside = kvf_gate_inside(g);
    if (inside == 0) return true;
    kvf_sleep_while(kvf_gate_word(g), (uint32_t)inside, kvf_slice(kvf_now(), deadline));
    return kvf_gate_inside(g) == 0;
}

#endif

/* lock.h: one thread after the other, in the order in which they asked. The holder may take it again.
 *
 *   next  the ticket that the next to ask gets    turn  the ticket of who holds it, or may
 *
 * In order, because one who takes it again and again must not keep the others out.
 */
#ifndef KVF_LOCK_H
#define KVF_LOCK_H

#include <pthread.h>

#include "wait.h"

typedef struct kvf_lock {
    _Atomic uint32_t next;
    kvf_turn turn;
    _Atomic uint64_t holder; /* as pthread_self names it; 0 nobody */
    uint32_t depth;          /* the holder's */
} kvf_lock;

static inline void kvf_lock_init(kvf_lock *l) {
    atomic_init(&l->next, 0);
    atomic_init(&l->turn.now, 0);
    atomic_init(&l->turn.waiters, 0);
    atomic_init(&l->holder, 0);
    l->depth = 0;
}

static inline bool kvf_lock_mine(const kvf_lock *l) {
    return atomic_load_explicit(&l->holder, memory_order_relaxed) == (uint64_t)(uintptr_t)pthread_self();
}

static inline void kvf_lock_enter(kvf_lock *l) {
    if (l->depth++) return;
    atomic_store_explicit(&l->holder, (uint64_t)(uintptr_t)pthread_self(), memory_order_relaxed);
}

/* False: it would have to wait. */
static inline bool kvf_lock_try(kvf_lock *l) {
    if (!kvf_lock_mine(l)) {
        uint32_t free = kvf_turn_now(&l->turn);
        if (!atomic_compare_exchange_strong_explicit(&l->next, &free, free + 1, memory_order_relaxed,
                                                     memory_order_relaxed))
            return false;
    }
    kvf_lock_enter(l);
    return true;
}

static inline void kvf_lock_take(kvf_lock *l) {
    if (!kvf_lock_mine(l)) {
        uint32_t ticket = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed), now;
        while ((now = kvf_turn_now(&l->turn)) != ticket) kvf_turn_await(&l->turn, now, KVF_FOREVER);
    }
    kvf_lock_enter(l);
}

static inline void kvf_lock_drop(kvf_lock *l) {
    if (--l->depth) return;
    atomic_store_explicit(&l->holder, 0, memory_order_relaxed);
    kvf_turn_pass(&l->turn, kvf_turn_now(&l->turn) + 1);
}

#endif

/* pulse.h: a page by which other processes see that this one lives, without a system call.
 *
 *   page  | node | owner u32 | epoch u64 |          others map it, and may not write it
 *
 * owner holds the id of a keeper thread that sleeps as long as the engine is open. The word is on the
 * robust list of that thread: when the thread ends, however it ends (exit, SIGKILL, exec), the kernel
 * itself sets FUTEX_OWNER_DIED in it, before the process can be waited for. epoch is set back to 0
 * when the engine is closed while its process lives on.
 *
 * The keeper's own list head lies on its stack; node is the only entry, and refers back to the head.
 */
#ifndef KVF_PULSE_H
#define KVF_PULSE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#include "wait.h"

typedef struct kvf_pulse_page {
    struct robust_list node;
    _Atomic uint32_t owner;
    _Atomic uint64_t epoch;
} kvf_pulse_page;

typedef struct kvf_keeper {
    kvf_pulse_page *page;
    pthread_t thread;
    _Atomic uint32_t state; /* futex: STARTING, then KEEPING or FAILED, then STOPPING */
} kvf_keeper;

enum { KVF_KEEPER_STARTING, KVF_KEEPER_KEEPING, KVF_KEEPER_FAILED, KVF_KEEPER_STOPPING };

static inline void kvf_keeper_says(kvf_keeper *k, uint32_t state) {
    atomic_store_explicit(&k->state, state, memory_order_release);
    kvf_wake_all(&k->state);
}

static inline uint32_t kvf_keeper_leaves(kvf_keeper *k, uint32_t state) {
    uint32_t now;
    while ((now = atomic_load_explicit(&k->state, memory_order_acquire)) == state)
        kvf_sleep_while(&k->state, state, KVF_FOREVER / 2);
    return now;
}

static inline void *kvf_keeper_main(void *argument) {
    kvf_keeper *k = argument;
    kvf_pulse_page *page = k->page;
    struct robust_list_head head = {
        .list = {&page->node},
        .futex_offset = (long)offsetof(kvf_pulse_page, owner) - (long)offsetof(kvf_pulse_page, node),
        .list_op_pending = NULL,
    };
    page->node.next = &head.list;
    atomic_store_explicit(&page->owner, (uint32_t)syscall(SYS_gettid), memory_order_release);
    if (syscall(SYS_set_robust_list, &head, sizeof head)) {
        kvf_keeper_says(k, KVF_KEEPER_FAILED);
        return NULL;
    }
    kvf_keeper_says(k, KVF_KEEPER_KEEPING);
    kvf_keeper_leaves(k, KVF_KEEPER_KEEPING);
    return NULL; /* the kernel marks owner as it marks one that was killed */
}

/* Begin to keep `page`, which stays mapped until kvf_keeper_stop. NULL where it cannot be done. */
static inline kvf_keeper *kvf_keeper_start(kvf_pulse_page *page, uint64_t epoch) {
    kvf_keeper *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    k->page = page;
    atomic_store_explicit(&page->epoch, epoch, memory_order_release);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&k->thread, NULL, kvf_keeper_main, k);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code) {
        free(k);
        return NULL;
    }
    if (kvf_keeper_leaves(k, KVF_KEEPER_STARTING) == KVF_KEEPER_FAILED) {
        pthread_join(k->thread, NULL);
        free(k);
        return NULL;
    }
    return k;
}

static inline void kvf_keeper_stop(kvf_keeper *k) {
    atomic_store_explicit(&k->page->epoch, 0, memory_order_release);
    kvf_keeper_says(k, KVF_KEEPER_STOPPING);
    pthread_join(k->thread, NULL);
    free(k);
}

static inline bool kvf_pulse_beats(const kvf_pulse_page *page, uint64_t epoch) {
    return !(atomic_load_explicit(&page->owner, memory_order_acquire) & FUTEX_OWNER_DIED) &&
           atomic_load_explicit(&page->epoch, memory_order_acquire) == epoch;
}

#endif

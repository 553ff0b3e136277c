/* bell.h: a word of shared memory on which threads of several processes wait.
 *
 * Who rings adds one and wakes all; who waits read the word before looking for work, and sleeps only
 * while it is still the same. Whoever else can write the word can cost time: a sleep is short.
 *
 * Spinning pays where the other side runs at the same time, and costs both where they share a
 * processor; so who spun in vain some times in a row only tries it now and then.
 */
#ifndef KVF_BELL_H
#define KVF_BELL_H

#include "wait.h"

typedef _Atomic uint32_t kvf_bell;

static inline uint32_t kvf_bell_heard(const kvf_bell *b) {
    return atomic_load_explicit(b, memory_order_seq_cst);
}

static inline void kvf_bell_wake(kvf_bell *b) {
    syscall(SYS_futex, b, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static inline void kvf_bell_ring(kvf_bell *b) {
    atomic_fetch_add_explicit(b, 1, memory_order_seq_cst);
    kvf_bell_wake(b);
}

/* Sleep while the word is as it was `heard`, at most one slice. Returns early for no reason, too. */
static inline void kvf_bell_sleep(kvf_bell *b, uint32_t heard, uint64_t deadline) {
    uint64_t ns = kvf_slice(kvf_now(), deadline);
    struct timespec t = {.tv_nsec = (long)ns};
    if (ns) syscall(SYS_futex, b, FUTEX_WAIT, heard, &t, NULL, 0);
}

#define KVF_VAIN_MAX 3u
#define KVF_VAIN_PERIOD 64u

/* How often in a row it was in vain to spin. Of several threads together, roughly. */
typedef _Atomic uint32_t kvf_vain;

/* Spin while the word is as it was heard, but not for long. True: it is another. */
static inline bool kvf_bell_spin(kvf_bell *b, uint32_t heard, kvf_vain *vain, uint64_t deadline) {
    uint32_t before = atomic_load_explicit(vain, memory_order_relaxed);
    uint64_t now = kvf_now(), until = now + KVF_SPIN_NS < deadline ? now + KVF_SPIN_NS : deadline;
    if (before >= KVF_VAIN_MAX && before % KVF_VAIN_PERIOD) until = now;
    for (; now < until; now = kvf_now())
        for (int i = 0; i < 32; i++) {
            if (kvf_bell_heard(b) != heard) {
                atomic_store_explicit(vain, 0, memory_order_relaxed);
                return true;
            }
            kvf_relax();
        }
    atomic_store_explicit(vain, before + 1, memory_order_relaxed);
    return false;
}

#endif

/* wait.h: how a thread waits for a word: spin a little, then sleep in the kernel.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC; a deadline is a point on that clock.
 */
#ifndef KVF_WAIT_H
#define KVF_WAIT_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Longer than a hand-over between two running threads, shorter than a time slice. */
#define KVF_SPIN_NS 20000ull
/* A sleeper looks up this often, so that signals and dead peers are noticed. */
#define KVF_SLICE_NS 100000000ull
#define KVF_FOREVER UINT64_MAX

static inline uint64_t kvf_clock(clockid_t clock) {
    struct timespec t = {0, 0};
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline uint64_t kvf_now(void) { return kvf_clock(CLOCK_MONOTONIC); }

static inline uint64_t kvf_thread_cpu(void) { return kvf_clock(CLOCK_THREAD_CPUTIME_ID); }

static inline void kvf_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleep while *word == seen, at most `ns`. Returns early for no reason, too. */
static inline void kvf_sleep_while(_Atomic uint32_t *word, uint32_t seen, uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000ull), .tv_nsec = (long)(ns % 1000000000ull)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
}

static inline void kvf_wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* How long to sleep now: to the deadline, at most one slice; 0 when the deadline has passed. */
static inline uint64_t kvf_slice(uint64_t now, uint64_t deadline) {
    if (now >= deadline) return 0;
    uint64_t left = deadline - now;
    return left < KVF_SLICE_NS ? left : KVF_SLICE_NS;
}

/* A number that one thread moves on and others wait for. The store of `now` and the look at `waiters`,
 * and on the other side the announcement and the look at `now`, are seq_cst: one sees the other. */
typedef struct kvf_turn {
    _Atomic uint32_t now, waiters;
} kvf_turn;

static inline uint32_t kvf_turn_now(const kvf_turn *t) {
    return atomic_load_explicit(&t->now, memory_order_acquire);
}

static inline void kvf_turn_pass(kvf_turn *t, uint32_t now) {
    atomic_store_explicit(&t->now, now, memory_order_seq_cst);
    if (atomic_load_explicit(&t->waiters, memory_order_seq_cst)) kvf_wake_all(&t->now);
}

/* Its waiters look again although it has not moved. */
static inline void kvf_turn_stir(kvf_turn *t) {
    if (atomic_load_explicit(&t->waiters, memory_order_seq_cst)) kvf_wake_all(&t->now);
}

/* Until it is not `seen` any more, or the deadline, or one slice: spins, then sleeps. */
static inline void kvf_turn_await(kvf_turn *t, uint32_t seen, uint64_t deadline) {
    uint64_t start = kvf_now(), until = start + KVF_SPIN_NS < deadline ? start + KVF_SPIN_NS : deadline;
    for (uint64_t now = start; now < until; now = kvf_now())
        for (int i = 0; i < 32; i++) {
            kvf_relax();
            if (kvf_turn_now(t) != seen) return;
        }
    atomic_fetch_add_explicit(&t->waiters, 1, memory_order_seq_cst);
    uint64_t ns = kvf_slice(kvf_now(), deadline);
    if (ns && atomic_load_explicit(&t->now, memory_order_seq_cst) == seen)
        kvf_sleep_while(&t->now, seen, ns);
    atomic_fetch_sub_explicit(&t->waiters, 1, memory_order_relaxed);
}

#endif

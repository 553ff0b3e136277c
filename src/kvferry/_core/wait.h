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

static inline uint64_t kvf_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

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

#endif

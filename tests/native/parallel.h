/* parallel.h: the same function in several threads, and random numbers of a thread's own. */
#ifndef KVF_PARALLEL_H
#define KVF_PARALLEL_H

#include <pthread.h>
#include <stdint.h>

#include "check.h"

#define PARALLEL_MAX 16

/* Run body(arg, 0) ... body(arg, threads - 1) at once; `meanwhile(arg)` in the calling thread. */
typedef struct crew {
    void (*body)(void *arg, unsigned index);
    void *arg;
    pthread_barrier_t start;
} crew;

typedef struct member {
    crew *crew;
    unsigned index;
} member;

static void *member_main(void *me) {
    member *m = me;
    pthread_barrier_wait(&m->crew->start);
    m->crew->body(m->crew->arg, m->index);
    return NULL;
}

static inline void in_parallel(unsigned threads, void (*body)(void *, unsigned), void *arg,
                               void (*meanwhile)(void *)) {
    CHECK(threads <= PARALLEL_MAX);
    crew c = {.body = body, .arg = arg};
    member members[PARALLEL_MAX];
    pthread_t thread[PARALLEL_MAX];
    pthread_barrier_init(&c.start, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        members[i] = (member){&c, i};
        CHECK(pthread_create(&thread[i], NULL, member_main, &members[i]) == 0);
    }
    pthread_barrier_wait(&c.start);
    if (meanwhile) meanwhile(arg);
    for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&c.start);
}

/* splitmix64: every seed is a good one. */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* 0 .. limit - 1 */
static inline uint64_t random_below(uint64_t *state, uint64_t limit) {
    return random_next(state) % limit;
}

static inline void random_bytes(uint64_t *state, unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)random_next(state);
}

#endif

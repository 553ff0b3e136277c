/* copy.h: moves the bytes of one run.
 *
 * Stores that pass the cache by (non-temporal) do not first read the line they overwrite and leave
 * the cache to others; from some size on they win. A C11 release does NOT order them, and no
 * sanitizer notices: every function here that issues them ends in a store fence, so that whatever
 * its caller stores afterwards (a completion word) is visible after the bytes.
 *
 * A brake is looked at every KVF_CHUNK bytes: it stops a run between two chunks.
 */
#ifndef KVF_COPY_H
#define KVF_COPY_H

#include <string.h>

#include "descriptor.h"
#include "done.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define KVF_CHUNK (1ull << 20)
/* Below these the destination is likelier wanted in cache than memory bandwidth is short. */
#define KVF_NT_RUN (128ull << 10)
#define KVF_NT_PIECE 1024ull

#define KVF_NOINLINE __attribute__((noinline))
#define KVF_INLINE static inline __attribute__((always_inline))

/* Test point: while `held`, a chunk that has begun waits, counted in `inside`; `passing`
 * chunks more go through. */
typedef struct kvf_hold {
    _Atomic uint32_t held;
    _Atomic uint32_t inside;
    _Atomic int32_t passing;
} kvf_hold;

typedef struct kvf_brake {
    kvf_done *done;          /* whose abort flag is obeyed */
    uint64_t sequence;       /* abort means us only when it holds this */
    uint64_t deadline;       /* for copies in the caller's own thread */
    kvf_hold *hold;          /* may be NULL */
} kvf_brake;

static inline void kvf_wait_held(kvf_hold *h) {
    atomic_fetch_add_explicit(&h->inside, 1, memory_order_release);
    for (uint32_t held; (held = atomic_load_explicit(&h->held, memory_order_acquire)) &&
                        atomic_fetch_sub_explicit(&h->passing, 1, memory_order_relaxed) <= 0;)
        kvf_sleep_while(&h->held, held, KVF_SLICE_NS);
    atomic_fetch_sub_explicit(&h->inside, 1, memory_order_release);
}

static inline kvf_outcome kvf_brake_check(const kvf_brake *b) {
    if (atomic_load_explicit(&b->done->abort, memory_order_acquire) == b->sequence) return KVF_ABORTED;
    if (b->deadline != KVF_FOREVER && kvf_now() >= b->deadline) return KVF_EXPIRED;
    if (b->hold && atomic_load_explicit(&b->hold->held, memory_order_relaxed)) kvf_wait_held(b->hold);
    return KVF_OK;
}

/* ---- kernels: move n bytes; to and from do not overlap ---- */

#define KVF_PLAIN
KVF_INLINE void kvf_plain(void *to, const void *from, size_t n) { memcpy(to, from, n); }
KVF_INLINE void kvf_plain_fence(void) {}

#if defined(__x86_64__)
#define KVF_SSE2
#define KVF_AVX2 __attribute__((target("avx2")))
#define KVF_AVX512 __attribute__((target("avx512f")))

/* The head up to the store's alignment, then whole groups of 4 vectors, then the tail. */
#define KVF_NT_KERNEL(NAME, TARGET, VECTOR, LOAD, STORE)                      \
    TARGET KVF_INLINE void NAME(void *to, const void *from, size_t n) {           \
        char *t = to;                                                             \
        const char *f = from;                                                     \
        size_t head = -(uintptr_t)t & (sizeof(VECTOR) - 1);                       \
        if (head > n) head = n;                                                   \
        memcpy(t, f, head);                                                       \
        t += head, f += head, n -= head;                                          \
        for (; n >= 4 * sizeof(VECTOR); n -= 4 * sizeof(VECTOR)) {                \
            VECTOR a = LOAD((const void *)(f)), b = LOAD((const void *)(f + sizeof a)); \
            VECTOR c = LOAD((const void *)(f + 2 * sizeof a));                    \
            VECTOR d = LOAD((const void *)(f + 3 * sizeof a));                    \
            STORE((void *)(t), a), STORE((void *)(t + sizeof a), b);              \
            STORE((void *)(t + 2 * sizeof a), c), STORE((void *)(t + 3 * sizeof a), d); \
            t += 4 * sizeof a, f += 4 * sizeof a;                                 \
        }                                                                         \
        memcpy(t, f, n);                                                          \
    }
KVF_NT_KERNEL(kvf_sse2, KVF_SSE2, __m128i, _mm_loadu_si128, _mm_stream_si128)
KVF_NT_KERNEL(kvf_avx2, KVF_AVX2, __m256i, _mm256_loadu_si256, _mm256_stream_si256)
KVF_NT_KERNEL(kvf_avx512, KVF_AVX512, __m512i, _mm512_loadu_si512, _mm512_stream_si512)
KVF_INLINE void kvf_store_fence(void) { _mm_sfence(); }

#elif defined(__aarch64__)
#define KVF_NEON
KVF_INLINE void kvf_neon(void *to, const void *from, size_t n) {
    char *t = to;
    const char *f = from;
    for (; n >= 64; n -= 64, t += 64, f += 64)
        __asm__ volatile(
            "ldp q0, q1, [%1]\n\tldp q2, q3, [%1, #32]\n\t"
            "stnp q0, q1, [%0]\n\tstnp q2, q3, [%0, #32]"
            :
            : "r"(t), "r"(f)
            : "v0", "v1", "v2", "v3", "memory");
    memcpy(t, f, n);
}
KVF_INLINE void kvf_store_fence(void) { __asm__ volatile("dmb ish" ::: "memory"); }
#endif

/* Ask for the first lines of the next piece while this one is copied: the processor's own prefetcher
 * begins anew at every page, which small blocks feel. */
#define KVF_HEAD_LINES 8
KVF_INLINE void kvf_expect(const kvf_run *r, kvf_op op) {
    if (!r->bytes) return;
    uint64_t next = (op == KVF_WRITE ? r->d->local : r->d->remote + r->delta) + r->skip;
    for (int i = 0; i < KVF_HEAD_LINES; i++) __builtin_prefetch((const char *)next + 64 * i, 0, 0);
}

/* ---- one variant: a copy of one piece, and of a run, each fenced ---- */

/* The piece that brings the unchecked bytes above a chunk is preceded by a look at the brake. */
#define KVF_VARIANT(NAME, TARGET, KERNEL, FENCE)                                  \
    TARGET KVF_NOINLINE static void kvf_copy_##NAME(void *to, const void *from, size_t n) { \
        KERNEL(to, from, n);                                                      \
        FENCE();                                                                  \
    }                                                                             \
    TARGET KVF_NOINLINE static kvf_outcome kvf_run_##NAME(kvf_run r, kvf_op op,   \
                                                          const kvf_brake *brake) { \
        kvf_outcome outcome = KVF_OK;                                             \
        uint64_t budget = 0;                                                      \
        for (kvf_piece p; kvf_next_piece(&r, KVF_CHUNK, &p); budget -= p.length) { \
            if (p.length > budget) {                                              \
                if ((outcome = kvf_brake_check(brake))) break;                    \
                budget = KVF_CHUNK;                                               \
            }                                                                     \
            kvf_expect(&r, op);                                                   \
            void *here = (void *)p.local, *there = (void *)p.remote;              \
            KERNEL(op == KVF_WRITE ? there : here, op == KVF_WRITE ? here : there, p.length); \
        }                                                                         \
        FENCE();                                                                  \
        return outcome;                                                           \
    }

KVF_VARIANT(plain, KVF_PLAIN, kvf_plain, kvf_plain_fence)
#if defined(__x86_64__)
KVF_VARIANT(nt_sse2, KVF_SSE2, kvf_sse2, kvf_store_fence)
KVF_VARIANT(nt_avx2, KVF_AVX2, kvf_avx2, kvf_store_fence)
KVF_VARIANT(nt_avx512, KVF_AVX512, kvf_avx512, kvf_store_fence)
#elif defined(__aarch64__)
KVF_VARIANT(nt_neon, KVF_NEON, kvf_neon, kvf_store_fence)
#endif

typedef struct kvf_variant {
    const char *name;
    void (*copy)(void *to, const void *from, size_t n);
    kvf_outcome (*run)(kvf_run r, kvf_op op, const kvf_brake *brake);
} kvf_variant;

static const kvf_variant kvf_variants[] = {
    {"memcpy", kvf_copy_plain, kvf_run_plain},
#if defined(__x86_64__)
    {"nt_sse2", kvf_copy_nt_sse2, kvf_run_nt_sse2},
    {"nt_avx2", kvf_copy_nt_avx2, kvf_run_nt_avx2},
    {"nt_avx512", kvf_copy_nt_avx512, kvf_run_nt_avx512},
#elif defined(__aarch64__)
    {"nt_neon", kvf_copy_nt_neon, kvf_run_nt_neon},
#endif
};
#define KVF_VARIANTS (sizeof kvf_variants / sizeof *kvf_variants)

static inline bool kvf_variant_runs(const kvf_variant *v) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (v->copy == kvf_copy_nt_avx2) return __builtin_cpu_supports("avx2");
    if (v->copy == kvf_copy_nt_avx512) return __builtin_cpu_supports("avx512f");
#endif
    (void)v;
    return true;
}

/* The widest streaming variant this processor runs. */
static inline const kvf_variant *kvf_best_nt(void) {
    const kvf_variant *best = kvf_variants;
    for (size_t i = 1; i < KVF_VARIANTS; i++)
        if (kvf_variant_runs(&kvf_variants[i])) best = &kvf_variants[i];
    return best;
}

/* Streaming stores pay for runs that the cache would not keep, in pieces worth an alignment. Whether
 * pieces are that long is judged by the first: the blocks of a batch are of a kind. */
static inline kvf_outcome kvf_copy_run(const kvf_variant *nt, kvf_run r, kvf_op op,
                                       const kvf_brake *brake) {
    bool pays = r.bytes >= KVF_NT_RUN && r.d->length >= KVF_NT_PIECE;
    return (pays ? nt : kvf_variants)->run(r, op, brake);
}

#endif

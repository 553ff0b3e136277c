/* limit.h: what the memory and the kernel of this machine allow: blocks copied by a bare loop.
 *
 * The yardstick of the benchmarks. It shares the kernels of copy.h and the vectors of process.h, and
 * nothing else: no descriptors, no brake, no watch, no completion.
 */
#ifndef KVF_LIMIT_H
#define KVF_LIMIT_H

#include "copy.h"
#include "process.h"

#define KVF_LIMIT(NAME, TARGET, KERNEL, FENCE)                                                  \
    TARGET KVF_NOINLINE static void kvf_limit_##NAME(char *to, const int64_t *to_ids,           \
                                                     const char *from, const int64_t *from_ids, \
                                                     size_t n, size_t block) {                  \
        for (size_t i = 0; i < n; i++)                                                          \
            KERNEL(to + (size_t)to_ids[i] * block, from + (size_t)from_ids[i] * block, block);  \
        FENCE();                                                                                \
    }

typedef void kvf_limit_loop(char *to, const int64_t *to_ids, const char *from, const int64_t *from_ids,
                            size_t n, size_t block);

KVF_LIMIT(plain, KVF_PLAIN, kvf_plain, kvf_plain_fence)
#if defined(__x86_64__)
KVF_LIMIT(nt_sse2, KVF_SSE2, kvf_sse2, kvf_store_fence)
KVF_LIMIT(nt_avx2, KVF_AVX2, kvf_avx2, kvf_store_fence)
KVF_LIMIT(nt_avx512, KVF_AVX512, kvf_avx512, kvf_store_fence)
static kvf_limit_loop *const kvf_limits[] = {kvf_limit_plain, kvf_limit_nt_sse2, kvf_limit_nt_avx2,
                                             kvf_limit_nt_avx512};
#elif defined(__aarch64__)
KVF_LIMIT(nt_neon, KVF_NEON, kvf_neon, kvf_store_fence)
static kvf_limit_loop *const kvf_limits[] = {kvf_limit_plain, kvf_limit_nt_neon};
#else
static kvf_limit_loop *const kvf_limits[] = {kvf_limit_plain};
#endif
_Static_assert(sizeof kvf_limits / sizeof *kvf_limits == KVF_VARIANTS, "one loop a variant");

/* Between two processes: as many whole blocks a call as the mover of process.h would cut from a batch,
 * one at least. 0 or an errno. */
static inline int kvf_limit_process(pid_t pid, uint64_t to, const int64_t *to_ids, uint64_t from,
                                    const int64_t *from_ids, size_t n, size_t block, size_t batch,
                                    kvf_op op) {
    size_t most = block < KVF_CHUNK ? KVF_CHUNK / block : 1;
    if (most > KVF_VECTORS_MAX) most = KVF_VECTORS_MAX;
    kvf_vectors v;
    for (size_t i = 0, end; i < n; i += v.n) {
        end = (i / batch + 1) * batch;
        if (end > n) end = n;
        for (v.n = 0; v.n < most && i + v.n < end; v.n++) {
            struct iovec target = {(void *)(to + (uint64_t)to_ids[i + v.n] * block), block};
            struct iovec source = {(void *)(from + (uint64_t)from_ids[i + v.n] * block), block};
            v.local[v.n] = op == KVF_WRITE ? source : target;
            v.remote[v.n] = op == KVF_WRITE ? target : source;
        }
        ssize_t crossed = kvf_cross(pid, op, &v);
        if (crossed < 0) return errno;
        if ((size_t)crossed != v.n * block) return EFAULT;
    }
    return 0;
}

#endif

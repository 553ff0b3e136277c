/* limit_acl.h: functions of ACL that return at once: what submitting to a device costs by itself.
 *
 * The yardstick of streams of ACL. A copy of one word is a flag's, which is carried out. No other copy
 * moves anything, so addresses need not lead anywhere and no card is needed; none is measured either.
 */
#ifndef KVF_LIMIT_ACL_H
#define KVF_LIMIT_ACL_H

#include "acl.h"

static _Thread_local void *kvf_limit_context;

static inline int kvf_limit_acl_memcpy(void *to, size_t room, const void *from, size_t n, int kind) {
    (void)to, (void)room, (void)from, (void)n, (void)kind;
    return 0;
}

static inline int kvf_limit_acl_memcpy_async(void *to, size_t room, const void *from, size_t n, int kind,
                                             void *stream) {
    (void)room, (void)kind, (void)stream;
    if (n == sizeof(uint64_t))
        atomic_store_explicit((_Atomic uint64_t *)to, *(const uint64_t *)from, memory_order_release);
    return 0;
}

static inline int kvf_limit_acl_query(void *stream, int *status) {
    (void)stream;
    *status = KVF_ACL_COMPLETE;
    return 0;
}

static inline int kvf_limit_acl_abort(void *stream) {
    (void)stream;
    return 0;
}

static inline int kvf_limit_acl_get_context(void **context) {
    *context = kvf_limit_context;
    return 0;
}

static inline int kvf_limit_acl_set_context(void *context) {
    kvf_limit_context = context;
    return 0;
}

/* The calls of a transfer over so many streams, `times` over: a copy a descriptor, a flag a stream.
 * Nanoseconds. */
static inline uint64_t kvf_limit_acl_submit(kvf_acl *acl, const kvf_descriptor *d, uint64_t n,
                                            uint64_t streams, uint64_t times) {
    _Atomic uint64_t flag = 0;
    const uint64_t one = 1;
    uint64_t begin = kvf_now();
    for (uint64_t k = 0; k < times; k++) {
        for (uint64_t i = 0; i < n; i++)
            acl->memcpy_async((void *)d[i].remote, d[i].length, (const void *)d[i].local, d[i].length,
                              KVF_ACL_DEVICE_TO_DEVICE, NULL);
        for (uint64_t i = 0; i < streams; i++)
            acl->memcpy_async((void *)&flag, sizeof flag, &one, sizeof one, KVF_ACL_DEVICE_TO_HOST, NULL);
    }
    return kvf_now() - begin;
}

#endif

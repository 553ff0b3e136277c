/* call.h: how each exported function begins and how it refuses.
 *
 *   NPU_API aclError aclrtSomething(...) {
 *       NPU_CALL(NPU_IN_CONTEXT);                 lock held until this scope ends
 *       if (...) return npu_refuse(CODE, "why");
 *
 * NPU_CALL returns by itself the failure that NPU_FAIL orders, and what the call needs and has not.
 */
#ifndef NPU_CALL_H
#define NPU_CALL_H

#include "books.h"

#define NPU_API __attribute__((visibility("default")))

typedef enum {
    NPU_ANY_TIME,     /* also before aclInit */
    NPU_INITIALISED,  /* after aclInit */
    NPU_IN_CONTEXT    /* and with a current context */
} npu_need;

static inline pthread_mutex_t *npu_take_lock(void) {
    pthread_mutex_lock(&npu_lock);
    return &npu_lock;
}

static inline void npu_drop_lock(pthread_mutex_t **lock) { pthread_mutex_unlock(*lock); }

#define NPU_HOLD_LOCK                                                                          \
    __attribute__((cleanup(npu_drop_lock), unused)) pthread_mutex_t *npu_held = npu_take_lock()

#define NPU_CALL(need)                                    \
    NPU_HOLD_LOCK;                                        \
    do {                                                  \
        aclError npu_no = npu_may_call(__func__, (need)); \
        if (npu_no) return npu_no;                        \
    } while (0)

/* 0, or why the call named so must fail before it does anything. Under the lock. */
aclError npu_may_call(const char *name, npu_need need);

/* Returns `code`, and keeps why for aclGetRecentErrMsg of this thread. */
aclError npu_refuse(aclError code, const char *why);

/* What NPU_FAIL orders for this occurrence of `name`; 0: nothing. Under the lock. */
aclError npu_ordered_failure(const char *name);

/* Take over the rules of NPU_FAIL, as "aclrtMapMem:3=507899,task=507053"; false: not understood. */
int npu_order_failures(const char *rules);

#endif

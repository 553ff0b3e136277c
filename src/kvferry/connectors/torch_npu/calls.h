/* calls.h: the functions of ACL, found at run time. */
#ifndef KVFERRY_CALLS_H
#define KVFERRY_CALLS_H

#include <stdbool.h>

#include "acl/acl.h"

/* Without any of these there is no allocating. */
#define KVF_CALLS(X)                    \
    X(aclInit)                          \
    X(aclGetRecentErrMsg)               \
    X(aclrtSetDevice)                   \
    X(aclrtGetDevice)                   \
    X(aclrtSetCurrentContext)           \
    X(aclrtGetCurrentContext)           \
    X(aclrtSynchronizeStream)           \
    X(aclrtMemGetAllocationGranularity) \
    X(aclrtMallocPhysical)              \
    X(aclrtFreePhysical)                \
    X(aclrtReserveMemAddress)           \
    X(aclrtReleaseMemAddress)           \
    X(aclrtMapMem)                      \
    X(aclrtUnmapMem)

#define KVF_MEMBER(name) __typeof__(name) *name;

typedef struct kvf_acl {
    KVF_CALLS(KVF_MEMBER)
    KVF_MEMBER(aclrtMemRetainAllocationHandle) /* NULL: this CANN has none */
} kvf_acl;

/* ACL, opened and initialised; NULL, and a reason, when it cannot be: the next call tries again. */
const kvf_acl *kvf_open(void);

/* Whether `code`, just returned by the function `name` in this thread, is success; says why not. */
bool kvf_succeeded(const kvf_acl *acl, const char *name, aclError code);

#define KVF_TRY(acl, name, ...) kvf_succeeded(acl, #name, (acl)->name(__VA_ARGS__))

#endif

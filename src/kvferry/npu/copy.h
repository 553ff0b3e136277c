/* copy.h: which copies are allowed, and how their bytes move. */
#ifndef NPU_COPY_H
#define NPU_COPY_H

#include <stdbool.h>

#include "acl/acl.h"

typedef enum { NPU_SIDE_HOST, NPU_SIDE_DEVICE } npu_side;

typedef struct npu_copy {
    char *dst;
    const char *src;
    size_t count;
    int32_t device;    /* that does it */
    npu_side to, from; /* set by npu_check_copy; neither end may leave its side */
} npu_copy;

/* May a device begin this copy? Under the lock. */
aclError npu_check_copy(npu_copy *copy, size_t room, aclrtMemcpyKind kind, bool async);

/* Is either end host memory that this library did not allocate and nobody registered?
 * Under the lock. */
bool npu_is_unpinned(const npu_copy *copy);

/* Move the bytes. Takes and drops the lock for every piece, and leaves off between two pieces when
 * `*stop`, read under the lock, is true; what moved until then stays moved. Not under the lock. */
aclError npu_run_copy(npu_copy copy, const bool *stop);

#endif

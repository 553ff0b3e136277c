/* npu_check.h: calls that must succeed, or fail with a code, and books that must be empty at the end. */
#ifndef NPU_CHECK_H
#define NPU_CHECK_H

#include <string.h>

#include "acl/acl.h"
#include "check.h"

#define MIB ((size_t)1 << 20)
#define HUGE (2 * MIB)

#define MUST_BE(code, call)                                                              \
    do {                                                                                 \
        aclError got = (call);                                                           \
        if (got != (code)) {                                                             \
            fprintf(stderr, "%s:%d: %d from %s: %s\n", __FILE__, __LINE__, got, #call,   \
                    got ? aclGetRecentErrMsg() : "");                                    \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

#define OK(call) MUST_BE(0, call)
#define REFUSED(call) MUST_BE(ACL_ERROR_RT_PARAM_INVALID, call)

static inline void begin_with(int32_t device, const char *profile) {
    setenv("NPU_QUIET", "1", 1);
    if (profile) setenv("NPU_PROFILE", profile, 1);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(device));
}

static inline npu_counts counts(void) {
    npu_counts now;
    npu_books(&now);
    return now;
}

/* Undo begin_with, after which nothing may be left. */
static inline void end_of(int32_t device) {
    static const npu_counts nothing;
    OK(aclrtResetDevice(device));
    OK(aclFinalize());
    npu_counts left = counts();
    CHECK(!memcmp(&left, &nothing, sizeof left));
}

static inline aclrtPhysicalMemProp hbm(uint32_t device) {
    return (aclrtPhysicalMemProp){.memAttr = ACL_HBM_MEM_HUGE,
                                  .location = {device, ACL_MEM_LOCATION_TYPE_DEVICE}};
}

static inline aclrtPhysicalMemProp dram(void) {
    return (aclrtPhysicalMemProp){.memAttr = ACL_MEM_P2P_HUGE,
                                  .location = {0, ACL_MEM_LOCATION_TYPE_HOST}};
}

/* A reservation of a handle's size with the handle in it. */
static inline void *mapped(aclrtDrvMemHandle handle, size_t size) {
    void *at;
    OK(aclrtReserveMemAddress(&at, size, 0, NULL, 1));
    OK(aclrtMapMem(at, size, 0, handle, 0));
    return at;
}

static inline void unmapped(void *at) {
    OK(aclrtUnmapMem(at));
    OK(aclrtReleaseMemAddress(at));
}

static inline void fill(unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)((i * 2654435761u >> 7) + seed);
}

static inline void put(void *device, const void *bytes, size_t count) {
    OK(aclrtMemcpy(device, count, bytes, count, ACL_MEMCPY_HOST_TO_DEVICE));
}

static inline void get(void *bytes, const void *device, size_t count) {
    OK(aclrtMemcpy(bytes, count, device, count, ACL_MEMCPY_DEVICE_TO_HOST));
}

/* Does device memory hold these bytes? */
static inline int holds(const void *device, const void *bytes, size_t count) {
    void *seen = malloc(count);
    get(seen, device, count);
    int same = !memcmp(seen, bytes, count);
    free(seen);
    return same;
}

#endif

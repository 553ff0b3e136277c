/* register.c: the caller's own host memory, and addresses by which devices reach it. */
#include <stdlib.h>
#include <sys/mman.h>

#include "call.h"
#include "page.h"
#include "span.h"

#define ALIGNMENT ((uintptr_t)64 << 10)
#define FLAGS_ALL                                                                           \
    (ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED)

/* `seen` is under DEVICE_VIEW when devices may reach the memory; otherwise it has no size. */
typedef struct npu_registration {
    npu_span own, seen;
} npu_registration;

static aclError check(const void *ptr, uint64_t size, uint32_t flag) {
    if (!ptr || !size || flag & ~(uint32_t)FLAGS_ALL)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "nothing to register, or no such flag");
    if (flag & ACL_HOST_REG_IOMEMORY)
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "I/O memory is absent here");
    if ((uintptr_t)ptr % ALIGNMENT)
        return npu_refuse(ACL_ERROR_RT_ADDR_UNALIGNED, "host memory must be aligned to 64 KiB");
    for (npu_kind kind = NPU_ALLOCATION; kind <= NPU_RESERVATION; kind++)
        if (npu_touching(kind, (uintptr_t)ptr, size))
            return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "registered before, or not the caller's own");
    return 0;
}

static bool show_to_devices(npu_registration *made, uint32_t flag) {
    size_t size = made->own.entry.size;
    void *at = npu_take_addresses(npu_round_up(size, NPU_HUGE), NPU_HUGE, NULL);
    if (!at) return false;
    made->seen = (npu_span){.entry = {NULL, (uintptr_t)at, size},
                            .alias = made->own.alias,
                            .device = NPU_HOST,
                            .home = NPU_HOST};
    bool read_only = flag & ACL_HOST_REG_READONLY;
    for (int device = 0; device < NPU_DEVICES_MAX; device++)
        made->seen.access[device] =
            read_only ? ACL_RT_MEM_ACCESS_FLAGS_READ : ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    npu_enter(NPU_DEVICE_VIEW, &made->seen.entry);
    return true;
}

NPU_API aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag) {
    NPU_CALL(NPU_IN_CONTEXT);
    aclError refused = check(ptr, size, flag);
    if (refused) return refused;
    npu_registration *made = calloc(1, sizeof *made);
    if (!made) return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
    made->own = (npu_span){.entry = {NULL, (uintptr_t)ptr, size},
                           .alias = ptr,
                           .on_host = true,
                           .device = NPU_HOST,
                           .home = NPU_HOST};
    if (flag & ACL_HOST_REG_MAPPED && !show_to_devices(made, flag)) {
        free(made);
        return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses left");
    }
    npu_enter(NPU_REGISTRATION, &made->own.entry);
    return 0;
}

NPU_API aclError aclrtHostUnregister(void *ptr) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_registration *found = (npu_registration *)npu_beginning(NPU_REGISTRATION, ptr);
    if (!found) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not registered");
    npu_leave(NPU_REGISTRATION, &found->own.entry);
    if (found->seen.entry.size) {
        npu_leave(NPU_DEVICE_VIEW, &found->seen.entry);
        munmap((void *)found->seen.entry.base, npu_round_up(found->seen.entry.size, NPU_HUGE));
    }
    free(found);
    return 0;
}

NPU_API aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_registration *found = (npu_registration *)npu_beginning(NPU_REGISTRATION, pHost);
    if (!found || !pDevice || flag || !found->seen.entry.size)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not registered as MAPPED, or flag is not 0");
    *pDevice = (void *)found->seen.entry.base;
    return 0;
}

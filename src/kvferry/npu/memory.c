/* memory.c: plain allocation, and what an address is. */
#include <stdlib.h>
#include <sys/mman.h>

#include "call.h"
#include "page.h"
#include "span.h"

/* 0: there is no such policy. */
static size_t policy_page(aclrtMemMallocPolicy policy, size_t size) {
    switch (policy) {
    case ACL_MEM_MALLOC_HUGE_FIRST:
    case ACL_MEM_MALLOC_HUGE_FIRST_P2P:
        return size > 1 << 20 ? NPU_HUGE : NPU_NORMAL;
    case ACL_MEM_MALLOC_HUGE_ONLY:
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
        return NPU_HUGE;
    case ACL_MEM_MALLOC_NORMAL_ONLY:
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
        return NPU_NORMAL;
    case ACL_MEM_MALLOC_HUGE1G_ONLY:
    case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
        return NPU_HUGE1G;
    }
    return 0;
}

/* The span holds what was asked for, not what it was rounded up to: beyond it nothing may be copied. */
static aclError allocate(void **address, size_t size, size_t page, int32_t device) {
    if (!address || !size) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "nothing to allocate");
    if (size > SIZE_MAX / 2) return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "far too much");
    npu_block *block;
    aclError failed = npu_make_block(npu_round_up(size, page), page, device, &block);
    if (failed) return failed;
    bool on_host = device == NPU_HOST;
    npu_span *span = calloc(1, sizeof *span);
    void *at = npu_take_addresses(block->size, page, NULL);
    if (!span || !at || !npu_show(at, block, on_host)) {
        if (at) munmap(at, block->size);
        free(span);
        npu_drop_ref(block);
        return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses left");
    }
    block->prop.memAttr = on_host ? ACL_MEM_NORMAL : ACL_HBM_MEM_NORMAL;
    block->prop.location = (aclrtMemLocation){
        on_host ? 0 : (uint32_t)device,
        on_host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE};
    *span = (npu_span){.entry = {NULL, (uintptr_t)at, size},
                       .alias = block->alias,
                       .block = block,
                       .on_host = on_host,
                       .device = device,
                       .home = device};
    npu_enter(NPU_ALLOCATION, &span->entry);
    *address = at;
    return 0;
}

static aclError release(void *address, bool on_host) {
    npu_span *span = (npu_span *)npu_beginning(NPU_ALLOCATION, address);
    if (!span || span->on_host != on_host)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not what this kind of allocation returned");
    npu_leave(NPU_ALLOCATION, &span->entry);
    munmap(address, span->block->size);
    npu_drop_ref(span->block);
    free(span);
    return 0;
}

NPU_API aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    NPU_CALL(NPU_IN_CONTEXT);
    size_t page = policy_page(policy, size);
    if (!page)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no such policy");
    return allocate(devPtr, size, page, npu_current()->device);
}

NPU_API aclError aclrtFree(void *devPtr) {
    NPU_CALL(NPU_IN_CONTEXT);
    return release(devPtr, false);
}

NPU_API aclError aclrtMallocHost(void **hostPtr, size_t size) {
    NPU_CALL(NPU_IN_CONTEXT);
    return allocate(hostPtr, size, NPU_NORMAL, NPU_HOST);
}

NPU_API aclError aclrtFreeHost(void *hostPtr) {
    NPU_CALL(NPU_IN_CONTEXT);
    return release(hostPtr, true);
}

NPU_API aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes) {
    NPU_CALL(NPU_IN_CONTEXT);
    if (!attributes) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no place for the attributes");
    const npu_span *span = npu_span_at(ptr);
    *attributes = (aclrtPtrAttributes){.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    if (!span) return 0;
    attributes->location.type =
        span->on_host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
    attributes->location.id = span->on_host || span->device == NPU_HOST ? 0 : (uint32_t)span->device;
    attributes->pageSize = span->block && !(span->block->size % NPU_HUGE) ? NPU_HUGE : NPU_NORMAL;
    return 0;
}

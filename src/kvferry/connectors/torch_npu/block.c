#include "block.h"

#include <stdint.h>
#include <stdlib.h>

#include "reason.h"
#include "visit.h"

#define HUGE_PAGES 1 /* of aclrtReserveMemAddress: flags */

static aclrtPhysicalMemProp memory_of(int device) {
    return (aclrtPhysicalMemProp){
        .handleType = ACL_MEM_HANDLE_TYPE_NONE,
        .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {(uint32_t)device, ACL_MEM_LOCATION_TYPE_DEVICE},
    };
}

static bool round_up(size_t size, size_t page, size_t *rounded) {
    if (!page || size > SIZE_MAX - (page - 1)) {
        kvf_say("%zu bytes cannot be rounded to pages of %zu", size, page);
        return false;
    }
    *rounded = (size + page - 1) / page * page;
    return true;
}

/* ---- on the device; what one step leaves behind when a later one fails is undone ---- */

static bool map(const kvf_acl *acl, kvf_block *block) {
    if (!KVF_TRY(acl, aclrtReserveMemAddress, &block->at, block->size, 0, NULL, HUGE_PAGES))
        return false;
    if (KVF_TRY(acl, aclrtMapMem, block->at, block->size, 0, block->handle, 0)) return true;
    acl->aclrtReleaseMemAddress(block->at);
    return false;
}

static bool build(const kvf_acl *acl, kvf_block *block, size_t size) {
    aclrtPhysicalMemProp memory = memory_of(block->device);
    size_t page;
    if (!KVF_TRY(acl, aclrtMemGetAllocationGranularity, &memory,
                 ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &page) ||
        !round_up(size, page, &block->size) ||
        !KVF_TRY(acl, aclrtMallocPhysical, &block->handle, block->size, &memory, 0))
        return false;
    if (map(acl, block)) return true;
    acl->aclrtFreePhysical(block->handle);
    return false;
}

/* Whatever ACL refuses after the unmapping is lost, and said: there is no second way to ask. */
static bool tear_down(const kvf_acl *acl, const kvf_block *block) {
    if (!KVF_TRY(acl, aclrtUnmapMem, block->at)) return false;
    (void)KVF_TRY(acl, aclrtFreePhysical, block->handle);
    (void)KVF_TRY(acl, aclrtReleaseMemAddress, block->at);
    return true;
}

/* ---- from wherever the thread is ---- */

static bool visit_and_build(const kvf_acl *acl, kvf_block *block, size_t size) {
    aclrtContext home;
    if (!kvf_enter(acl, block->device, &home)) return false;
    bool built = build(acl, block, size);
    if (kvf_leave(acl, home)) return built;
    /* Success would let the thread go on unaware, on a device that is not its own. */
    if (built) (void)tear_down(acl, block);
    return false;
}

kvf_block *kvf_make(const kvf_acl *acl, size_t size, int device) {
    kvf_block *block = calloc(1, sizeof *block);
    if (!block) {
        kvf_say("no memory on the host");
        return NULL;
    }
    block->device = device;
    if (visit_and_build(acl, block, size)) return block;
    free(block);
    return NULL;
}

bool kvf_unmake(const kvf_acl *acl, kvf_block *block, aclrtStream stream) {
    aclrtContext home;
    if (!kvf_enter(acl, block->device, &home)) return false;
    /* A stream that failed or was aborted runs nothing any more: what was to be waited for is over. */
    if (stream) (void)KVF_TRY(acl, aclrtSynchronizeStream, stream);
    bool gone = tear_down(acl, block);
    (void)kvf_leave(acl, home);
    if (gone) free(block);
    return gone;
}

static bool retain(const kvf_acl *acl, const kvf_block *block) {
    aclrtDrvMemHandle handle;
    return KVF_TRY(acl, aclrtMemRetainAllocationHandle, block->at, &handle) &&
           KVF_TRY(acl, aclrtFreePhysical, handle);
}

bool kvf_can_retain(const kvf_acl *acl, const kvf_block *block) {
    aclrtContext home;
    if (!acl->aclrtMemRetainAllocationHandle) {
        kvf_say("the ACL library lacks aclrtMemRetainAllocationHandle");
        return false;
    }
    if (!kvf_enter(acl, block->device, &home)) return false;
    bool retained = retain(acl, block);
    return kvf_leave(acl, home) && retained;
}

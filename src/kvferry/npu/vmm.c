/* vmm.c: addresses, and physical memory behind them. */
#include <stdlib.h>
#include <sys/mman.h>

#include "call.h"
#include "page.h"
#include "span.h"

#define TERA ((uintptr_t)1 << 40)

/* ---- addresses ---- */

static aclError reserve(void **virPtr, size_t size, size_t alignment, void *expectPtr) {
    if (!virPtr || alignment)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the alignment must be 0");
    if (!size || size % NPU_HUGE)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the size is no multiple of 2 MiB");
    npu_entry *entry = calloc(1, sizeof *entry);
    size_t aligned = size < NPU_HUGE1G ? NPU_HUGE : NPU_HUGE1G;
    void *at = entry ? npu_take_addresses(size, aligned, expectPtr) : NULL;
    if (!at) {
        free(entry);
        return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "these addresses are not to be had");
    }
    *entry = (npu_entry){NULL, (uintptr_t)at, size};
    npu_enter(NPU_RESERVATION, entry);
    *virPtr = at;
    return 0;
}

static bool lies_in(const void *at, size_t size, uintptr_t from, uintptr_t to) {
    return from <= (uintptr_t)at && (uintptr_t)at < to && size <= to - (uintptr_t)at;
}

NPU_API aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment,
                                        void *expectPtr, uint64_t flags) {
    NPU_CALL(NPU_IN_CONTEXT);
    if (flags > 2) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "flags must be 0, 1 or 2");
    if (expectPtr && npu_set()->profile == NPU_950)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the 950 chooses addresses itself");
    if (expectPtr && !lies_in(expectPtr, size, 16 * TERA, 24 * TERA))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "addresses to expect lie in 16T to 24T");
    if ((uintptr_t)expectPtr % (size < NPU_HUGE1G ? NPU_HUGE : NPU_HUGE1G))
        return npu_refuse(ACL_ERROR_RT_ADDR_UNALIGNED, "expectPtr is no multiple of 2 MiB or 1 GiB");
    return reserve(virPtr, size, alignment, expectPtr);
}

NPU_API aclError aclrtReserveMemAddressNoUCMemory(void **virPtr, size_t size, size_t alignment,
                                                  void *expectPtr, uint64_t flags) {
    NPU_CALL(NPU_IN_CONTEXT);
    if (npu_set()->profile != NPU_A3)
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "only the A3 has this");
    if (flags > 2) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "flags must be 0, 1 or 2");
    if (size % NPU_HUGE1G)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the size is no multiple of 1 GiB");
    if (!lies_in(expectPtr, size, 40 * TERA, 224 * TERA))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the addresses must lie in 40T to 224T");
    if ((uintptr_t)expectPtr % NPU_HUGE1G)
        return npu_refuse(ACL_ERROR_RT_ADDR_UNALIGNED, "expectPtr is no multiple of 1 GiB");
    return reserve(virPtr, size, alignment, expectPtr);
}

NPU_API aclError aclrtReleaseMemAddress(void *virPtr) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_entry *entry = npu_beginning(NPU_RESERVATION, virPtr);
    if (!entry) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not a reservation");
    if (npu_touching(NPU_MAPPING, entry->base, entry->size))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "memory is still mapped in it");
    munmap(virPtr, entry->size);
    npu_leave(NPU_RESERVATION, entry);
    free(entry);
    return 0;
}

/* ---- one behind the other ---- */

static aclError check_map(void *virPtr, size_t size, size_t offset, const npu_block *block,
                          uint64_t flags) {
    if (!block) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not a handle");
    if (offset || flags) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "offset and flags must be 0");
    if (size != block->size)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the size must be the whole of the handle");
    if ((uintptr_t)virPtr % npu_page_of(block))
        return npu_refuse(ACL_ERROR_RT_ADDR_UNALIGNED, "the address is not aligned to the page");
    const npu_entry *room = npu_holding(NPU_RESERVATION, virPtr);
    if (!room || !lies_in(virPtr, size, room->base, room->base + room->size))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not within one reservation");
    if (npu_touching(NPU_MAPPING, (uintptr_t)virPtr, size))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "something is mapped there");
    return 0;
}

/* The processor may use its own memory; what comes from elsewhere is the importing device's to reach. */
static void fill(npu_span *span, void *virPtr, npu_block *block) {
    bool imported = block->share.state == NPU_IMPORTED;
    *span = (npu_span){.entry = {NULL, (uintptr_t)virPtr, block->size},
                       .alias = block->alias,
                       .block = block,
                       .on_host = block->device == NPU_HOST && !imported,
                       .device = block->device,
                       .home = block->home};
}

NPU_API aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                             uint64_t flags) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_block *block = npu_block_of(handle);
    aclError refused = check_map(virPtr, size, offset, block, flags);
    if (refused) return refused;
    npu_span *span = calloc(1, sizeof *span);
    if (!span) return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
    fill(span, virPtr, block);
    if (!npu_show(virPtr, block, span->on_host)) {
        npu_hide(virPtr, size);
        free(span);
        return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "this machine cannot map it");
    }
    block->uses++;
    npu_enter(NPU_MAPPING, &span->entry);
    return 0;
}

NPU_API aclError aclrtUnmapMem(void *virPtr) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_span *span = (npu_span *)npu_beginning(NPU_MAPPING, virPtr);
    if (!span) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not a mapping");
    npu_leave(NPU_MAPPING, &span->entry);
    npu_hide(virPtr, span->entry.size);
    npu_drop_use(span->block);
    free(span);
    return 0;
}

#include "span.h"

#include <sys/mman.h>

#define EMPTY (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

npu_span *npu_span_at(const void *address) {
    static const npu_kind kinds[] = {NPU_ALLOCATION, NPU_MAPPING, NPU_IMPORT, NPU_DEVICE_VIEW,
                                     NPU_REGISTRATION};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        npu_entry *entry = npu_holding(kinds[i], address);
        if (entry) return (npu_span *)entry;
    }
    return NULL;
}

bool npu_allows(const npu_span *span, int32_t device, aclrtMemAccessFlags need) {
    bool own = span->device != NPU_HOST && npu_peers(device, span->device) &&
               (span->home == NPU_HOST || npu_peers(device, span->home));
    return own || (span->access[device] & need) == need;
}

void *npu_take_addresses(size_t size, size_t alignment, void *at) {
    if (at) {
        void *got = mmap(at, size, PROT_NONE, EMPTY | MAP_FIXED_NOREPLACE, -1, 0);
        if (got == MAP_FAILED || got == at) return got == at ? at : NULL;
        munmap(got, size); /* kernels before 4.17 take the address for a hint */
        return NULL;
    }
    if (size > SIZE_MAX - alignment) return NULL;
    char *got = mmap(NULL, size + alignment, PROT_NONE, EMPTY, -1, 0);
    if (got == MAP_FAILED) return NULL;
    size_t before = -(uintptr_t)got & (alignment - 1);
    if (before) munmap(got, before);
    munmap(got + before + size, alignment - before);
    return got + before;
}

bool npu_show(void *at, const npu_block *block, bool on_host) {
    int rights = on_host ? PROT_READ | PROT_WRITE : PROT_NONE;
    return mmap(at, block->size, rights, MAP_SHARED | MAP_FIXED, block->fd, 0) == at;
}

void npu_hide(void *at, size_t size) { mmap(at, size, PROT_NONE, EMPTY | MAP_FIXED, -1, 0); }

#include "block.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "call.h"
#include "device.h"

npu_block *npu_adopt_block(int fd, size_t size, int32_t device) {
    npu_block *block = calloc(1, sizeof *block);
    void *alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (!block || alias == MAP_FAILED) {
        if (alias != MAP_FAILED) munmap(alias, size);
        close(fd);
        free(block);
        return NULL;
    }
    block->entry = (npu_entry){NULL, (uintptr_t)block, 1};
    block->fd = fd;
    block->size = size;
    block->alias = alias;
    block->device = block->home = device;
    block->refs = 1;
    return block;
}

/* Sealed in its size, so that no process can fault in what another cut off. */
static int make_file(size_t size) {
    int fd = memfd_create("npu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return fd;
    if (!fchmod(fd, 0600) && !ftruncate(fd, (off_t)size) &&
        !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return fd;
    close(fd);
    return -1;
}

aclError npu_make_block(size_t size, size_t page, int32_t device, npu_block **block) {
    if (page > npu_set()->page)
        return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no pages of this size are left");
    if (size > npu_set()->fragment)
        return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no piece of memory is so large");
    if (!npu_take_capacity(device, size))
        return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "the device has not so much memory left");
    int fd = make_file(size);
    *block = fd < 0 ? NULL : npu_adopt_block(fd, size, device);
    if (*block) return 0;
    npu_give_capacity(device, size);
    return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "this machine has no memory for it");
}

void npu_hand_out(npu_block *block) {
    block->is_handle = true;
    npu_enter(NPU_HANDLE, &block->entry);
}

npu_block *npu_block_of(aclrtDrvMemHandle handle) {
    npu_block *block = (npu_block *)npu_beginning(NPU_HANDLE, handle);
    return block && block->refs ? block : NULL;
}

static void free_when_unused(npu_block *block) {
    if (block->refs || block->uses) return;
    if (block->is_handle) npu_leave(NPU_HANDLE, &block->entry);
    if (block->share.state != NPU_IMPORTED) npu_give_capacity(block->device, block->size);
    npu_forget_share(&block->share);
    munmap(block->alias, block->size);
    close(block->fd);
    free(block);
}

void npu_drop_ref(npu_block *block) {
    block->refs--;
    free_when_unused(block);
}

void npu_drop_use(npu_block *block) {
    block->uses--;
    free_when_unused(block);
}

#include "allocator.h"

#include "block.h"
#include "reason.h"

#define KVFERRY_API __attribute__((visibility("default")))
#define SAME_AS(name) __attribute__((visibility("default"), alias(#name)))

static void give_back(const kvf_acl *acl, kvf_block *block, aclrtStream stream) {
    if (!kvf_unmake(acl, block, stream)) kvf_put(block);
}

KVFERRY_API void *kvferry_malloc(size_t size, int device, void *stream) {
    (void)stream;
    kvf_begin();
    const kvf_acl *acl = size ? kvf_open() : NULL;
    kvf_block *block = acl ? kvf_make(acl, size, device) : NULL;
    if (!block) return NULL;
    void *address = block->at;
    kvf_put(block);
    return address;
}

KVFERRY_API void kvferry_free(void *address, size_t size, int device, void *stream) {
    (void)size, (void)device;
    kvf_begin();
    if (!address) return;
    kvf_block *block = kvf_take(address);
    if (block)
        give_back(kvf_open(), block, stream);
    else
        kvf_say("free of %p, which is not in use", address);
}

KVFERRY_API int kvferry_probe(int device) {
    kvf_begin();
    const kvf_acl *acl = kvf_open();
    kvf_block *block = acl ? kvf_make(acl, 1, device) : NULL;
    if (!block) return 0;
    int shareable = kvf_can_retain(acl, block);
    give_back(acl, block, NULL);
    return shareable;
}

SAME_AS(kvferry_malloc) void *mc_allocator_malloc(size_t size, int device, void *stream);
SAME_AS(kvferry_free) void mc_allocator_free(void *address, size_t size, int device, void *stream);
SAME_AS(kvferry_probe) int mc_allocator_probe(int device);

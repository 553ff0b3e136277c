/* block.h: making and unmaking one allocation. */
#ifndef KVFERRY_BLOCK_H
#define KVFERRY_BLOCK_H

#include "calls.h"
#include "table.h"

/* At least `size` bytes of `device`, in no table yet; NULL, with a reason: nothing is left of it. */
kvf_block *kvf_make(const kvf_acl *acl, size_t size, int device);

/* Waits for `stream` unless it is NULL. False, with a reason: the block is as it was, still mapped. */
bool kvf_unmake(const kvf_acl *acl, kvf_block *block, aclrtStream stream);

/* Whether a handle can be had from the address alone, which is how memory is registered; with a reason
 * if not. */
bool kvf_can_retain(const kvf_acl *acl, const kvf_block *block);

#endif

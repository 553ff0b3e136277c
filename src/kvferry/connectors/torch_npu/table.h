/* table.h: the blocks in use, by address. Thread-safe. */
#ifndef KVFERRY_TABLE_H
#define KVFERRY_TABLE_H

#include "acl/acl.h"

typedef struct kvf_block {
    struct kvf_block *next; /* of the table */
    void *at;
    size_t size; /* bytes, whole pages */
    aclrtDrvMemHandle handle;
    int device;
} kvf_block;

/* The table has `block` from now on. */
void kvf_put(kvf_block *block);

/* The block at `address`, which is the caller's from now on; NULL: there is none. */
kvf_block *kvf_take(const void *address);

#endif

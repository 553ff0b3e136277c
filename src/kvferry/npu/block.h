/* block.h: physical memory. A memory file, and a mapping of it for this library alone.
 *
 *             caller                      the library               other processes
 *   device    PROT_NONE addresses  ---+-- alias, read-write  ---+-- their own alias
 *   host      read-write addresses ---+                         |
 *                                     +---- memory file --------+
 *
 * A block lives while the caller holds references, or mappings or copies use it; its pages live until
 * the last process that has the memory file lets go of it.
 */
#ifndef NPU_BLOCK_H
#define NPU_BLOCK_H

#include <stdbool.h>

#include "books.h"
#include "share.h"

typedef struct npu_block {
    npu_entry entry; /* in the books while is_handle */
    bool is_handle;
    int fd;
    size_t size;
    void *alias;
    aclrtPhysicalMemProp prop;
    int32_t device;  /* that it lies in, or that it was imported to; NPU_HOST */
    int32_t home;    /* the device of this server that it lies in; NPU_HOST: in none of it */
    unsigned refs;   /* of the caller: each needs its aclrtFreePhysical */
    unsigned uses;   /* mappings, and copies at work */
    npu_share share; /* how it is exported, or where it was imported from */
} npu_block;

/* A new block of such pages with one reference, charged to its device, in `*block`. Under the lock, as
 * all here. */
aclError npu_make_block(size_t size, size_t page, int32_t device, npu_block **block);

/* A block of somebody else's memory file, which it owns from now on; NULL: no memory. */
npu_block *npu_adopt_block(int fd, size_t size, int32_t device);

/* Enter a block into the books as a handle. */
void npu_hand_out(npu_block *block);

/* The block behind a handle that the caller has a reference to, or NULL. */
npu_block *npu_block_of(aclrtDrvMemHandle handle);

bool npu_is_attribute(aclrtMemAttr attr);

/* Export a block that is private yet: its share names it then. */
aclError npu_share_out(npu_block *block, uint64_t flags, aclrtMemSharedHandleType type);

/* Let more processes import what this process exported by a ticket. */
aclError npu_invite(const npu_ticket *ticket, const int32_t *pid, size_t count);

/* A block for what npu_ask brought: imported to `device`; NULL: no memory, and the file is closed. */
struct npu_answer;
npu_block *npu_take_in(const npu_ticket *ticket, int32_t device, const struct npu_answer *answer,
                       int fd);

/* The granularity of a handle's memory. */
size_t npu_page_of(const npu_block *block);

void npu_drop_ref(npu_block *block);
void npu_drop_use(npu_block *block);

#endif

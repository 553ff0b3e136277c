/* share.h: how physical memory is named to other processes.
 *
 * A handle is no secret: small numbers that anybody can guess, as those of the hardware are. What
 * keeps memory is the exporter's list of who may import.
 *
 *   FABRIC   128 bytes    | type u32 | server u32 | pid u32 | id u32 | zero ...            |
 *   DEFAULT  one u64      | server, 10 bits | pid, 22 bits | id, 32 bits |
 *
 *   id       | start of the process, 16 bits | counted, 16 bits |     so that a process which was
 *            given the pid of a dead one does not answer for its handles
 */
#ifndef NPU_SHARE_H
#define NPU_SHARE_H

#include <stdbool.h>
#include <sys/types.h>

#include "acl/acl.h"

typedef struct npu_ticket {
    aclrtMemSharedHandleType type; /* or NPU_BY_KEY */
    uint32_t server, pid, id;
} npu_ticket;

void npu_write_ticket(const npu_ticket *ticket, void *handle);
bool npu_read_ticket(const void *handle, aclrtMemSharedHandleType type, npu_ticket *ticket);

/* A process that may import; with its start, so that its number given to another is refused. */
typedef struct npu_guest {
    pid_t pid;
    unsigned long long start;
} npu_guest;

typedef enum { NPU_PRIVATE, NPU_EXPORTED, NPU_IMPORTED } npu_share_state;

/* Of one block. The guests only matter while it is exported with a list. */
typedef struct npu_share {
    npu_share_state state;
    npu_ticket ticket;
    bool anybody; /* exported with the list off */
    npu_guest *guests;
    size_t guest_count;
} npu_share;

/* Exports of plain memory, which is named by a key, have a type that no handle has. */
#define NPU_BY_KEY ((aclrtMemSharedHandleType)3)

bool npu_is_shared_type(aclrtMemSharedHandleType type);

/* May a handle be imported on `server`? Those that cross servers are FABRIC, on the A3. */
bool npu_may_cross(const npu_ticket *ticket, uint32_t server);

void npu_forget_share(npu_share *share);

#endif

/* books.h: everything that is alive in this process, by kind, and the one lock over all of it.
 *
 *   kind           | what it is                                    | its range is
 *   ALLOCATION     | npu_span, aclrtMalloc and aclrtMallocHost     | what was asked for
 *   MAPPING        | npu_span, aclrtMapMem                         | the mapped addresses
 *   REGISTRATION   | npu_span, aclrtHostRegisterV2                 | the caller's memory
 *   IMPORT         | npu_span, aclrtIpcMemImportByKey              | what was exported
 *   DEVICE_VIEW    | npu_span, the device addresses of such        | PROT_NONE addresses
 *   RESERVATION    | npu_entry                                     | the reserved addresses
 *   HANDLE         | npu_block behind an aclrtDrvMemHandle         | its own address
 *   STREAM         | npu_stream                                    | its own address
 *   CONTEXT        | npu_context                                   | its own address
 *
 * What a caller hands in as a handle or an address is good if it is in the books; nothing else is ever
 * dereferenced. Streams wait on condition variables over the same lock; bytes are moved without it.
 */
#ifndef NPU_BOOKS_H
#define NPU_BOOKS_H

#include <pthread.h>

#include "acl/acl.h"

typedef enum {
    NPU_ALLOCATION,
    NPU_MAPPING,
    NPU_IMPORT,
    NPU_REGISTRATION,
    NPU_DEVICE_VIEW,
    NPU_RESERVATION,
    NPU_HANDLE,
    NPU_STREAM,
    NPU_CONTEXT,
    NPU_KINDS
} npu_kind;

/* The first member of whatever is in the books. */
typedef struct npu_entry {
    struct npu_entry *next;
    uintptr_t base;
    size_t size;
} npu_entry;

extern pthread_mutex_t npu_lock;

void npu_enter(npu_kind kind, npu_entry *entry);
void npu_leave(npu_kind kind, npu_entry *entry);

/* The first entry of a kind, to walk by ->next. */
npu_entry *npu_first(npu_kind kind);

/* The entry whose range holds an address; that begins there; that shares a byte with a range. */
npu_entry *npu_holding(npu_kind kind, const void *address);
npu_entry *npu_beginning(npu_kind kind, const void *address);
npu_entry *npu_touching(npu_kind kind, uintptr_t base, size_t size);

#endif

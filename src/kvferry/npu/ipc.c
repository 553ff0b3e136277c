/* ipc.c: plain device memory that is shared by a key.
 *
 *   key, 64 letters and a zero | server 8 | pid 8 | id 8 | offset 16 | size 16 | "npu-mem" and "." |
 *
 * All numbers are hexadecimal; offset and size say which part of the exported block is meant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"
#include "page.h"
#include "span.h"
#include "wire.h"

#define KEY_SIZE 65

typedef struct npu_key {
    npu_ticket ticket;
    uint64_t offset, size;
} npu_key;

static void write_key(const npu_key *key, char *text) {
    snprintf(text, KEY_SIZE, "%08x%08x%08x%016lx%016lxnpu-mem.", key->ticket.server, key->ticket.pid,
             key->ticket.id, (unsigned long)key->offset, (unsigned long)key->size);
}

static bool read_key(const char *text, npu_key *key) {
    unsigned long offset, size;
    char again[KEY_SIZE];
    if (!text || strnlen(text, KEY_SIZE) != KEY_SIZE - 1) return false;
    *key = (npu_key){.ticket.type = NPU_BY_KEY};
    if (sscanf(text, "%8x%8x%8x%16lx%16lx", &key->ticket.server, &key->ticket.pid, &key->ticket.id,
               &offset, &size) != 5)
        return false;
    key->offset = offset;
    key->size = size;
    write_key(key, again);
    return !memcmp(text, again, KEY_SIZE) && key->ticket.pid;
}

static bool is_same(const npu_ticket *a, const npu_ticket *b) {
    return a->type == b->type && a->server == b->server && a->pid == b->pid && a->id == b->id;
}

/* ---- exporter ---- */

NPU_API aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len,
                                         uint64_t flags) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_span *span = (npu_span *)npu_holding(NPU_ALLOCATION, devPtr);
    if (!span || span->on_host || !key || len != KEY_SIZE)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not memory of aclrtMalloc, or len is not 65");
    size_t offset = (uintptr_t)devPtr - span->entry.base;
    if (!size || size > span->entry.size - offset)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "more than was allocated");
    aclError failed = npu_share_out(span->block, flags, NPU_BY_KEY);
    if (failed) return failed;
    npu_key made = {span->block->share.ticket, offset, size};
    write_key(&made, key);
    return 0;
}

NPU_API aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_key read;
    if (!read_key(key, &read)) return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "not a key");
    return npu_invite(&read.ticket, pid, num);
}

/* ---- importer ---- */

static npu_span *imported(const npu_ticket *ticket, int32_t device) {
    for (npu_entry *entry = npu_first(NPU_IMPORT); entry; entry = entry->next) {
        npu_span *span = (npu_span *)entry;
        if (is_same(&span->block->share.ticket, ticket) && span->device == device) return span;
    }
    return NULL;
}

static aclError check_import(const npu_key *key, int32_t device) {
    if (key->ticket.server != npu_set()->server)
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "keys do not cross servers");
    if (imported(&key->ticket, device))
        return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "imported to this device before");
    return 0;
}

static npu_span *make_span(const npu_key *key, npu_block *block) {
    npu_span *span = calloc(1, sizeof *span);
    size_t reserved = npu_round_up(key->size, NPU_HUGE);
    void *at = span ? npu_take_addresses(reserved, NPU_HUGE, NULL) : NULL;
    if (!at) {
        free(span);
        return NULL;
    }
    *span = (npu_span){.entry = {NULL, (uintptr_t)at, key->size},
                       .alias = (char *)block->alias + key->offset,
                       .block = block,
                       .device = block->device,
                       .home = block->home};
    return span;
}

static aclError enter(const npu_key *key, int32_t device, npu_block *block, uint64_t flags,
                      void **devPtr) {
    bool fits = key->size && key->offset <= block->size && key->size <= block->size - key->offset;
    npu_span *span = fits ? make_span(key, block) : NULL;
    if (!span) {
        npu_drop_ref(block);
        return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "the key says more than there is");
    }
    bool peer = flags == ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS;
    if (peer && block->home != device) npu_make_peer(device, block->home);
    npu_enter(NPU_IMPORT, &span->entry);
    *devPtr = (void *)span->entry.base;
    return 0;
}

NPU_API aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags) {
    npu_key read;
    int32_t device;
    {
        NPU_CALL(NPU_IN_CONTEXT);
        if (!devPtr || flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)
            return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "flags must be 0 or 1");
        if (!read_key(key, &read)) return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "not a key");
        device = npu_current()->device;
        aclError refused = check_import(&read, device);
        if (refused) return refused;
    }
    npu_request request = {read.ticket, read.ticket.server, (uint32_t)device};
    npu_answer answer;
    int fd;
    aclError failed = npu_ask(&request, &answer, &fd);
    if (failed) return failed;
    NPU_HOLD_LOCK;
    aclError refused = check_import(&read, device); /* another thread may have been faster */
    if (refused) {
        close(fd);
        return refused;
    }
    npu_block *block = npu_take_in(&read.ticket, device, &answer, fd);
    if (!block) return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "this machine cannot map it");
    return enter(&read, device, block, flags, devPtr);
}

/* ---- both ---- */

static void close_import(npu_span *span) {
    npu_leave(NPU_IMPORT, &span->entry);
    munmap((void *)span->entry.base, npu_round_up(span->entry.size, NPU_HUGE));
    npu_drop_ref(span->block);
    free(span);
}

static bool close_export(const npu_ticket *ticket) {
    for (npu_entry *entry = npu_first(NPU_ALLOCATION); entry; entry = entry->next) {
        npu_share *share = &((npu_span *)entry)->block->share;
        if (share->state != NPU_EXPORTED || !is_same(&share->ticket, ticket)) continue;
        npu_forget_share(share);
        *share = (npu_share){0};
        return true;
    }
    return false;
}

NPU_API aclError aclrtIpcMemClose(const char *key) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_key read;
    if (!read_key(key, &read)) return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "not a key");
    npu_span *span = imported(&read.ticket, npu_current()->device);
    if (span) close_import(span);
    else if (!close_export(&read.ticket))
        return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "nothing is shared by this key");
    return 0;
}

/* export.c: naming memory to others, and who of them may have it. */
#include "share.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "call.h"
#include "device.h"
#include "serve.h"
#include "span.h"

#define GUESTS_MAX 65535

void npu_forget_share(npu_share *share) { free(share->guests); }

/* When a process began, in clock ticks; 0: there is no such process. */
static unsigned long long start_of(pid_t pid) {
    char path[32], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = 0;
    /* Field 22; the second is a name in brackets that may hold anything. */
    char *after = strrchr(line, ')');
    unsigned long long start = 0;
    if (after) sscanf(after + 1, " %*c%*d%*d%*d%*d%*d%*u%*u%*u%*u%*u%*u%*u%*d%*d%*d%*d%*d%*d%llu", &start);
    return start;
}

static bool has_id(const npu_block *block, uint32_t id) {
    return block->refs && block->share.state == NPU_EXPORTED && block->share.ticket.id == id;
}

static npu_block *exported(uint32_t id) {
    for (npu_entry *entry = npu_first(NPU_HANDLE); entry; entry = entry->next)
        if (has_id((npu_block *)entry, id)) return (npu_block *)entry;
    for (npu_entry *entry = npu_first(NPU_ALLOCATION); entry; entry = entry->next)
        if (has_id(((npu_span *)entry)->block, id)) return ((npu_span *)entry)->block;
    return NULL;
}

/* ---- export ---- */

/* An id that no export alive has, or 0 when all are taken. */
static uint32_t next_id(void) {
    static uint32_t counted;
    uint32_t start = (uint32_t)start_of(getpid()) << 16;
    for (uint32_t tries = 0; tries < 0xffff; tries++) {
        counted = counted % 0xffff + 1;
        if (!exported(start | counted)) return start | counted;
    }
    return 0;
}

bool npu_is_shared_type(aclrtMemSharedHandleType type) {
    return type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT || type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
}

aclError npu_share_out(npu_block *block, uint64_t flags, aclrtMemSharedHandleType type) {
    if (flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "flags must be 0 or 1");
    if (block->share.state != NPU_PRIVATE)
        return npu_refuse(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "exported before, or imported");
    aclError failed = npu_start_serving();
    if (failed) return failed;
    uint32_t id = next_id();
    if (!id) return npu_refuse(ACL_ERROR_RT_OVER_LIMIT, "too many exports");
    block->share = (npu_share){
        .state = NPU_EXPORTED,
        .ticket = {type, npu_set()->server, (uint32_t)getpid(), id},
        .anybody = flags == ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
    };
    return 0;
}

static aclError export(aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType type,
                       void *shareable) {
    npu_block *block = npu_block_of(handle);
    if (!block || !shareable || !npu_is_shared_type(type))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not a handle, or no such type");
    aclError failed = npu_share_out(block, flags, type);
    if (!failed) npu_write_ticket(&block->share.ticket, shareable);
    return failed;
}

NPU_API aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                                   aclrtMemSharedHandleType shareType,
                                                   void *shareableHandle) {
    NPU_CALL(NPU_IN_CONTEXT);
    return export(handle, flags, shareType, shareableHandle);
}

NPU_API aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle,
                                                 aclrtMemHandleType handleType, uint64_t flags,
                                                 uint64_t *shareableHandle) {
    NPU_CALL(NPU_IN_CONTEXT);
    if (handleType != ACL_MEM_HANDLE_TYPE_NONE)
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the handle type must be NONE");
    return export(handle, flags, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, shareableHandle);
}

/* ---- who may import ---- */

static bool expects(const npu_share *share, pid_t pid) {
    for (const npu_guest *guest = share->guests; guest < share->guests + share->guest_count; guest++)
        if (guest->pid == pid && guest->start == start_of(pid)) return true;
    return false;
}

static aclError add_guests(npu_share *share, const int32_t *pid, size_t count) {
    if (count > GUESTS_MAX - share->guest_count)
        return npu_refuse(ACL_ERROR_RT_OVER_LIMIT, "more than 65535 processes");
    npu_guest *all = realloc(share->guests, (share->guest_count + count) * sizeof *all);
    if (!all) return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
    share->guests = all;
    for (size_t i = 0; i < count; i++) all[share->guest_count + i] = (npu_guest){pid[i], start_of(pid[i])};
    for (size_t i = 0; i < count; i++)
        if (!all[share->guest_count + i].start)
            return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no such process");
    share->guest_count += count;
    return 0;
}

aclError npu_invite(const npu_ticket *ticket, const int32_t *pid, size_t count) {
    if (!pid || !count) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no process");
    if (ticket->pid != (uint32_t)getpid() || ticket->server != npu_set()->server)
        return npu_refuse(ACL_ERROR_RT_NO_PERMISSION, "only who exported it may say who imports");
    npu_block *block = exported(ticket->id);
    if (!block || block->share.ticket.type != ticket->type)
        return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "nothing is exported by this name");
    if (block->share.anybody)
        return npu_refuse(ACL_ERROR_RT_NO_PERMISSION, "it was exported without a list");
    return add_guests(&block->share, pid, count);
}

static aclError set_pid(const void *shareable, aclrtMemSharedHandleType type, const int32_t *pid,
                        size_t count) {
    npu_ticket ticket;
    if (!shareable || !npu_is_shared_type(type))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no handle, or no such type");
    if (!npu_read_ticket(shareable, type, &ticket))
        return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "not a handle of this type");
    return npu_invite(&ticket, pid, count);
}

NPU_API aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                                   aclrtMemSharedHandleType shareType, int32_t *pid,
                                                   size_t pidNum) {
    NPU_CALL(NPU_IN_CONTEXT);
    return set_pid(shareableHandle, shareType, pid, pidNum);
}

NPU_API aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid,
                                                 size_t pidNum) {
    NPU_CALL(NPU_IN_CONTEXT);
    return set_pid(&shareableHandle, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, pid, pidNum);
}

/* ---- what importers are answered ---- */

bool npu_may_cross(const npu_ticket *ticket, uint32_t server) {
    return ticket->server == server ||
           (ticket->type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC && npu_set()->profile == NPU_A3);
}

/* The list acts inside one server. Who exported needs no leave of itself. */
static bool is_welcome(const npu_share *share, const npu_request *request, pid_t pid) {
    return share->anybody || request->server != share->ticket.server || pid == getpid() ||
           expects(share, pid);
}

static aclError judge(const npu_block *block, const npu_request *request, pid_t pid) {
    if (!block || block->share.ticket.type != request->ticket.type ||
        block->share.ticket.server != request->ticket.server)
        return ACL_ERROR_RT_INVALID_HANDLE;
    if (!npu_may_cross(&request->ticket, request->server)) return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    if (pid == getpid() && block->device == (int32_t)request->device)
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    return is_welcome(&block->share, request, pid) ? 0 : ACL_ERROR_RT_NO_PERMISSION;
}

npu_answer npu_grant(const npu_request *request, pid_t pid, int *fd) {
    npu_block *block = exported(request->ticket.id);
    npu_answer answer = {.code = judge(block, request, pid)};
    if (answer.code) return answer;
    *fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0) return (npu_answer){.code = ACL_ERROR_RT_RESOURCE_ALLOC_FAIL};
    answer.device = block->device;
    answer.size = block->size;
    answer.prop = block->prop;
    return answer;
}

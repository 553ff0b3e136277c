/* import.c: memory of other processes. */
#include <unistd.h>

#include "block.h"
#include "call.h"
#include "device.h"
#include "wire.h"

static bool is_imported(const npu_ticket *ticket, int32_t device) {
    for (npu_entry *entry = npu_first(NPU_HANDLE); entry; entry = entry->next) {
        const npu_block *block = (npu_block *)entry;
        const npu_ticket *other = &block->share.ticket;
        if (block->share.state == NPU_IMPORTED && block->device == device &&
            other->server == ticket->server && other->pid == ticket->pid && other->id == ticket->id)
            return true;
    }
    return false;
}

static aclError check_import(const npu_ticket *ticket, int32_t device) {
    if (!npu_may_cross(ticket, npu_set()->server))
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "only FABRIC crosses servers, on the A3");
    if (is_imported(ticket, device))
        return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "imported to this device before");
    return 0;
}

npu_block *npu_take_in(const npu_ticket *ticket, int32_t device, const npu_answer *answer, int fd) {
    npu_block *block = npu_adopt_block(fd, answer->size, device);
    if (!block) return NULL;
    block->prop = answer->prop;
    block->home = ticket->server == npu_set()->server ? answer->device : NPU_HOST;
    block->share = (npu_share){.state = NPU_IMPORTED, .ticket = *ticket};
    return block;
}

/* Another thread may have imported the same handle meanwhile. */
static aclError take_in(const npu_ticket *ticket, int32_t device, const npu_answer *answer, int fd,
                        aclrtDrvMemHandle *handle) {
    NPU_HOLD_LOCK;
    aclError refused = check_import(ticket, device);
    if (refused) {
        close(fd);
        return refused;
    }
    npu_block *block = npu_take_in(ticket, device, answer, fd);
    if (!block) return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "this machine cannot map it");
    npu_hand_out(block);
    *handle = block;
    return 0;
}

static aclError import(const npu_ticket *ticket, uint32_t server, int32_t device,
                       aclrtDrvMemHandle *handle) {
    npu_request request = {*ticket, server, (uint32_t)device};
    npu_answer answer;
    int fd;
    aclError failed = npu_ask(&request, &answer, &fd);
    return failed ? failed : take_in(ticket, device, &answer, fd, handle);
}

static aclError read_import(const void *shareable, aclrtMemSharedHandleType type, int32_t device,
                            const aclrtDrvMemHandle *handle, npu_ticket *ticket) {
    if (!shareable || !handle || !npu_is_shared_type(type))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no handle, or no such type");
    if (!npu_read_ticket(shareable, type, ticket))
        return npu_refuse(ACL_ERROR_RT_INVALID_HANDLE, "not a handle of this type");
    return check_import(ticket, device);
}

NPU_API aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle,
                                                     aclrtMemSharedHandleType shareType,
                                                     uint64_t flags, aclrtDrvMemHandle *handle) {
    npu_ticket ticket;
    int32_t device;
    uint32_t server;
    {
        NPU_CALL(NPU_IN_CONTEXT);
        if (flags) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "flags must be 0");
        device = npu_current()->device;
        server = npu_set()->server;
        aclError refused = read_import(shareableHandle, shareType, device, handle, &ticket);
        if (refused) return refused;
    }
    return import(&ticket, server, device, handle);
}

NPU_API aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                   aclrtDrvMemHandle *handle) {
    npu_ticket ticket;
    uint32_t server;
    {
        NPU_CALL(NPU_IN_CONTEXT);
        if (!npu_is_device(deviceId))
            return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
        server = npu_set()->server;
        aclError refused = read_import(&shareableHandle, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, deviceId,
                                       handle, &ticket);
        if (refused) return refused;
    }
    return import(&ticket, server, deviceId, handle);
}

/* access.c: who may use mapped memory, and what lies at an address. */
#include "call.h"
#include "span.h"

/* HDK 25.5 has no aclrtMemRetainAllocationHandle yet. */
#define RETAINS_SINCE 26.0

static bool is_access(aclrtMemAccessFlags flags) {
    return flags == ACL_RT_MEM_ACCESS_FLAGS_NONE || flags == ACL_RT_MEM_ACCESS_FLAGS_READ ||
           flags == ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
}

static aclError check_access(const aclrtMemAccessDesc *desc) {
    if (!is_access(desc->flags))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "access is NONE, READ or READWRITE");
    if (desc->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "access is given to a device");
    if (!npu_is_device(desc->location.id))
        return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    return 0;
}

NPU_API aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc,
                                   size_t count) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_span *span = (npu_span *)npu_beginning(NPU_MAPPING, virPtr);
    if (!span || size != span->entry.size || !desc || !count)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not the whole of a mapping");
    for (size_t i = 0; i < count; i++) {
        aclError refused = check_access(&desc[i]);
        if (refused) return refused;
    }
    for (size_t i = 0; i < count; i++) span->access[desc[i].location.id] = (uint8_t)desc[i].flags;
    return 0;
}

static uint64_t access_of(const npu_span *span, int32_t device) {
    bool all = npu_allows(span, device, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    return all ? ACL_RT_MEM_ACCESS_FLAGS_READWRITE : span->access[device];
}

NPU_API aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag) {
    NPU_CALL(NPU_IN_CONTEXT);
    const npu_span *span = (npu_span *)npu_holding(NPU_MAPPING, virPtr);
    if (!span || !location || !flag)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped there");
    if (location->type != ACL_MEM_LOCATION_TYPE_DEVICE || !npu_is_device(location->id))
        return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    *flag = access_of(span, (int32_t)location->id);
    return 0;
}

NPU_API aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize) {
    NPU_CALL(NPU_IN_CONTEXT);
    const npu_span *span = npu_span_at(ptr);
    if (!span || !span->block)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no memory of ours lies there");
    if (pbase) *pbase = (void *)span->entry.base;
    if (psize) *psize = span->entry.size;
    return 0;
}

NPU_API aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle) {
    NPU_CALL(NPU_IN_CONTEXT);
    if (npu_set()->hdk < RETAINS_SINCE)
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "this HDK has no retaining");
    npu_span *span = (npu_span *)npu_holding(NPU_MAPPING, virPtr);
    if (!span || !handle) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped there");
    span->block->refs++;
    *handle = span->block;
    return 0;
}

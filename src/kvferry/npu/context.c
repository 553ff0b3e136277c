/* context.c: what threads use a device through. */
#include <stdlib.h>

#include "call.h"
#include "device.h"

static _Thread_local npu_context *current;

npu_context *npu_current(void) {
    if (current && !npu_beginning(NPU_CONTEXT, current)) current = NULL;
    return current;
}

void npu_make_current(npu_context *context) { current = context; }

npu_context *npu_make_context(int32_t device) {
    npu_context *context = calloc(1, sizeof *context);
    if (!context) return NULL;
    context->entry = (npu_entry){NULL, (uintptr_t)context, 1};
    context->device = device;
    context->refs = 1;
    npu_enter(NPU_CONTEXT, &context->entry);
    return context;
}

void npu_drop_context(npu_context *context) {
    if (--context->refs == 0) free(context);
}

void npu_destroy_context(npu_context *context) {
    npu_leave(NPU_CONTEXT, &context->entry);
    npu_drop_context(context);
}

NPU_API aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId) {
    NPU_CALL(NPU_INITIALISED);
    if (!context) return npu_refuse(ACL_ERROR_INVALID_PARAM, "no place for the context");
    if (!npu_is_device(deviceId))
        return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    npu_context *made = npu_make_context(deviceId);
    if (!made) return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
    *context = made;
    npu_make_current(made);
    return 0;
}

NPU_API aclError aclrtDestroyContext(aclrtContext context) {
    NPU_CALL(NPU_INITIALISED);
    npu_context *found = (npu_context *)npu_beginning(NPU_CONTEXT, context);
    if (!found || npu_is_primary(found))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not a context of aclrtCreateContext");
    npu_destroy_context(found);
    return 0;
}

NPU_API aclError aclrtSetCurrentContext(aclrtContext context) {
    NPU_CALL(NPU_INITIALISED);
    npu_context *found = (npu_context *)npu_beginning(NPU_CONTEXT, context);
    if (!found) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no such context");
    npu_make_current(found);
    return 0;
}

NPU_API aclError aclrtGetCurrentContext(aclrtContext *context) {
    NPU_CALL(NPU_IN_CONTEXT);
    if (!context) return npu_refuse(ACL_ERROR_INVALID_PARAM, "no place for the context");
    *context = npu_current();
    return 0;
}

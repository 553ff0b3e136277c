/* process.c: beginning and end of a process's use of the library, and what it is told of it. */
#include <stdio.h>
#include <unistd.h>

#include "call.h"
#include "device.h"
#include "serve.h"

static uint64_t init_refs;
static bool announced;

bool npu_initialised(void) { return init_refs > 0; }

static void announce(void) {
    if (!announced && !npu_set()->quiet)
        fputs("software NPU: nothing measured here is Ascend's\n", stderr);
    announced = true;
}

NPU_API aclError aclInit(const char *configPath) {
    (void)configPath;
    NPU_HOLD_LOCK;
    if (!init_refs) {
        const char *wrong = npu_read_settings();
        if (wrong) return npu_refuse(ACL_ERROR_INVALID_PARAM, wrong);
    }
    aclError ordered = npu_may_call(__func__, NPU_ANY_TIME);
    if (ordered) return ordered;
    announce();
    if (init_refs++)
        return npu_refuse(ACL_ERROR_REPEAT_INITIALIZE, "already initialised, and counted");
    return 0;
}

NPU_API aclError aclFinalize(void) {
    {
        NPU_CALL(NPU_INITIALISED);
        init_refs = 0;
    }
    npu_stop_serving();
    return 0;
}

NPU_API aclError aclFinalizeReference(uint64_t *refCount) {
    bool last;
    {
        NPU_CALL(NPU_INITIALISED);
        last = --init_refs == 0;
        if (refCount) *refCount = init_refs;
    }
    if (last) npu_stop_serving();
    return 0;
}

NPU_API const char *aclrtGetSocName(void) {
    static const char *const names[] = {
        [NPU_A2] = "Ascend910B1", [NPU_A3] = "Ascend910_9391", [NPU_950] = "Ascend950PR_9589"};
    NPU_HOLD_LOCK;
    return npu_ordered_failure(__func__) ? NULL : names[npu_set()->profile];
}

NPU_API aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion,
                                 int32_t *patchVersion) {
    NPU_CALL(NPU_ANY_TIME);
    if (!majorVersion || !minorVersion || !patchVersion)
        return npu_refuse(ACL_ERROR_INVALID_PARAM, "no place for the version");
    *majorVersion = 1;
    *minorVersion = 17;
    *patchVersion = 0;
    return 0;
}

NPU_API aclError aclrtDeviceGetBareTgid(int32_t *pid) {
    NPU_CALL(NPU_INITIALISED);
    if (!pid) return npu_refuse(ACL_ERROR_INVALID_PARAM, "no place for the pid");
    *pid = (int32_t)getpid();
    return 0;
}

#include "device.h"

#include "call.h"

typedef struct npu_device {
    npu_context *primary; /* what aclrtSetDevice makes current; NULL: not set */
    unsigned set;         /* aclrtSetDevice calls not undone yet */
    uint64_t used;        /* bytes of its capacity */
    bool peer[NPU_DEVICES_MAX];
} npu_device;

static npu_device devices[NPU_DEVICES_MAX];

bool npu_is_device(int64_t device) { return 0 <= device && device < npu_set()->devices; }

bool npu_peers(int32_t device, int32_t other) {
    return device == other || devices[device].peer[other];
}

void npu_make_peer(int32_t device, int32_t other) { devices[device].peer[other] = true; }

bool npu_take_capacity(int32_t device, size_t size) {
    if (device == NPU_HOST) return true;
    if (size > npu_set()->capacity - devices[device].used) return false;
    devices[device].used += size;
    return true;
}

void npu_give_capacity(int32_t device, size_t size) {
    if (device != NPU_HOST) devices[device].used -= size;
}

bool npu_is_primary(const npu_context *context) {
    return devices[context->device].primary == context;
}

NPU_API aclError aclrtGetDeviceCount(uint32_t *count) {
    NPU_CALL(NPU_ANY_TIME);
    if (!count) return npu_refuse(ACL_ERROR_INVALID_PARAM, "no place for the count");
    *count = npu_set()->devices;
    return 0;
}

NPU_API aclError aclrtSetDevice(int32_t deviceId) {
    NPU_CALL(NPU_INITIALISED);
    if (!npu_is_device(deviceId))
        return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    npu_device *device = &devices[deviceId];
    if (!device->primary && !(device->primary = npu_make_context(deviceId)))
        return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
    device->set++;
    npu_make_current(device->primary);
    return 0;
}

NPU_API aclError aclrtGetDevice(int32_t *deviceId) {
    NPU_CALL(NPU_IN_CONTEXT);
    if (!deviceId) return npu_refuse(ACL_ERROR_INVALID_PARAM, "no place for the device");
    *deviceId = npu_current()->device;
    return 0;
}

static aclError reset(int32_t deviceId, bool force) {
    if (!npu_is_device(deviceId))
        return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    npu_device *device = &devices[deviceId];
    if (!device->set) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the device was not set");
    device->set = force ? 0 : device->set - 1;
    if (device->set) return 0;
    npu_destroy_context(device->primary);
    device->primary = NULL;
    for (int other = 0; other < NPU_DEVICES_MAX; other++) device->peer[other] = false;
    return 0;
}

NPU_API aclError aclrtResetDevice(int32_t deviceId) {
    NPU_CALL(NPU_INITIALISED);
    return reset(deviceId, false);
}

NPU_API aclError aclrtResetDeviceForce(int32_t deviceId) {
    NPU_CALL(NPU_INITIALISED);
    return reset(deviceId, true);
}

NPU_API aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
    NPU_CALL(NPU_IN_CONTEXT);
    int32_t device = npu_current()->device;
    if (!npu_is_device(peerDeviceId) || peerDeviceId == device)
        return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "not another device");
    if (flags) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "flags must be 0");
    npu_make_peer(device, peerDeviceId);
    return 0;
}

/* User, logical and physical numbers are the same here. */
static aclError same_number(int32_t from, int32_t *to) {
    if (!to) return npu_refuse(ACL_ERROR_INVALID_PARAM, "no place for the device");
    if (!npu_is_device(from))
        return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    *to = from;
    return 0;
}

NPU_API aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId) {
    NPU_CALL(NPU_INITIALISED);
    return same_number(logicDevId, phyDevId);
}

NPU_API aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid,
                                               int32_t *const logicDevId) {
    NPU_CALL(NPU_INITIALISED);
    return same_number(userDevid, logicDevId);
}

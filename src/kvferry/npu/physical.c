/* physical.c: memory that has no address yet. */
#include "block.h"
#include "call.h"
#include "device.h"
#include "page.h"

#define ON_DEVICE 1u
#define ON_HOST 2u

/* Granularity, and where memory of the attribute may lie; 0: nowhere any more. Memory of HBM_NORMAL
 * comes in huge pages too. */
static const struct {
    size_t page;
    unsigned places;
} KINDS[] = {
    [ACL_HBM_MEM_HUGE] = {NPU_HUGE, ON_DEVICE},
    [ACL_HBM_MEM_NORMAL] = {NPU_HUGE, ON_DEVICE},
    [ACL_HBM_MEM_HUGE1G] = {NPU_HUGE1G, ON_DEVICE},
    [ACL_DDR_MEM_HUGE] = {NPU_HUGE, ON_HOST},
    [ACL_DDR_MEM_NORMAL] = {NPU_NORMAL, ON_HOST},
    [ACL_DDR_MEM_P2P_HUGE] = {NPU_HUGE, ON_HOST},
    [ACL_DDR_MEM_P2P_NORMAL] = {NPU_NORMAL, ON_HOST},
    [ACL_MEM_NORMAL] = {NPU_NORMAL, ON_DEVICE | ON_HOST},
    [ACL_MEM_HUGE] = {NPU_HUGE, ON_DEVICE | ON_HOST},
    [ACL_MEM_HUGE1G] = {NPU_HUGE1G, ON_DEVICE},
    [ACL_MEM_P2P_NORMAL] = {NPU_NORMAL, ON_DEVICE | ON_HOST},
    [ACL_MEM_P2P_HUGE] = {NPU_HUGE, ON_DEVICE | ON_HOST},
    [ACL_MEM_P2P_HUGE1G] = {NPU_HUGE1G, ON_DEVICE | ON_HOST},
};

size_t npu_page_of(const npu_block *block) { return KINDS[block->prop.memAttr].page; }

bool npu_is_attribute(aclrtMemAttr attr) {
    return (unsigned)attr < sizeof KINDS / sizeof *KINDS && KINDS[attr].page;
}

static bool has_profile(aclrtMemAttr attr) {
    npu_profile profile = npu_set()->profile;
    if (attr == ACL_MEM_P2P_HUGE1G) return profile == NPU_A3;
    return attr != ACL_MEM_HUGE1G || profile != NPU_950;
}

/* Where a location is, in the words of KINDS; 0: nowhere. */
static unsigned side(aclrtMemLocationType type) {
    bool host = type == ACL_MEM_LOCATION_TYPE_HOST || type == ACL_MEM_LOCATION_TYPE_HOST_NUMA;
    return host ? ON_HOST : type == ACL_MEM_LOCATION_TYPE_DEVICE ? ON_DEVICE : 0;
}

static aclError check_prop(const aclrtPhysicalMemProp *prop) {
    if (!prop || prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED ||
        (unsigned)prop->memAttr > ACL_MEM_P2P_HUGE1G)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no such allocation type or attribute");
    if (prop->handleType != ACL_MEM_HANDLE_TYPE_NONE)
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the handle type must be NONE");
    if (!npu_is_attribute(prop->memAttr) || !has_profile(prop->memAttr))
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "no such memory on this profile");
    if (!(KINDS[prop->memAttr].places & side(prop->location.type)))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no such memory at this location");
    if (side(prop->location.type) == ON_DEVICE && !npu_is_device(prop->location.id))
        return npu_refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    return 0;
}

static int32_t place(const aclrtPhysicalMemProp *prop) {
    bool on_device = prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
    return on_device ? (int32_t)prop->location.id : NPU_HOST;
}

NPU_API aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                                  aclrtMemGranularityOptions option,
                                                  size_t *granularity) {
    NPU_CALL(NPU_IN_CONTEXT);
    aclError refused = check_prop(prop);
    if (refused) return refused;
    if (!granularity || (unsigned)option > ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no such option");
    *granularity = KINDS[prop->memAttr].page;
    if (option == ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED && *granularity < NPU_HUGE)
        *granularity = NPU_HUGE;
    return 0;
}

NPU_API aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                     const aclrtPhysicalMemProp *prop, uint64_t flags) {
    NPU_CALL(NPU_IN_CONTEXT);
    aclError refused = check_prop(prop);
    if (refused) return refused;
    if (!handle || flags) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "flags must be 0");
    if (!size || size % KINDS[prop->memAttr].page)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the size is no multiple of the granularity");
    npu_block *block;
    aclError failed = npu_make_block(size, KINDS[prop->memAttr].page, place(prop), &block);
    if (failed) return failed;
    block->prop = *prop;
    npu_hand_out(block);
    *handle = block;
    return 0;
}

NPU_API aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_block *block = npu_block_of(handle);
    if (!block) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not a handle, or freed already");
    npu_drop_ref(block);
    return 0;
}

NPU_API aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                           aclrtPhysicalMemProp *prop) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_block *block = npu_block_of(handle);
    if (!block || !prop) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "not a handle");
    *prop = block->prop;
    return 0;
}

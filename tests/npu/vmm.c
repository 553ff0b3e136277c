/* Physical memory and addresses, one behind the other. */
#include <unistd.h>

#include "npu_check.h"

#define TERA ((uintptr_t)1 << 40)
#define GIB ((size_t)1 << 30)

/* The thread sanitizer keeps for itself the addresses that this asks for. */
#if defined(__SANITIZE_THREAD__)
#define FIXED_ADDRESSES 0
#else
#define FIXED_ADDRESSES 1
#endif

static unsigned char bytes[HUGE];

static void granularity(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    size_t size;
    begin_with(0, "A3");
    OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &size));
    CHECK(size == HUGE);
    prop.memAttr = ACL_HBM_MEM_HUGE1G;
    OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &size));
    CHECK(size == GIB);
    REFUSED(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF, &size));
    end_of(0);
}

static void refused_properties(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handle;
    begin_with(0, "A3");
    REFUSED(aclrtMallocPhysical(&handle, HUGE - 1, &prop, 0));
    REFUSED(aclrtMallocPhysical(&handle, 0, &prop, 0));
    REFUSED(aclrtMallocPhysical(&handle, HUGE, &prop, 1));
    REFUSED(aclrtMallocPhysical(&handle, HUGE, NULL, 0));
    prop = hbm(99);
    MUST_BE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    prop = hbm(0);
    prop.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    REFUSED(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    prop.handleType = ACL_MEM_HANDLE_TYPE_POSIX;
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    REFUSED(aclrtFreePhysical(&handle));
    prop = dram();
    prop.memAttr = ACL_DDR_MEM;
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    end_of(0);
    prop.memAttr = ACL_MEM_P2P_HUGE1G;
    const char *const profiles[] = {"A2", "A3", "950"};
    for (int i = 0; i < 3; i++) {
        begin_with(0, profiles[i]);
        aclError code = aclrtMallocPhysical(&handle, GIB, &prop, 0);
        CHECK(code == (i == 1 ? 0 : ACL_ERROR_RT_FEATURE_NOT_SUPPORT));
        if (!code) OK(aclrtFreePhysical(handle));
        end_of(0);
    }
}

static void map_rules(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handle, other;
    void *at;
    begin_with(0, "A3");
    OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    OK(aclrtMallocPhysical(&other, 2 * HUGE, &prop, 0));
    OK(aclrtReserveMemAddress(&at, 2 * HUGE, 0, NULL, 0));
    char *second = (char *)at + HUGE;
    REFUSED(aclrtMapMem(at, HUGE / 2, 0, handle, 0));
    REFUSED(aclrtMapMem(at, HUGE, HUGE / 2, handle, 0));
    REFUSED(aclrtMapMem(at, HUGE, 0, handle, 1));
    REFUSED(aclrtMapMem(at, HUGE, 0, NULL, 0));
    MUST_BE(ACL_ERROR_RT_ADDR_UNALIGNED, aclrtMapMem((char *)at + 4096, HUGE, 0, handle, 0));
    REFUSED(aclrtMapMem(second, 2 * HUGE, 0, other, 0));
    OK(aclrtMapMem(second, HUGE, 0, handle, 0));
    REFUSED(aclrtMapMem(second, HUGE, 0, handle, 0));
    REFUSED(aclrtMapMem(at, 2 * HUGE, 0, other, 0));
    REFUSED(aclrtReleaseMemAddress(at));
    REFUSED(aclrtUnmapMem(at));
    OK(aclrtUnmapMem(second));
    OK(aclrtMapMem(at, 2 * HUGE, 0, other, 0));
    OK(aclrtUnmapMem(at));
    OK(aclrtReleaseMemAddress(at));
    REFUSED(aclrtReleaseMemAddress(at));
    OK(aclrtFreePhysical(handle));
    OK(aclrtFreePhysical(other));
    end_of(0);
}

/* Between two devices mapped memory is copied by a stream, not by the call that waits. */
static void between_devices(void) {
    aclrtPhysicalMemProp prop[2] = {hbm(0), hbm(1)};
    aclrtDrvMemHandle handle[2];
    aclrtStream stream;
    void *at[2];
    begin_with(0, "A2");
    for (int i = 0; i < 2; i++) {
        OK(aclrtMallocPhysical(&handle[i], HUGE, &prop[i], 0));
        at[i] = mapped(handle[i], HUGE);
        OK(aclrtFreePhysical(handle[i]));
    }
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    fill(bytes, HUGE, 2);
    put(at[0], bytes, HUGE);
    MUST_BE(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
            aclrtMemcpy(at[1], HUGE, at[0], HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMemcpyAsync(at[1], HUGE, at[0], HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtSynchronizeStream(stream));
    CHECK(holds(at[1], bytes, HUGE));
    OK(aclrtDestroyStream(stream));
    for (int i = 0; i < 2; i++) unmapped(at[i]);
    end_of(0);
}

/* Freed while mapped: used until it is unmapped, then gone. And a copy that runs over two handles. */
static void deferred_free(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handle[2];
    char *at;
    setenv("NPU_CAPACITY", "4M", 1);
    begin_with(0, "A3");
    OK(aclrtReserveMemAddress((void **)&at, 2 * HUGE, 0, NULL, 0));
    for (int i = 0; i < 2; i++) {
        OK(aclrtMallocPhysical(&handle[i], HUGE, &prop, 0));
        OK(aclrtMapMem(at + i * HUGE, HUGE, 0, handle[i], 0));
        OK(aclrtFreePhysical(handle[i]));
        REFUSED(aclrtFreePhysical(handle[i]));
    }
    fill(bytes, HUGE, 1);
    put(at + HUGE / 2, bytes, HUGE);
    CHECK(holds(at + HUGE / 2, bytes, HUGE));
    CHECK(counts().handles == 2 && counts().mappings == 2);
    aclrtDrvMemHandle more;
    MUST_BE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocPhysical(&more, HUGE, &prop, 0));
    OK(aclrtUnmapMem(at));
    CHECK(counts().handles == 1);
    MUST_BE(ACL_ERROR_RT_DEVICE_MEM_ERROR,
            aclrtMemcpy(at + HUGE / 2, HUGE, bytes, HUGE, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtUnmapMem(at + HUGE));
    OK(aclrtReleaseMemAddress(at));
    unsetenv("NPU_CAPACITY");
    end_of(0);
}

/* The largest part of `target`, in tenths of it down to half and whole pages, that is to be had; 0: none
 * is. It stays allocated. */
static size_t best_effort(size_t target, aclrtPhysicalMemProp prop, size_t page,
                          aclrtDrvMemHandle *handle) {
    for (size_t tenths = 10; tenths >= 5; tenths--) {
        size_t size = target * tenths / 10 / page * page;
        aclError code = aclrtMallocPhysical(handle, size, &prop, 0);
        if (!code) return size;
        CHECK(code == ACL_ERROR_RT_MEMORY_ALLOCATION);
    }
    return 0;
}

static void fragmented(void) {
    aclrtPhysicalMemProp huge = hbm(0), giant = hbm(0), host = dram();
    aclrtDrvMemHandle handle, second;
    void *plain;
    giant.memAttr = ACL_HBM_MEM_HUGE1G;
    setenv("NPU_CAPACITY", "16G", 1);
    setenv("NPU_FRAGMENT", "7G", 1);
    begin_with(0, "A3");
    CHECK(best_effort(10 * GIB, giant, GIB, &handle) == 7 * GIB);
    OK(aclrtMallocPhysical(&second, 7 * GIB, &huge, 0));
    MUST_BE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&plain, 3 * GIB, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtFreePhysical(handle));
    OK(aclrtFreePhysical(second));
    CHECK(best_effort(15 * GIB, giant, GIB, &handle) == 7 * GIB);
    OK(aclrtFreePhysical(handle));
    CHECK(best_effort(20 * GIB, giant, GIB, &handle) == 0);
    CHECK(best_effort(10 * GIB, host, HUGE, &handle) == 7 * GIB);
    OK(aclrtFreePhysical(handle));
    end_of(0);
    unsetenv("NPU_CAPACITY");
    unsetenv("NPU_FRAGMENT");
}

/* Pages of 1 GiB are used up, on the device and on the host; smaller ones are not. */
static void small_pages_only(void) {
    aclrtPhysicalMemProp prop[2] = {hbm(0), dram()};
    const aclrtMemAttr giant[2] = {ACL_HBM_MEM_HUGE1G, ACL_MEM_P2P_HUGE1G};
    void *plain;
    setenv("NPU_PAGE", "2M", 1);
    begin_with(0, "A3");
    for (int i = 0; i < 2; i++) {
        aclrtDrvMemHandle handle;
        aclrtPhysicalMemProp large = prop[i];
        large.memAttr = giant[i];
        CHECK(best_effort(4 * GIB, large, GIB, &handle) == 0);
        CHECK(best_effort(4 * GIB, prop[i], HUGE, &handle) == 4 * GIB);
        OK(aclrtFreePhysical(handle));
    }
    MUST_BE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&plain, 8, ACL_MEM_MALLOC_HUGE1G_ONLY));
    unsetenv("NPU_PAGE");
    end_of(0);
}

static void retained(void) {
    aclrtPhysicalMemProp prop = hbm(1), seen;
    aclrtDrvMemHandle handle, again;
    begin_with(1, "A3");
    OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    void *at = mapped(handle, HUGE), *base;
    size_t size;
    OK(aclrtMemRetainAllocationHandle((char *)at + 5, &again));
    CHECK(again == handle);
    OK(aclrtMemGetAddressRange((char *)at + 5, &base, &size));
    CHECK(base == at && size == HUGE);
    OK(aclrtFreePhysical(handle));
    unmapped(at);
    OK(aclrtMemGetAllocationPropertiesFromHandle(again, &seen));
    CHECK(seen.location.id == 1 && seen.memAttr == ACL_HBM_MEM_HUGE);
    OK(aclrtFreePhysical(again));
    REFUSED(aclrtFreePhysical(again));
    end_of(1);
}

static void old_driver_retains_nothing(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handle, again;
    setenv("NPU_HDK", "25.5", 1);
    begin_with(0, "A3");
    OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    void *at = mapped(handle, HUGE);
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemRetainAllocationHandle(at, &again));
    OK(aclrtFreePhysical(handle));
    unmapped(at);
    unsetenv("NPU_HDK");
    end_of(0);
}

/* The processor writes host memory; the device sees it where it was given access. */
static void host_memory(void) {
    aclrtPhysicalMemProp prop = dram();
    aclrtMemAccessDesc access = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    uint64_t flag;
    void *there;
    begin_with(0, "A3");
    OK(aclrtMalloc(&there, HUGE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    void *at = mapped(handle, HUGE);
    fill(at, HUGE, 4);
    put(there, at, HUGE);
    CHECK(holds(there, at, HUGE));
    REFUSED(aclrtMemcpy(there, HUGE, at, HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    access.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    REFUSED(aclrtMemSetAccess(at, HUGE / 2, &access, 1));
    OK(aclrtMemSetAccess(at, HUGE, &access, 1));
    OK(aclrtMemGetAccess(at, &access.location, &flag));
    CHECK(flag == ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    fill(at, HUGE, 5);
    OK(aclrtMemcpy(there, HUGE, at, HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK(holds(there, at, HUGE));
    OK(aclrtFreePhysical(handle));
    unmapped(at);
    OK(aclrtFree(there));
    end_of(0);
}

/* As HIXL does it: own host memory, imported again, has addresses for the device. */
static void imported_by_itself(void) {
    aclrtPhysicalMemProp prop = dram();
    aclrtDrvMemHandle own, again;
    aclrtMemFabricHandle name;
    begin_with(0, "A3");
    OK(aclrtMallocPhysical(&own, HUGE, &prop, 0));
    void *at = mapped(own, HUGE);
    OK(aclrtMemExportToShareableHandleV2(own, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &name));
    OK(aclrtMemImportFromShareableHandleV2(&name, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &again));
    CHECK(again != own);
    void *device_side = mapped(again, HUGE);
    fill(at, HUGE, 6);
    CHECK(holds(device_side, at, HUGE));
    OK(aclrtFreePhysical(own));
    OK(aclrtFreePhysical(again));
    unmapped(at);
    unmapped(device_side);
    end_of(0);
}

static void expected_addresses(void) {
    void *at;
    begin_with(0, "A3");
    REFUSED(aclrtReserveMemAddress(&at, HUGE, 0, (void *)(40 * TERA), 1));
    REFUSED(aclrtReserveMemAddress(&at, 9 * TERA, 0, (void *)(16 * TERA), 1));
    REFUSED(aclrtReserveMemAddress(&at, HUGE, HUGE, NULL, 1));
    REFUSED(aclrtReserveMemAddress(&at, HUGE + 1, 0, NULL, 1));
    MUST_BE(ACL_ERROR_RT_ADDR_UNALIGNED,
            aclrtReserveMemAddress(&at, GIB, 0, (void *)(18 * TERA + HUGE), 1));
    REFUSED(aclrtReserveMemAddressNoUCMemory(&at, GIB, 0, NULL, 1));
    REFUSED(aclrtReserveMemAddressNoUCMemory(&at, HUGE, 0, (void *)(40 * TERA), 1));
    if (FIXED_ADDRESSES) {
        OK(aclrtReserveMemAddress(&at, HUGE, 0, (void *)(18 * TERA), 1));
        CHECK(at == (void *)(18 * TERA));
        void *same;
        MUST_BE(ACL_ERROR_RT_MEMORY_ALLOCATION,
                aclrtReserveMemAddress(&same, HUGE, 0, (void *)(18 * TERA), 1));
        OK(aclrtReleaseMemAddress(at));
        OK(aclrtReserveMemAddressNoUCMemory(&at, 32 * TERA, 0, (void *)(40 * TERA), 1));
        OK(aclrtReleaseMemAddress(at));
    }
    end_of(0);
    begin_with(0, "950");
    REFUSED(aclrtReserveMemAddress(&at, HUGE, 0, (void *)(18 * TERA), 1));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtReserveMemAddressNoUCMemory(&at, GIB, 0, (void *)(40 * TERA), 1));
    end_of(0);
}

/* The third aclrtMapMem fails; what it was to map is as before. */
static void third_map_fails(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handle;
    void *at;
    setenv("NPU_FAIL", "aclrtMapMem:3=507899", 1);
    begin_with(0, "A3");
    OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    OK(aclrtReserveMemAddress(&at, HUGE, 0, NULL, 1));
    for (int call = 1; call <= 4; call++) {
        MUST_BE(call == 3 ? 507899 : 0, aclrtMapMem(at, HUGE, 0, handle, 0));
        MUST_BE(call == 3 ? ACL_ERROR_RT_PARAM_INVALID : 0, aclrtUnmapMem(at));
    }
    OK(aclrtReleaseMemAddress(at));
    OK(aclrtFreePhysical(handle));
    unsetenv("NPU_FAIL");
    end_of(0);
}

int main(void) {
    granularity();
    refused_properties();
    map_rules();
    between_devices();
    deferred_free();
    fragmented();
    small_pages_only();
    retained();
    old_driver_retains_nothing();
    host_memory();
    imported_by_itself();
    expected_addresses();
    third_map_fails();
    return 0;
}

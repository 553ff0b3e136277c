/* Plain allocation, copies and their kinds, registered memory, capacity, and who comes too early. */
#include "npu_check.h"

#define SIZE (3 * MIB)

static unsigned char bytes[SIZE], seen[SIZE];

static void early_calls(void) {
    void *at;
    uint32_t count;
    MUST_BE(ACL_ERROR_UNINITIALIZE, aclrtSetDevice(0));
    MUST_BE(ACL_ERROR_UNINITIALIZE, aclFinalize());
    OK(aclrtGetDeviceCount(&count));
    OK(aclInit(NULL));
    MUST_BE(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&at, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(strstr(aclGetRecentErrMsg(), "aclrtSetDevice"));
    OK(aclFinalize());
}

static void references(void) {
    uint64_t left;
    OK(aclInit(NULL));
    MUST_BE(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
    OK(aclFinalizeReference(&left));
    CHECK(left == 1);
    OK(aclFinalizeReference(&left));
    CHECK(left == 0);
    MUST_BE(ACL_ERROR_UNINITIALIZE, aclFinalizeReference(&left));
}

static void devices_and_contexts(void) {
    aclrtContext first, second, now;
    int32_t device, physical;
    begin_with(2, NULL);
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&second, 3));
    OK(aclrtGetDevice(&device));
    CHECK(device == 3);
    OK(aclrtSetCurrentContext(first));
    OK(aclrtGetDevice(&device));
    CHECK(device == 2);
    REFUSED(aclrtDestroyContext(first));
    OK(aclrtDestroyContext(second));
    REFUSED(aclrtSetCurrentContext(second));
    OK(aclrtGetPhyDevIdByLogicDevId(2, &physical));
    CHECK(physical == 2);
    MUST_BE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(8));
    MUST_BE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(-1));
    OK(aclrtSetDevice(2));
    OK(aclrtResetDevice(2));
    OK(aclrtGetCurrentContext(&now));
    CHECK(now == first);
    end_of(2);
    REFUSED((aclInit(NULL), aclrtResetDeviceForce(2)));
    OK(aclFinalize());
}

static void round_trip(void) {
    void *there, *elsewhere;
    begin_with(0, NULL);
    OK(aclrtMalloc(&there, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&elsewhere, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    fill(bytes, SIZE, 3);
    put(there, bytes, SIZE);
    OK(aclrtMemcpy(elsewhere, SIZE, there, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    memset(seen, 0, SIZE);
    OK(aclrtMemcpy(seen, SIZE, elsewhere, SIZE, ACL_MEMCPY_DEFAULT));
    CHECK(!memcmp(seen, bytes, SIZE));
    OK(aclrtMemcpy(seen, SIZE, bytes + 1, SIZE - 1, ACL_MEMCPY_HOST_TO_HOST));
    CHECK(!memcmp(seen, bytes + 1, SIZE - 1));
    CHECK(counts().allocations == 2);
    OK(aclrtFree(there));
    REFUSED(aclrtFree(there));
    OK(aclrtFree(elsewhere));
    end_of(0);
}

/* What is beyond the size that was asked for is nobody's, though pages are there. */
static void beyond_the_end(void) {
    char *there, *elsewhere;
    size_t size = 5000;
    begin_with(0, NULL);
    OK(aclrtMalloc((void **)&there, size, ACL_MEM_MALLOC_HUGE_ONLY));
    OK(aclrtMalloc((void **)&elsewhere, size, ACL_MEM_MALLOC_HUGE_ONLY));
    for (int kind = ACL_MEMCPY_HOST_TO_DEVICE; kind <= ACL_MEMCPY_DEVICE_TO_DEVICE; kind++) {
        char *to = kind == ACL_MEMCPY_DEVICE_TO_HOST ? (char *)bytes : there + 10;
        char *from = kind == ACL_MEMCPY_HOST_TO_DEVICE ? (char *)bytes : elsewhere + 10;
        MUST_BE(ACL_ERROR_RT_DEVICE_MEM_ERROR,
                aclrtMemcpy(to, size, from, size, (aclrtMemcpyKind)kind));
        OK(aclrtMemcpy(to, size, from, size - 10, (aclrtMemcpyKind)kind));
    }
    OK(aclrtFree(there));
    OK(aclrtFree(elsewhere));
    end_of(0);
}

static void refused_copies(void) {
    void *there, *host;
    begin_with(0, NULL);
    OK(aclrtMalloc(&there, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost(&host, SIZE));
    memset(host, 1, SIZE);
    REFUSED(aclrtMemcpy(there, SIZE, bytes, SIZE, ACL_MEMCPY_HOST_TO_HOST));
    REFUSED(aclrtMemcpy(there, SIZE, bytes, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    REFUSED(aclrtMemcpy(there, SIZE, bytes, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    REFUSED(aclrtMemcpy(bytes, SIZE, bytes + 8, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemcpy(there, SIZE - 1, bytes, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemcpy(there, SIZE, bytes, 0, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemcpy(there, SIZE, NULL, 1, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemcpy(there, SIZE, bytes, 1, (aclrtMemcpyKind)8));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemcpy(there, SIZE, there, 1, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE));
    REFUSED(aclrtFree(host));
    REFUSED(aclrtFreeHost(there));
    OK(aclrtFreeHost(host));
    OK(aclrtFree(there));
    end_of(0);
}

/* Device memory of another device is out of reach until the devices are peers. */
static void peers(void) {
    void *here, *there;
    begin_with(1, NULL);
    OK(aclrtMalloc(&there, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&here, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST_BE(ACL_ERROR_RT_DEVICE_MEM_ERROR,
            aclrtMemcpy(there, SIZE, here, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    MUST_BE(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceEnablePeerAccess(0, 0));
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    OK(aclrtMemcpy(there, SIZE, here, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclrtFree(here));
    OK(aclrtFree(there));
    OK(aclrtResetDevice(0));
    end_of(1);
}

static void capacity(void) {
    void *at, *more;
    setenv("NPU_CAPACITY", "4M", 1);
    begin_with(0, NULL);
    OK(aclrtMalloc(&at, 2 * MIB, ACL_MEM_MALLOC_HUGE_ONLY));
    MUST_BE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&more, SIZE, ACL_MEM_MALLOC_HUGE_ONLY));
    OK(aclrtMalloc(&more, 1, ACL_MEM_MALLOC_HUGE_ONLY));
    OK(aclrtFree(at));
    OK(aclrtMalloc(&at, 2 * MIB, ACL_MEM_MALLOC_HUGE_ONLY));
    OK(aclrtFree(at));
    OK(aclrtFree(more));
    REFUSED(aclrtMalloc(&at, 0, ACL_MEM_MALLOC_HUGE_ONLY));
    REFUSED(aclrtMalloc(&at, 1, (aclrtMemMallocPolicy)8));
    unsetenv("NPU_CAPACITY");
    end_of(0);
}

static void attributes(void) {
    aclrtPtrAttributes what;
    void *there, *base;
    size_t size;
    begin_with(5, NULL);
    OK(aclrtMalloc(&there, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtPointerGetAttributes((char *)there + SIZE - 1, &what));
    CHECK(what.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && what.location.id == 5);
    OK(aclrtPointerGetAttributes(bytes, &what));
    CHECK(what.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    OK(aclrtMemGetAddressRange((char *)there + 100, &base, &size));
    CHECK(base == there && size == SIZE);
    REFUSED(aclrtMemGetAddressRange(bytes, &base, &size));
    OK(aclrtFree(there));
    end_of(5);
}

static void registered(void) {
    size_t size = 64 << 10;
    unsigned char *host = aligned_alloc(size, size);
    void *seen_by_device, *there;
    begin_with(0, NULL);
    OK(aclrtMalloc(&there, size, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(host, size, 9);
    MUST_BE(ACL_ERROR_RT_ADDR_UNALIGNED, aclrtHostRegisterV2(host + 4096, 4096, ACL_HOST_REG_MAPPED));
    OK(aclrtHostRegisterV2(host, size, ACL_HOST_REG_MAPPED));
    REFUSED(aclrtHostRegisterV2(host, size, ACL_HOST_REG_MAPPED));
    OK(aclrtHostGetDevicePointer(host, &seen_by_device, 0));
    OK(aclrtMemcpy(there, size, seen_by_device, size, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK(holds(there, host, size));
    memset(host, 0, size);
    OK(aclrtMemcpy(seen_by_device, size, there, size, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK(holds(there, host, size));
    OK(aclrtHostUnregister(host));
    OK(aclrtHostRegisterV2(host, size, ACL_HOST_REG_MAPPED | ACL_HOST_REG_READONLY));
    OK(aclrtHostGetDevicePointer(host, &seen_by_device, 0));
    MUST_BE(ACL_ERROR_RT_DEVICE_MEM_ERROR,
            aclrtMemcpy(seen_by_device, size, there, size, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclrtHostUnregister(host));
    OK(aclrtHostRegisterV2(host, size, ACL_HOST_REG_PINNED));
    REFUSED(aclrtHostGetDevicePointer(host, &seen_by_device, 0));
    OK(aclrtHostUnregister(host));
    REFUSED(aclrtHostUnregister(host));
    OK(aclrtFree(there));
    free(host);
    end_of(0);
}

static void ordered_failures(void) {
    void *at;
    setenv("NPU_FAIL", "aclrtMalloc:2=507899,aclrtFree=207020", 1);
    begin_with(0, NULL);
    OK(aclrtMalloc(&at, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST_BE(507899, aclrtMalloc(&at, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST_BE(207020, aclrtFree(at));
    MUST_BE(207020, aclrtFree(at));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    unsetenv("NPU_FAIL");
    begin_with(0, NULL);
    OK(aclrtFree(at));
    end_of(0);
}

static void settings_that_make_no_sense(void) {
    const char *const wrong[][2] = {
        {"NPU_PROFILE", "A4"},    {"NPU_DEVICES", "0"},       {"NPU_CAPACITY", "64Q"},
        {"NPU_FRAGMENT", "0"},    {"NPU_PAGE", "4K"},         
        {"NPU_SERVER_ID", "-1"},  {"NPU_FAIL", "aclrtMapMem"}, {"NPU_FAIL", "aclInit:0=1"},
        {"NPU_DELAY", "1second"}, {"NPU_HDK", "new"},         {"NPU_QUIET", "yes"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv(wrong[i][0], wrong[i][1], 1);
        CHECK(!strcmp(npu_wrong_setting(), wrong[i][0]));
        MUST_BE(ACL_ERROR_INVALID_PARAM, aclInit(NULL));
        CHECK(strstr(aclGetRecentErrMsg(), wrong[i][0]));
        unsetenv(wrong[i][0]);
    }
    CHECK(!npu_wrong_setting());
}

int main(void) {
    setenv("NPU_QUIET", "1", 1);
    early_calls();
    references();
    devices_and_contexts();
    round_trip();
    beyond_the_end();
    refused_copies();
    peers();
    capacity();
    attributes();
    registered();
    ordered_failures();
    settings_that_make_no_sense();
    return 0;
}

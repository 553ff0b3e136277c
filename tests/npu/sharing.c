/* Physical memory that two processes share: by leave, without a list, and across servers. */
#include "two.h"

#define FABRIC ACL_MEM_SHARE_HANDLE_TYPE_FABRIC
#define LIST_OFF ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION

static unsigned char ours[HUGE], theirs[HUGE];

static int32_t my_pid(void) {
    int32_t pid;
    OK(aclrtDeviceGetBareTgid(&pid));
    CHECK(pid == getpid());
    return pid;
}

/* ---- without a list: bytes both ways, once, and after the exporter let go ---- */

static void export_freely(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handle;
    aclrtMemFabricHandle name, again;
    begin_with(0, "A3");
    OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    void *at = mapped(handle, HUGE);
    fill(ours, HUGE, 1);
    put(at, ours, HUGE);
    OK(aclrtMemExportToShareableHandleV2(handle, LIST_OFF, FABRIC, &name));
    MUST_BE(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
            aclrtMemExportToShareableHandleV2(handle, LIST_OFF, FABRIC, &again));
    int32_t pid = my_pid();
    MUST_BE(ACL_ERROR_RT_NO_PERMISSION, aclrtMemSetPidToShareableHandleV2(&name, FABRIC, &pid, 1));
    /* Not to the device that it lies in, but to another. */
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemImportFromShareableHandleV2(&name, FABRIC, 0, &handle));
    tell(&name, sizeof name);
    my_turn();
    fill(theirs, HUGE, 2);
    CHECK(holds(at, theirs, HUGE));
    OK(aclrtFreePhysical(handle));
    unmapped(at);
    your_turn();
    my_turn();
    end_of(0);
}

static void import_freely(void) {
    aclrtDrvMemHandle handle, again;
    aclrtMemFabricHandle name;
    uint64_t other;
    begin_with(1, "A3");
    hear(&name, sizeof name);
    for (size_t byte = 0; byte < sizeof name; byte += 7) {
        aclrtMemFabricHandle other = name;
        other.data[byte] ^= 0x55;
        CHECK(aclrtMemImportFromShareableHandleV2(&other, FABRIC, 0, &handle) != 0);
    }
    MUST_BE(ACL_ERROR_RT_PARAM_INVALID, aclrtMemImportFromShareableHandleV2(&name, 3, 0, &handle));
    OK(aclrtMemImportFromShareableHandleV2(&name, FABRIC, 0, &handle));
    MUST_BE(ACL_ERROR_RT_INVALID_HANDLE,
            aclrtMemImportFromShareableHandleV2(&name, FABRIC, 0, &again));
    MUST_BE(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
            aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &other));
    void *at = mapped(handle, HUGE);
    /* It lies in device 0, of which device 1 is no peer yet. */
    MUST_BE(ACL_ERROR_RT_DEVICE_MEM_ERROR,
            aclrtMemcpy(ours, HUGE, at, HUGE, ACL_MEMCPY_DEVICE_TO_HOST));
    OK(aclrtDeviceEnablePeerAccess(0, 0));
    fill(ours, HUGE, 1);
    CHECK(holds(at, ours, HUGE));
    fill(theirs, HUGE, 2);
    put(at, theirs, HUGE);
    your_turn();
    my_turn();
    /* The exporter let go; the pages are here, and nobody can import them any more. */
    CHECK(holds(at, theirs, HUGE));
    OK(aclrtFreePhysical(handle));
    unmapped(at);
    MUST_BE(ACL_ERROR_RT_INVALID_HANDLE,
            aclrtMemImportFromShareableHandleV2(&name, FABRIC, 0, &again));
    your_turn();
    end_of(1);
}

/* ---- by leave ---- */

static void export_by_leave(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handle;
    uint64_t name;
    int32_t guest;
    begin_with(0, "A2");
    OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &name));
    tell(&name, sizeof name);
    hear(&guest, sizeof guest);
    OK(aclrtMemSetPidToShareableHandle(name, &guest, 1));
    your_turn();
    my_turn();
    OK(aclrtFreePhysical(handle));
    end_of(0);
}

static void import_by_leave(void) {
    aclrtDrvMemHandle handle, elsewhere;
    uint64_t name;
    begin_with(0, "A2");
    hear(&name, sizeof name);
    MUST_BE(ACL_ERROR_RT_NO_PERMISSION, aclrtMemImportFromShareableHandle(name, 0, &handle));
    int32_t pid = my_pid();
    MUST_BE(ACL_ERROR_RT_NO_PERMISSION, aclrtMemSetPidToShareableHandle(name, &pid, 1));
    tell(&pid, sizeof pid);
    my_turn();
    OK(aclrtMemImportFromShareableHandle(name, 0, &handle));
    OK(aclrtMemImportFromShareableHandle(name, 1, &elsewhere));
    CHECK(counts().handles == 2);
    OK(aclrtFreePhysical(handle));
    OK(aclrtMemImportFromShareableHandle(name, 0, &handle));
    OK(aclrtFreePhysical(handle));
    OK(aclrtFreePhysical(elsewhere));
    your_turn();
    end_of(0);
}

/* ---- between servers: the list does not act there, and only the A3 can ---- */

static const char *profile;

static void export_across(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handles[2];
    aclrtMemFabricHandle fabric;
    uint64_t word;
    setenv("NPU_SERVER_ID", "1", 1);
    begin_with(0, profile);
    for (int i = 0; i < 2; i++) OK(aclrtMallocPhysical(&handles[i], HUGE, &prop, 0));
    void *at = mapped(handles[0], HUGE);
    OK(aclrtMemExportToShareableHandleV2(handles[0], 0, FABRIC, &fabric));
    OK(aclrtMemExportToShareableHandleV2(handles[1], 0, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &word));
    tell(&fabric, sizeof fabric);
    tell(&word, sizeof word);
    my_turn();
    if (strcmp(profile, "A3")) memset(theirs, 0, HUGE);
    else fill(theirs, HUGE, 5);
    CHECK(holds(at, theirs, HUGE));
    unmapped(at);
    for (int i = 0; i < 2; i++) OK(aclrtFreePhysical(handles[i]));
    end_of(0);
}

/* Memory of another server: copied from one device address to another, by no host. */
static void use_from_afar(aclrtDrvMemHandle handle) {
    void *at = mapped(handle, HUGE), *near;
    aclrtStream stream;
    OK(aclrtMalloc(&near, HUGE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateStream(&stream));
    fill(theirs, HUGE, 5);
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemcpy(at, HUGE, theirs, HUGE, ACL_MEMCPY_HOST_TO_DEVICE));
    put(near, theirs, HUGE);
    OK(aclrtMemcpyAsync(at, HUGE, near, HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemcpy(ours, HUGE, at, HUGE, ACL_MEMCPY_DEVICE_TO_HOST));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemcpyAsync(ours, HUGE, at, HUGE, ACL_MEMCPY_DEFAULT, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(near, HUGE, at, HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK(holds(near, theirs, HUGE));
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(near));
    unmapped(at);
}

static void import_across(void) {
    aclrtDrvMemHandle handle;
    aclrtMemFabricHandle fabric;
    uint64_t word;
    setenv("NPU_SERVER_ID", "2", 1);
    begin_with(0, profile);
    hear(&fabric, sizeof fabric);
    hear(&word, sizeof word);
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemImportFromShareableHandle(word, 0, &handle));
    aclError code = aclrtMemImportFromShareableHandleV2(&fabric, FABRIC, 0, &handle);
    if (strcmp(profile, "A3")) CHECK(code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    else OK(code);
    if (!code) {
        use_from_afar(handle);
        OK(aclrtFreePhysical(handle));
    }
    your_turn();
    end_of(0);
}

/* ---- an exporter that ends without a word ---- */

static void export_and_end(void) {
    aclrtPhysicalMemProp prop = dram();
    aclrtDrvMemHandle handles[2];
    aclrtMemFabricHandle names[2];
    begin_with(0, "A3");
    for (int i = 0; i < 2; i++) {
        OK(aclrtMallocPhysical(&handles[i], HUGE, &prop, 0));
        OK(aclrtMemExportToShareableHandleV2(handles[i], LIST_OFF, FABRIC, &names[i]));
    }
    memset(mapped(handles[0], HUGE), 7, HUGE);
    tell(names, sizeof names);
    my_turn();
    _exit(0);
}

static void import_what_stays(void) {
    aclrtDrvMemHandle handle, late;
    aclrtMemFabricHandle names[2];
    char gone;
    begin_with(3, "A3");
    hear(names, sizeof names);
    OK(aclrtMemImportFromShareableHandleV2(&names[0], FABRIC, 0, &handle));
    void *at = mapped(handle, HUGE);
    your_turn();
    CHECK(recv(to_other, &gone, 1, 0) == 0);
    memset(theirs, 7, HUGE);
    CHECK(holds(at, theirs, HUGE));
    MUST_BE(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
            aclrtMemImportFromShareableHandleV2(&names[1], FABRIC, 0, &late));
    OK(aclrtFreePhysical(handle));
    unmapped(at);
    end_of(3);
}

int main(void) {
    run_two(export_freely, import_freely);
    run_two(export_by_leave, import_by_leave);
    const char *const profiles[] = {"A2", "A3", "950"};
    for (int i = 0; i < 3; i++) {
        profile = profiles[i];
        run_two(export_across, import_across);
    }
    unsetenv("NPU_SERVER_ID");
    return run_two(import_what_stays, export_and_end);
}

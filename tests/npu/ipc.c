/* Plain device memory that two processes share by a key. */
#include "two.h"

#define SIZE (HUGE / 2)
#define OFFSET 4096
#define LIST_OFF ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION

typedef char key_text[65];

static unsigned char bytes[HUGE], seen[HUGE];

static char *device_memory(void) {
    void *at;
    OK(aclrtMalloc(&at, HUGE, ACL_MEM_MALLOC_HUGE_ONLY));
    return at;
}

/* ---- by leave, in one device ---- */

static void export_part(void) {
    key_text key;
    int32_t guest;
    begin_with(0, NULL);
    char *at = device_memory();
    fill(bytes, HUGE, 1);
    put(at, bytes, HUGE);
    REFUSED(aclrtIpcMemGetExportKey(bytes, SIZE, key, sizeof key, 0));
    REFUSED(aclrtIpcMemGetExportKey(at, HUGE + 1, key, sizeof key, 0));
    REFUSED(aclrtIpcMemGetExportKey(at, SIZE, key, 64, 0));
    OK(aclrtIpcMemGetExportKey(at + OFFSET, SIZE, key, sizeof key, 0));
    tell(key, sizeof key);
    hear(&guest, sizeof guest);
    OK(aclrtIpcMemSetImportPid(key, &guest, 1));
    your_turn();
    my_turn();
    fill(bytes + OFFSET, SIZE, 2);
    CHECK(holds(at, bytes, HUGE));
    OK(aclrtIpcMemClose(key));
    MUST_BE(ACL_ERROR_RT_INVALID_HANDLE, aclrtIpcMemClose(key));
    OK(aclrtIpcMemGetExportKey(at, SIZE, key, sizeof key, LIST_OFF));
    OK(aclrtFree(at));
    end_of(0);
}

static void import_part(void) {
    key_text key, other;
    void *at, *again;
    begin_with(0, NULL);
    hear(key, sizeof key);
    MUST_BE(ACL_ERROR_RT_NO_PERMISSION, aclrtIpcMemImportByKey(&at, key, 0));
    int32_t pid = getpid();
    MUST_BE(ACL_ERROR_RT_NO_PERMISSION, aclrtIpcMemSetImportPid(key, &pid, 1));
    tell(&pid, sizeof pid);
    my_turn();
    /* A key that claims more than was exported, and no key at all. */
    memcpy(other, key, sizeof key);
    memset(other + 40, '0', 16);
    other[47] = '1';
    MUST_BE(ACL_ERROR_RT_INVALID_HANDLE, aclrtIpcMemImportByKey(&at, other, 0));
    MUST_BE(ACL_ERROR_RT_INVALID_HANDLE, aclrtIpcMemImportByKey(&at, "key", 0));
    OK(aclrtIpcMemImportByKey(&at, key, 0));
    MUST_BE(ACL_ERROR_RT_INVALID_HANDLE, aclrtIpcMemImportByKey(&again, key, 0));
    CHECK(counts().imports == 1);
    fill(bytes, HUGE, 1);
    CHECK(holds(at, bytes + OFFSET, SIZE));
    MUST_BE(ACL_ERROR_RT_DEVICE_MEM_ERROR,
            aclrtMemcpy(at, HUGE, bytes, SIZE + 1, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtFree(at));
    fill(seen, SIZE, 2);
    put(at, seen, SIZE);
    OK(aclrtIpcMemClose(key));
    your_turn();
    end_of(0);
}

/* ---- without a list, between two devices: on streams only ---- */

static void export_to_all(void) {
    key_text key;
    begin_with(0, NULL);
    char *at = device_memory();
    fill(bytes, HUGE, 3);
    put(at, bytes, HUGE);
    OK(aclrtIpcMemGetExportKey(at, HUGE, key, sizeof key, LIST_OFF));
    tell(key, sizeof key);
    my_turn();
    OK(aclrtIpcMemClose(key));
    OK(aclrtFree(at));
    end_of(0);
}

static void import_elsewhere(void) {
    key_text key;
    void *at;
    aclrtStream stream;
    begin_with(1, NULL);
    char *here = device_memory();
    hear(key, sizeof key);
    OK(aclrtIpcMemImportByKey(&at, key, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS));
    OK(aclrtCreateStream(&stream));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemcpy(seen, HUGE, at, HUGE, ACL_MEMCPY_DEVICE_TO_HOST));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemcpy(here, HUGE, at, HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemcpyAsync(here, HUGE, at, HUGE, ACL_MEMCPY_DEFAULT, stream));
    OK(aclrtMemcpyAsync(here, HUGE, at, HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtSynchronizeStream(stream));
    fill(bytes, HUGE, 3);
    CHECK(holds(here, bytes, HUGE));
    OK(aclrtIpcMemClose(key));
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(here));
    your_turn();
    end_of(1);
}

int main(void) {
    run_two(export_part, import_part);
    return run_two(export_to_all, import_elsewhere);
}

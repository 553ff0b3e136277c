/* A program as it would be written for a card: two processes, and memory of the one that the other fills.
 *
 *   parent, device 0            pipe            child, device 1
 *   allocate, map, export  -->  handle    -->   import, map, copy by a stream
 *   look at what arrived   <--  a byte    <--
 *
 * Its first argument is a seed for the bytes. Exit status 0: all of them arrived. Otherwise the call
 * that failed and its code are told.
 */
#include <acl/acl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((size_t)2 << 20)
#define FABRIC ACL_MEM_SHARE_HANDLE_TYPE_FABRIC

#define MUST(call)                                                \
    do {                                                          \
        aclError code = (call);                                   \
        if (code) {                                               \
            fprintf(stderr, "%d from %s\n", code, #call);         \
            exit(1);                                              \
        }                                                         \
    } while (0)

static int handles[2], answers[2];

static unsigned char byte_at(size_t i, unsigned seed) { return (unsigned char)(i * 131 + i / 251 + seed); }

static void *mapped(aclrtDrvMemHandle memory) {
    void *at;
    MUST(aclrtReserveMemAddress(&at, SIZE, 0, NULL, 1));
    MUST(aclrtMapMem(at, SIZE, 0, memory, 0));
    return at;
}

static void let_go(void *at, aclrtDrvMemHandle memory, int32_t device) {
    MUST(aclrtUnmapMem(at));
    MUST(aclrtReleaseMemAddress(at));
    MUST(aclrtFreePhysical(memory));
    MUST(aclrtResetDevice(device));
    MUST(aclFinalize());
}

static size_t count_wrong(const void *at, unsigned seed) {
    unsigned char *seen;
    size_t wrong = 0;
    MUST(aclrtMallocHost((void **)&seen, SIZE));
    MUST(aclrtMemcpy(seen, SIZE, at, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < SIZE; i++) wrong += seen[i] != byte_at(i, seed);
    MUST(aclrtFreeHost(seen));
    return wrong;
}

static size_t own(unsigned seed) {
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle memory;
    aclrtMemFabricHandle handle;
    char done;
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMallocPhysical(&memory, SIZE, &prop, 0));
    void *at = mapped(memory);
    MUST(aclrtMemExportToShareableHandleV2(memory, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                           FABRIC, &handle));
    if (write(handles[1], &handle, sizeof handle) != sizeof handle) exit(1);
    if (read(answers[0], &done, 1) != 1) exit(1);
    size_t wrong = count_wrong(at, seed);
    let_go(at, memory, 0);
    return wrong;
}

static void fill_theirs(unsigned seed) {
    aclrtMemFabricHandle handle;
    aclrtDrvMemHandle memory;
    aclrtStream stream;
    unsigned char *source;
    void *near;
    if (read(handles[0], &handle, sizeof handle) != sizeof handle) exit(1);
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(1));
    MUST(aclrtDeviceEnablePeerAccess(0, 0));
    MUST(aclrtMemImportFromShareableHandleV2(&handle, FABRIC, 0, &memory));
    void *at = mapped(memory);
    MUST(aclrtMalloc(&near, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocHost((void **)&source, SIZE));
    for (size_t i = 0; i < SIZE; i++) source[i] = byte_at(i, seed);
    MUST(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    MUST(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    MUST(aclrtMemcpyAsync(near, SIZE, source, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    MUST(aclrtMemcpyAsync(at, SIZE, near, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    MUST(aclrtSynchronizeStreamWithTimeout(stream, 10000));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(near));
    MUST(aclrtFreeHost(source));
    let_go(at, memory, 1);
    if (write(answers[1], "d", 1) != 1) exit(1);
}

int main(int argc, char **argv) {
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    int status;
    if (pipe(handles) || pipe(answers)) return 1;
    pid_t child = fork();
    if (!child) {
        close(answers[0]);
        fill_theirs(seed);
        return 0;
    }
    close(answers[1]); /* so that a child that fails is an end of file */
    size_t wrong = own(seed);
    waitpid(child, &status, 0);
    printf("%zu bytes by %s, %zu wrong\n", SIZE, aclrtGetSocName(), wrong);
    return status || wrong;
}

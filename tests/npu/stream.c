/* Streams: order, flags to poll, timeouts, aborts, failures, and many threads at once. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "npu_check.h"

#define SLOW "100" /* milliseconds a task takes when it must be caught at work */
#define LONG "60000"
#define COUNT 64
#define PART (HUGE / COUNT)

static aclrtStream fresh(uint64_t mode) {
    aclrtStream stream;
    OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    if (mode == ACL_STOP_ON_FAILURE) OK(aclrtSetStreamFailureMode(stream, mode));
    return stream;
}

static void *device_memory(void) {
    void *at;
    OK(aclrtMalloc(&at, HUGE, ACL_MEM_MALLOC_HUGE_FIRST));
    return at;
}

static unsigned char *host_memory(void) {
    void *at;
    OK(aclrtMallocHost(&at, HUGE));
    return at;
}

static aclError d2d(void *to, const void *from, aclrtStream stream) {
    return aclrtMemcpyAsync(to, HUGE, from, HUGE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
}

/* Parts one after the other, then a flag in host memory that is polled. */
static void order_and_flag(void) {
    begin_with(0, NULL);
    unsigned char *host = host_memory();
    _Atomic uint64_t *flag = (_Atomic uint64_t *)host_memory();
    char *there = device_memory(), *one = device_memory();
    aclrtStream stream = fresh(ACL_STOP_ON_FAILURE);
    fill(host, HUGE, 7);
    atomic_store_explicit(flag, 1, memory_order_relaxed);
    put(one, (void *)flag, 8);
    atomic_store_explicit(flag, 0, memory_order_relaxed);
    for (size_t i = 0; i < COUNT; i++)
        OK(aclrtMemcpyAsync(there + i * PART, PART, host + i * PART, PART,
                            ACL_MEMCPY_HOST_TO_DEVICE, stream));
    unsigned char *back = host_memory();
    OK(aclrtMemcpyAsync(back, HUGE, there, HUGE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtMemcpyAsync((void *)flag, 8, one, 8, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    while (!atomic_load_explicit(flag, memory_order_acquire)) continue;
    CHECK(!memcmp(back, host, HUGE));
    OK(aclrtSynchronizeStream(stream));
    aclrtStreamStatus status;
    OK(aclrtStreamQuery(stream, &status));
    CHECK(status == ACL_STREAM_STATUS_COMPLETE);
    OK(aclrtDestroyStream(stream));
    REFUSED(aclrtDestroyStream(stream));
    OK(aclrtFree(there));
    OK(aclrtFree(one));
    OK(aclrtFreeHost(host));
    OK(aclrtFreeHost(back));
    OK(aclrtFreeHost((void *)flag));
    end_of(0);
}

static void refusals(void) {
    static unsigned char plain[HUGE];
    aclrtContext first, second;
    begin_with(0, NULL);
    char *there = device_memory();
    aclrtStream stream = fresh(ACL_CONTINUE_ON_FAILURE), bad;
    REFUSED(aclrtCreateStreamWithConfig(&bad, 8, 0));
    REFUSED(aclrtCreateStreamWithConfig(&bad, 0, 0x40));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            aclrtMemcpyAsync(plain, 8, plain + 8, 8, ACL_MEMCPY_HOST_TO_HOST, stream));
    REFUSED(d2d(there, plain, stream));
    REFUSED(d2d(there, there, NULL));
    OK(aclrtSetStreamFailureMode(stream, ACL_CONTINUE_ON_FAILURE));
    REFUSED(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    REFUSED(aclrtSynchronizeStreamWithTimeout(stream, -2));
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&second, 0));
    MUST_BE(ACL_ERROR_RT_STREAM_CONTEXT, d2d(there, there, stream));
    MUST_BE(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(stream));
    OK(aclrtDestroyContext(second));
    OK(aclrtSetCurrentContext(first));
    OK(aclrtCreateStreamWithConfig(&bad, 0, ACL_STREAM_DEVICE_USE_ONLY));
    REFUSED(aclrtStreamAbort(bad));
    OK(aclrtSynchronizeStream(bad));
    OK(aclrtDestroyStream(bad));
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(there));
    end_of(0);
}

/* With memory that nobody pinned the call returns when the bytes have arrived. */
static void unpinned_is_synchronous(void) {
    static unsigned char plain[HUGE];
    setenv("NPU_DELAY", SLOW, 1);
    begin_with(0, NULL);
    char *there = device_memory(), *elsewhere = device_memory();
    aclrtStream stream = fresh(ACL_CONTINUE_ON_FAILURE);
    aclrtStreamStatus status;
    fill(plain, HUGE, 8);
    OK(aclrtMemcpyAsync(there, HUGE, plain, HUGE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtStreamQuery(stream, &status));
    CHECK(status == ACL_STREAM_STATUS_COMPLETE);
    CHECK(holds(there, plain, HUGE));
    OK(aclFinalize());
    setenv("NPU_DELAY", LONG, 1);
    OK(aclInit(NULL));
    OK(d2d(elsewhere, there, stream));
    OK(aclrtStreamQuery(stream, &status));
    CHECK(status == ACL_STREAM_STATUS_NOT_READY);
    MUST_BE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 0));
    OK(aclrtDestroyStreamForce(stream));
    OK(aclrtFree(there));
    OK(aclrtFree(elsewhere));
    unsetenv("NPU_DELAY");
    end_of(0);
}

typedef struct waiting {
    aclrtContext context;
    aclrtStream stream;
    aclError code;
} waiting;

static void *wait_for_it(void *argument) {
    waiting *w = argument;
    OK(aclrtSetCurrentContext(w->context));
    w->code = aclrtSynchronizeStream(w->stream);
    return NULL;
}

/* Who waits learns of the abort, whatever is at work and queued stays undone, and the stream goes on. */
static void aborted(void) {
    setenv("NPU_DELAY", LONG, 1);
    begin_with(0, NULL);
    char *from = device_memory(), *to = device_memory();
    unsigned char *host = host_memory();
    fill(host, HUGE, 1);
    put(from, host, HUGE);
    waiting w = {.stream = fresh(ACL_STOP_ON_FAILURE)};
    OK(aclrtGetCurrentContext(&w.context));
    for (int i = 0; i < 3; i++) OK(d2d(to, from, w.stream));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, wait_for_it, &w));
    struct timespec a_moment = {0, 20000000}; /* that it waits by then makes the test sharper only */
    nanosleep(&a_moment, NULL);
    MUST_BE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(w.stream, 1));
    OK(aclrtStreamAbort(w.stream));
    CHECK(!pthread_join(thread, NULL));
    CHECK(w.code == ACL_ERROR_RT_STREAM_ABORT || w.code == 0);
    memset(host, 0, HUGE);
    CHECK(holds(to, host, HUGE));
    OK(aclrtSynchronizeStream(w.stream));
    OK(d2d(to, from, w.stream));
    OK(aclrtDestroyStreamForce(w.stream));
    CHECK(holds(to, host, HUGE));
    OK(aclrtFree(from));
    OK(aclrtFree(to));
    OK(aclrtFreeHost(host));
    unsetenv("NPU_DELAY");
    end_of(0);
}

/* What was stopped stands still: nothing more of it runs, though nothing was dropped. */
static void stopped(void) {
    setenv("NPU_DELAY", LONG, 1);
    begin_with(0, "A3");
    char *from = device_memory(), *to = device_memory();
    unsigned char *host = host_memory();
    aclrtStreamStatus status;
    aclrtStream worker, plain = fresh(ACL_CONTINUE_ON_FAILURE);
    OK(aclrtCreateStreamWithConfig(&worker, 0, ACL_STREAM_DEVICE_USE_ONLY));
    fill(host, HUGE, 1);
    put(from, host, HUGE);
    REFUSED(aclrtStreamStop(NULL));
    MUST_BE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtStreamStop(plain));
    for (int i = 0; i < 3; i++) OK(d2d(to, from, worker));
    for (int again = 0; again < 2; again++) OK(aclrtStreamStop(worker));
    OK(aclrtStreamQuery(worker, &status));
    CHECK(status == ACL_STREAM_STATUS_NOT_READY);
    MUST_BE(ACL_ERROR_RT_STREAM_ABORT, d2d(to, from, worker));
    OK(aclrtDestroyStream(worker));
    OK(aclrtDestroyStream(plain));
    memset(host, 0, HUGE);
    CHECK(holds(to, host, HUGE));
    OK(aclrtFree(from));
    OK(aclrtFree(to));
    OK(aclrtFreeHost(host));
    unsetenv("NPU_DELAY");
    end_of(0);
}

/* On the 950 any stream can be, and who waits for it learns of that. */
static void stopped_under_a_waiter(void) {
    setenv("NPU_DELAY", LONG, 1);
    begin_with(0, "950");
    char *from = device_memory(), *to = device_memory();
    waiting w = {.stream = fresh(ACL_STOP_ON_FAILURE)};
    OK(aclrtGetCurrentContext(&w.context));
    for (int i = 0; i < 2; i++) OK(d2d(to, from, w.stream));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, wait_for_it, &w));
    OK(aclrtStreamStop(w.stream));
    CHECK(!pthread_join(thread, NULL));
    CHECK(w.code == ACL_ERROR_RT_STREAM_ABORT);
    OK(aclrtDestroyStream(w.stream));
    OK(aclrtFree(from));
    OK(aclrtFree(to));
    unsetenv("NPU_DELAY");
    unsetenv("NPU_PROFILE");
    end_of(0);
}

/* Any code, in the middle of a run of copies: those before arrived, and those behind did not. */
static void fails_in_the_middle(aclError code) {
    char rule[64];
    snprintf(rule, sizeof rule, "task:%d=%d", COUNT / 2, code);
    setenv("NPU_FAIL", rule, 1);
    begin_with(0, NULL);
    char *there = device_memory();
    unsigned char *host = host_memory(), *back = host_memory();
    aclrtContext home, context;
    OK(aclrtGetCurrentContext(&home));
    OK(aclrtCreateContext(&context, 0));
    aclrtStream stream = fresh(ACL_STOP_ON_FAILURE);
    fill(host, HUGE, 6);
    for (size_t i = 0; i < COUNT; i++) {
        aclError refused = aclrtMemcpyAsync(there + i * PART, PART, host + i * PART, PART,
                                            ACL_MEMCPY_HOST_TO_DEVICE, stream);
        CHECK(!refused || (refused == code && i >= COUNT / 2));
    }
    MUST_BE(code, aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStreamForce(stream));
    OK(aclrtDestroyContext(context));
    OK(aclrtSetCurrentContext(home));
    get(back, there, HUGE);
    size_t arrived = (COUNT / 2 - 1) * PART;
    CHECK(!memcmp(back, host, arrived));
    memset(host, 0, HUGE);
    CHECK(!memcmp(back + arrived, host, HUGE - arrived));
    OK(aclrtFree(there));
    OK(aclrtFreeHost(host));
    OK(aclrtFreeHost(back));
    unsetenv("NPU_FAIL");
    end_of(0);
}

/* A call that is made to fail submits nothing, and those around it are as ever. */
static void one_call_fails(void) {
    setenv("NPU_FAIL", "aclrtMemcpyAsync:2=507056,aclrtSynchronizeStream:1=507046", 1);
    begin_with(0, NULL);
    char *from = device_memory(), *to[3] = {device_memory(), device_memory(), device_memory()};
    unsigned char *host = host_memory();
    aclrtStream stream = fresh(ACL_STOP_ON_FAILURE);
    fill(host, HUGE, 4);
    put(from, host, HUGE);
    for (int i = 0; i < 3; i++) MUST_BE(i == 1 ? 507056 : 0, d2d(to[i], from, stream));
    MUST_BE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(stream));
    CHECK(holds(to[0], host, HUGE) && holds(to[2], host, HUGE) && !holds(to[1], host, HUGE));
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(from));
    for (int i = 0; i < 3; i++) OK(aclrtFree(to[i]));
    OK(aclrtFreeHost(host));
    unsetenv("NPU_FAIL");
    end_of(0);
}

/* After the first failure nothing of the context runs, on no stream of it, nor is accepted. */
static void stops_on_failure(void) {
    setenv("NPU_FAIL", "task:2=507057", 1);
    setenv("NPU_DELAY", "20", 1);
    begin_with(0, NULL);
    aclrtContext context, home;
    OK(aclrtGetCurrentContext(&home));
    OK(aclrtCreateContext(&context, 0));
    char *from = device_memory(), *to[3] = {device_memory(), device_memory(), device_memory()};
    unsigned char *host = host_memory();
    fill(host, HUGE, 1);
    put(from, host, HUGE);
    aclrtStream stream = fresh(ACL_STOP_ON_FAILURE), other = fresh(ACL_CONTINUE_ON_FAILURE);
    for (int i = 0; i < 2; i++) OK(d2d(to[i], from, stream));
    /* On a busy machine the second one may have failed by now. */
    aclError third = d2d(to[2], from, stream);
    CHECK(!third || third == 507057);
    for (int again = 0; again < 2; again++) MUST_BE(507057, aclrtSynchronizeStream(stream));
    MUST_BE(507057, d2d(to[0], from, stream));
    MUST_BE(507057, d2d(to[0], from, other));
    CHECK(holds(to[0], host, HUGE));
    memset(host, 0, HUGE);
    CHECK(holds(to[1], host, HUGE) && holds(to[2], host, HUGE));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStreamForce(other));
    OK(aclrtDestroyContext(context));
    OK(aclrtSetCurrentContext(home));
    OK(aclrtFree(from));
    for (int i = 0; i < 3; i++) OK(aclrtFree(to[i]));
    OK(aclrtFreeHost(host));
    unsetenv("NPU_FAIL");
    unsetenv("NPU_DELAY");
    end_of(0);
}

/* On the 950 a stream stops alone. */
static void stops_alone(void) {
    setenv("NPU_FAIL", "task:1=507057", 1);
    begin_with(0, "950");
    char *from = device_memory(), *to = device_memory();
    aclrtStream stream = fresh(ACL_STOP_ON_FAILURE), other = fresh(ACL_STOP_ON_FAILURE);
    OK(d2d(to, from, stream));
    for (int again = 0; again < 2; again++) MUST_BE(507057, aclrtSynchronizeStream(stream));
    MUST_BE(507057, d2d(to, from, stream));
    OK(d2d(to, from, other));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    OK(aclrtFree(from));
    OK(aclrtFree(to));
    unsetenv("NPU_FAIL");
    unsetenv("NPU_PROFILE");
    end_of(0);
}

static void batches(void) {
    begin_with(0, NULL);
    char *there = device_memory();
    unsigned char *host = host_memory(), *back = host_memory();
    void *hosts[COUNT], *backs[COUNT], *parts[COUNT];
    size_t sizes[COUNT], starts[2] = {0, 40}, wrong_starts[2] = {0, 0}, failed = 0;
    aclrtMemLocation device = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtMemLocation ours = {0, ACL_MEM_LOCATION_TYPE_HOST};
    aclrtMemcpyBatchAttr in[2] = {{device, ours, {0}}, {device, ours, {0}}};
    aclrtMemcpyBatchAttr out[2] = {{ours, device, {0}}, {ours, device, {0}}};
    aclrtStream stream = fresh(ACL_STOP_ON_FAILURE);
    for (size_t i = 0; i < COUNT; i++) {
        hosts[i] = host + i * PART;
        backs[i] = back + (COUNT - 1 - i) * PART;
        parts[i] = there + (COUNT - 1 - i) * PART;
        sizes[i] = PART;
    }
    fill(host, HUGE, 3);
    OK(aclrtMemcpyBatchAsync(parts, sizes, hosts, sizes, COUNT, in, starts, 2, &failed, stream));
    CHECK(failed == SIZE_MAX);
    OK(aclrtMemcpyBatchAsync(backs, sizes, parts, sizes, COUNT, out, starts, 1, &failed, stream));
    OK(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < COUNT; i++) CHECK(!memcmp(backs[i], hosts[i], PART));
    REFUSED(aclrtMemcpyBatchAsync(parts, sizes, hosts, sizes, COUNT, in, wrong_starts, 2, &failed,
                                  stream));
    CHECK(failed == SIZE_MAX);
    in[1] = out[1];
    REFUSED(aclrtMemcpyBatchAsync(parts, sizes, hosts, sizes, COUNT, in, starts, 2, &failed,
                                  stream));
    CHECK(failed == 40);
    parts[7] = hosts[7];
    REFUSED(aclrtMemcpyBatchAsync(parts, sizes, hosts, sizes, COUNT, in, starts, 1, &failed,
                                  stream));
    CHECK(failed == 7);
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(there));
    OK(aclrtFreeHost(host));
    OK(aclrtFreeHost(back));
    end_of(0);
}

static void goes_on_after_failure(void) {
    setenv("NPU_FAIL", "task:1=507053", 1);
    begin_with(0, NULL);
    char *from = device_memory(), *to = device_memory();
    aclrtStream stream = fresh(ACL_CONTINUE_ON_FAILURE);
    unsigned char *host = host_memory();
    fill(host, HUGE, 5);
    put(from, host, HUGE);
    for (int i = 0; i < 2; i++) OK(d2d(to, from, stream));
    MUST_BE(507053, aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(stream));
    CHECK(holds(to, host, HUGE));
    OK(aclrtDestroyStream(stream));
    OK(aclrtFree(from));
    OK(aclrtFree(to));
    OK(aclrtFreeHost(host));
    unsetenv("NPU_FAIL");
    end_of(0);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Memory unmapped under a queued copy: the copy fails, nothing else does. */
static void unmapped_under_way(void) {
    aclrtPhysicalMemProp prop = hbm(0);
    aclrtDrvMemHandle handle;
    setenv("NPU_DELAY", SLOW, 1);
    begin_with(0, NULL);
    OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
    void *at = mapped(handle, HUGE);
    char *from = device_memory();
    aclrtStream stream = fresh(ACL_CONTINUE_ON_FAILURE);
    double began = seconds();
    OK(d2d(at, from, stream));
    OK(aclrtUnmapMem(at));
    int in_time = seconds() - began < 0.1;
    aclError code = aclrtSynchronizeStream(stream);
    CHECK(code == ACL_ERROR_RT_DEVICE_MEM_ERROR || (!in_time && !code));
    OK(aclrtDestroyStream(stream));
    OK(aclrtReleaseMemAddress(at));
    OK(aclrtFreePhysical(handle));
    OK(aclrtFree(from));
    unsetenv("NPU_DELAY");
    end_of(0);
}

static void *one_of_many(void *argument) {
    int32_t device = (int32_t)(intptr_t)argument;
    OK(aclrtSetDevice(device));
    unsigned char *host = host_memory();
    for (unsigned round = 0; round < 10; round++) {
        aclrtPhysicalMemProp prop = hbm((uint32_t)device);
        aclrtDrvMemHandle handle;
        OK(aclrtMallocPhysical(&handle, HUGE, &prop, 0));
        void *at = mapped(handle, HUGE);
        aclrtStream stream = fresh(ACL_STOP_ON_FAILURE);
        fill(host, PART, round);
        OK(aclrtMemcpyAsync(at, HUGE, host, PART, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        if (round % 3 == 2) OK(aclrtStreamAbort(stream));
        else OK(aclrtSynchronizeStreamWithTimeout(stream, 60000));
        if (round % 3 != 2) CHECK(holds(at, host, PART));
        OK(aclrtFreePhysical(handle));
        OK(aclrtDestroyStream(stream));
        unmapped(at);
    }
    OK(aclrtFreeHost(host));
    OK(aclrtResetDevice(device));
    return NULL;
}

static void many_threads(void) {
    pthread_t threads[4];
    begin_with(7, NULL);
    for (intptr_t i = 0; i < 4; i++)
        CHECK(!pthread_create(&threads[i], NULL, one_of_many, (void *)(i / 2)));
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(threads[i], NULL));
    end_of(7);
}

int main(void) {
    order_and_flag();
    refusals();
    unpinned_is_synchronous();
    aborted();
    stopped();
    stopped_under_a_waiter();
    static const aclError codes[] = {507056, 507057, 507010, 107020, 107022};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) fails_in_the_middle(codes[i]);
    one_call_fails();
    stops_on_failure();
    stops_alone();
    batches();
    goes_on_after_failure();
    unmapped_under_way();
    many_threads();
    return 0;
}

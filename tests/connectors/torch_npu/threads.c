/* Threads that allocate, write, read and free at once, blocks of one freed by another. */
#include <pthread.h>

#include "allocator.h"
#include "npu_check.h"

#define THREADS 4
#define ROUNDS 25

static void *passed[THREADS]; /* what thread i leaves to its neighbour; under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *swap(int slot, void *block) {
    pthread_mutex_lock(&lock);
    void *before = passed[slot];
    passed[slot] = block;
    pthread_mutex_unlock(&lock);
    return before;
}

static void write_and_read(void *block, uint64_t value) {
    uint64_t seen = 0;
    OK(aclrtMemcpy(block, sizeof value, &value, sizeof value, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(&seen, sizeof seen, block, sizeof seen, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(seen == value);
}

static void *work(void *argument) {
    int number = (int)(intptr_t)argument, device = number % 2;
    OK(aclrtSetDevice(device));
    for (int round = 0; round < ROUNDS; round++) {
        char *block = kvferry_malloc((size_t)(1 + round % 3) * HUGE, device, NULL);
        CHECK(block);
        write_and_read(block, (uint64_t)number << 32 | (uint64_t)round);
        kvferry_free(block + 1, 0, device, NULL);
        CHECK(strstr(kvferry_last_error(), "not in use"));
        kvferry_free(swap(number, block), 0, device, NULL);
        kvferry_free(swap((number + 1) % THREADS, NULL), 0, device, NULL);
        CHECK(kvferry_probe(1 - device) == 1);
    }
    return NULL;
}

int main(void) {
    static const npu_counts nothing;
    pthread_t threads[THREADS];
    setenv("NPU_QUIET", "1", 1);
    for (int i = 0; i < THREADS; i++) {
        /* The first to allocate finds and initialises ACL: here, before the threads need it. */
        if (!i) kvferry_free(kvferry_malloc(1, 0, NULL), 1, 0, NULL);
        CHECK(!pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i));
    }
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_join(threads[i], NULL));
    for (int i = 0; i < THREADS; i++) kvferry_free(passed[i], 0, 0, NULL);
    CHECK(!*kvferry_last_error()); /* this thread's own */
    OK(aclrtResetDeviceForce(0));
    OK(aclrtResetDeviceForce(1));
    OK(aclFinalize());
    npu_counts left = counts();
    CHECK(!memcmp(&left, &nothing, sizeof left));
    return 0;
}

#include "table.h"

#include <pthread.h>

#define BUCKETS 1024
#define PAGE_BITS 21 /* addresses are multiples of a huge page */

static kvf_block *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static kvf_block **bucket_of(const void *address) {
    return &buckets[((uintptr_t)address >> PAGE_BITS) % BUCKETS];
}

void kvf_put(kvf_block *block) {
    kvf_block **bucket = bucket_of(block->at);
    pthread_mutex_lock(&lock);
    block->next = *bucket;
    *bucket = block;
    pthread_mutex_unlock(&lock);
}

kvf_block *kvf_take(const void *address) {
    kvf_block **link = bucket_of(address);
    pthread_mutex_lock(&lock);
    while (*link && (*link)->at != address) link = &(*link)->next;
    kvf_block *block = *link;
    if (block) *link = block->next;
    pthread_mutex_unlock(&lock);
    return block;
}

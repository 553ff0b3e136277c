/* pool.h: buffers that bytes pass through on their way. Each is lent to one round, then given back.
 *
 *   memory    |== buffer 0 ==|== buffer 1 ==| ... |     brought in once; a forked child has none of it
 *
 *   a buffer's records, of the round it is lent to:
 *   carried   what the inner mover moves      local lies in the buffer, or where it belongs
 *   placed    what passes through the buffer  local is where it belongs, remote is in the buffer
 *
 * `lock` guards the list of free buffers. Who finds none sleeps in slices and obeys its brake, and
 * signals where its thread takes them. A
 * round holds one buffer and waits for nobody else's, so buffers always come back.
 */
#ifndef KVF_POOL_H
#define KVF_POOL_H

#include <stdlib.h>

#include "copy.h"
#include "vm.h"

#define KVF_ROUND_PIECES 4096u

typedef struct kvf_buffer {
    uint64_t address;
    struct kvf_buffer *next; /* in the list of free ones */
    kvf_descriptor carried[KVF_ROUND_PIECES], placed[KVF_ROUND_PIECES];
} kvf_buffer;

typedef struct kvf_pool {
    pthread_mutex_t lock;
    pthread_cond_t given;
    kvf_buffer *free, *buffers;
    uint64_t size; /* of one buffer */
    int (*interrupted)(void); /* or NULL; asked after each sleep: shall the run stop? */
    uintptr_t memory;
    size_t length;
} kvf_pool;

static inline void kvf_pool_give(kvf_pool *p, kvf_buffer *b) {
    pthread_mutex_lock(&p->lock);
    b->next = p->free;
    p->free = b;
    pthread_cond_signal(&p->given);
    pthread_mutex_unlock(&p->lock);
}

/* With the lock held: sleep until a buffer is given back, at most one slice or to `deadline`. */
static inline void kvf_pool_sleep(kvf_pool *p, uint64_t deadline) {
    uint64_t now = kvf_now(), until = now + kvf_slice(now, deadline);
    struct timespec t = {(time_t)(until / 1000000000ull), (long)(until % 1000000000ull)};
    pthread_cond_timedwait(&p->given, &p->lock, &t);
}

/* Take a buffer into *taken; waits until there is one or the brake stops it. */
static inline kvf_outcome kvf_pool_take(kvf_pool *p, const kvf_brake *brake, kvf_buffer **taken) {
    kvf_outcome outcome;
    while (!(outcome = kvf_brake_check(brake))) {
        pthread_mutex_lock(&p->lock);
        if (!p->free) kvf_pool_sleep(p, brake->deadline);
        kvf_buffer *b = p->free;
        if (b) p->free = b->next;
        pthread_mutex_unlock(&p->lock);
        if ((*taken = b)) return KVF_OK;
        if (p->interrupted && p->interrupted()) return KVF_ABORTED;
    }
    return outcome;
}

/* Memory for `length` bytes at a huge page boundary, every page of it there; 0 or an errno. */
static inline int kvf_pool_memory(size_t length, uintptr_t *address) {
    int code = kvf_vm_reserve(length, KVF_VM_HUGE, address);
    if (code) return code;
    void *p = mmap((void *)*address, length, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    code = p == MAP_FAILED ? errno : kvf_vm_checked(madvise(p, length, MADV_DONTFORK));
    if (code) {
        kvf_vm_release(*address, length);
        return code;
    }
    kvf_vm_hugepage(*address, length);
    return kvf_vm_work_on(*address, length, KVF_POPULATE_TOUCH, 1);
}

/* Only when every buffer was given back. */
static inline void kvf_pool_free(kvf_pool *p) {
    if (p->length) kvf_vm_release(p->memory, p->length);
    pthread_cond_destroy(&p->given);
    pthread_mutex_destroy(&p->lock);
    free(p->buffers);
    free(p);
}

/* `count` buffers of `size` bytes; NULL when there is no memory. */
static inline kvf_pool *kvf_pool_new(size_t count, uint64_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), stride = (size + page - 1) & ~(page - 1);
    kvf_pool *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->given, &monotonic);
    pthread_condattr_destroy(&monotonic);
    p->size = size;
    p->buffers = calloc(count, sizeof *p->buffers);
    if (!p->buffers || stride < size || stride > SIZE_MAX / count ||
        kvf_pool_memory(count * stride, &p->memory)) {
        kvf_pool_free(p);
        return NULL;
    }
    p->length = count * stride;
    for (size_t i = count; i--;) {
        p->buffers[i].address = p->memory + i * stride;
        kvf_pool_give(p, &p->buffers[i]);
    }
    return p;
}

#endif

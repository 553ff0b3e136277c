/* stream.h: copies in order, each stream by a thread of its own.
 *
 *   submit --> | queued, queued, ... | --> the worker's current --> done, counted
 *
 * All fields are under the lock of books.h; `changed` is rung at every change that somebody may wait
 * for. Memory: the stream is freed by who destroys it, after its worker ended and its waiters left.
 */
#ifndef NPU_STREAM_H
#define NPU_STREAM_H

#include "copy.h"
#include "device.h"

typedef struct npu_task {
    struct npu_task *next;
    npu_copy copy;
} npu_task;

typedef struct npu_stream {
    npu_entry entry;
    npu_context *context;
    uint32_t flags;
    bool mode_set, stops;
    pthread_t worker;
    pthread_cond_t changed;
    npu_task *first, **last; /* queued */
    bool running;            /* the worker has a current task */
    bool stop;               /* it must leave that task off */
    bool halted;             /* by aclrtStreamStop: what is queued stays so, nothing is accepted */
    bool ending;             /* the worker ends when nothing is queued, or it is halted */
    uint64_t submitted, done;
    uint64_t aborts;
    unsigned waiters;
    aclError stopped; /* the failure that it alone stopped at */
    aclError failure; /* first failure that no synchronise has reported yet */
} npu_stream;

/* Begin the worker; false: no thread. All of these under the lock. */
bool npu_start_worker(npu_stream *stream);

/* Queue a copy; it is number `submitted` from then on. False: no memory. */
bool npu_submit(npu_stream *stream, const npu_copy *copy);

/* The failure at which it, or its context, stopped for good; 0: neither did. */
aclError npu_stopped(const npu_stream *stream);

void npu_drop_queued(npu_stream *stream);

/* Wait for `changed`, at most until `deadline` (monotonic; NULL: forever); false: it passed. */
bool npu_wait_change(npu_stream *stream, const struct timespec *deadline);

npu_stream *npu_find_stream(aclrtStream stream);

/* Until task `number` is done: 0, what failed until then, an abort, or the timeout. */
#define NPU_FOREVER (-1)
aclError npu_wait_for(npu_stream *stream, uint64_t number, int32_t timeout_ms);

struct timespec npu_in_milliseconds(uint32_t milliseconds);

#endif

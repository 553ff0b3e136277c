#include "stream.h"

#include <stdlib.h>

#include "call.h"

#define FLAGS_ALL 0x3fu
#define PRIORITY_MAX 7u

npu_stream *npu_find_stream(aclrtStream stream) {
    return (npu_stream *)npu_beginning(NPU_STREAM, stream);
}

static aclError no_stream(void) {
    return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no such stream");
}

static aclError other_context(void) {
    return npu_refuse(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is of another context");
}

/* ---- life ---- */

static aclError create(aclrtStream *stream, uint32_t flags) {
    if (!stream) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no place for the stream");
    npu_stream *made = calloc(1, sizeof *made);
    if (!made) return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
    *made = (npu_stream){.entry = {NULL, (uintptr_t)made, 1},
                         .context = npu_current(),
                         .flags = flags,
                         .last = &made->first};
    if (!npu_start_worker(made)) {
        free(made);
        return npu_refuse(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no thread for a stream");
    }
    made->context->refs++;
    npu_enter(NPU_STREAM, &made->entry);
    *stream = made;
    return 0;
}

NPU_API aclError aclrtCreateStream(aclrtStream *stream) {
    NPU_CALL(NPU_IN_CONTEXT);
    return create(stream, 0);
}

NPU_API aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority,
                                             uint32_t flag) {
    NPU_CALL(NPU_IN_CONTEXT);
    if (priority > PRIORITY_MAX || flag & ~FLAGS_ALL)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no such priority or flag");
    return create(stream, flag);
}

/* Out of the books first, so that nobody else finds it; then it ends, and then it is freed. */
static void end(npu_stream *stream, bool force) {
    npu_leave(NPU_STREAM, &stream->entry);
    stream->ending = true;
    if (force || stream->halted) npu_drop_queued(stream);
    if (force) {
        stream->stop = stream->running;
        stream->aborts++;
    }
    pthread_cond_broadcast(&stream->changed);
}

static aclError destroy(npu_stream *stream) {
    pthread_join(stream->worker, NULL);
    {
        NPU_HOLD_LOCK;
        while (stream->waiters) npu_wait_change(stream, NULL);
        npu_drop_context(stream->context);
    }
    pthread_cond_destroy(&stream->changed);
    free(stream);
    return 0;
}

NPU_API aclError aclrtDestroyStream(aclrtStream stream) {
    {
        NPU_CALL(NPU_IN_CONTEXT);
        npu_stream *found = npu_find_stream(stream);
        if (!found) return no_stream();
        if (found->context != npu_current()) return other_context();
        end(found, false);
    }
    return destroy(stream);
}

NPU_API aclError aclrtDestroyStreamForce(aclrtStream stream) {
    {
        NPU_CALL(NPU_INITIALISED);
        if (!npu_find_stream(stream)) return no_stream();
        end(stream, true);
    }
    return destroy(stream);
}

NPU_API aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_stream *found = npu_find_stream(stream);
    if (!found) return no_stream();
    if (mode > ACL_STOP_ON_FAILURE || found->mode_set)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the mode is 0 or 1, and set once");
    found->mode_set = true;
    if (mode == ACL_STOP_ON_FAILURE) found->stops = true;
    if (found->stops && npu_set()->profile != NPU_950) found->context->stops = true;
    return 0;
}

/* ---- waiting ---- */

static bool is_done(const npu_stream *stream, uint64_t number) { return stream->done >= number; }

/* What went wrong up to now; a context that goes on forgets what it has told. */
static aclError report(npu_stream *stream) {
    aclError failure = npu_stopped(stream) ? npu_stopped(stream) : stream->failure;
    stream->failure = 0;
    return failure ? npu_refuse(failure, "a task of the stream failed") : 0;
}

/* Until task `number` is done. */
aclError npu_wait_for(npu_stream *stream, uint64_t number, int32_t timeout) {
    struct timespec deadline = npu_in_milliseconds(timeout < 0 ? 0 : (uint32_t)timeout);
    uint64_t aborts = stream->aborts;
    bool in_time = true;
    stream->waiters++;
    while (!is_done(stream, number) && !stream->halted && stream->aborts == aborts && in_time)
        in_time = npu_wait_change(stream, timeout == NPU_FOREVER ? NULL : &deadline);
    stream->waiters--;
    pthread_cond_broadcast(&stream->changed);
    if (stream->aborts != aborts || (stream->halted && !is_done(stream, number)))
        return npu_refuse(ACL_ERROR_RT_STREAM_ABORT, "it was aborted or stopped");
    if (!is_done(stream, number))
        return npu_refuse(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "not done in time");
    return report(stream);
}

static aclError synchronize(aclrtStream stream, int32_t timeout) {
    npu_stream *found = npu_find_stream(stream);
    if (!found) return no_stream();
    if (timeout < NPU_FOREVER) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no such timeout");
    if (found->flags & (ACL_STREAM_PERSISTENT | ACL_STREAM_DEVICE_USE_ONLY)) return 0;
    return npu_wait_for(found, found->submitted, timeout);
}

NPU_API aclError aclrtSynchronizeStream(aclrtStream stream) {
    NPU_CALL(NPU_IN_CONTEXT);
    return synchronize(stream, NPU_FOREVER);
}

NPU_API aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    NPU_CALL(NPU_IN_CONTEXT);
    return synchronize(stream, timeout);
}

NPU_API aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_stream *found = npu_find_stream(stream);
    if (!found || !status) return no_stream();
    bool done = is_done(found, found->submitted);
    *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return done ? report(found) : 0;
}

/* ---- leaving off ---- */

/* Returns when the worker has left off its current task, and who waits has been told. */
static void interrupt(npu_stream *stream) {
    stream->aborts++;
    stream->stop = stream->running;
    pthread_cond_broadcast(&stream->changed);
    uint64_t current = stream->done + stream->running;
    stream->waiters++;
    while (!is_done(stream, current)) npu_wait_change(stream, NULL);
    stream->waiters--;
    pthread_cond_broadcast(&stream->changed);
}

NPU_API aclError aclrtStreamAbort(aclrtStream stream) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_stream *found = npu_find_stream(stream);
    if (!found || found->flags & ACL_STREAM_DEVICE_USE_ONLY) return no_stream();
    npu_drop_queued(found);
    interrupt(found);
    found->failure = 0;
    return 0;
}

/* What is queued is neither run nor dropped: the stream stands still until it is destroyed. */
NPU_API aclError aclrtStreamStop(aclrtStream stream) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_stream *found = npu_find_stream(stream);
    if (!found) return no_stream();
    if (npu_set()->profile != NPU_950 && !(found->flags & ACL_STREAM_DEVICE_USE_ONLY))
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "only DEVICE_USE_ONLY streams are stopped");
    found->halted = true;
    interrupt(found);
    return 0;
}

/* worker.c: the thread of a stream. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "call.h"
#include "stream.h"

struct timespec npu_in_milliseconds(uint32_t milliseconds) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += milliseconds / 1000;
    at.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

bool npu_wait_change(npu_stream *stream, const struct timespec *deadline) {
    if (deadline) return pthread_cond_timedwait(&stream->changed, &npu_lock, deadline) != ETIMEDOUT;
    pthread_cond_wait(&stream->changed, &npu_lock);
    return true;
}

bool npu_submit(npu_stream *stream, const npu_copy *copy) {
    npu_task *task = malloc(sizeof *task);
    if (!task) return false;
    *task = (npu_task){NULL, *copy};
    *stream->last = task;
    stream->last = &task->next;
    stream->submitted++;
    pthread_cond_broadcast(&stream->changed);
    return true;
}

static npu_task *take(npu_stream *stream) {
    npu_task *task = stream->first;
    stream->first = task->next;
    if (!stream->first) stream->last = &stream->first;
    return task;
}

void npu_drop_queued(npu_stream *stream) {
    while (stream->first) {
        free(take(stream));
        stream->done++;
    }
    pthread_cond_broadcast(&stream->changed);
}

aclError npu_stopped(const npu_stream *stream) {
    return stream->context->failure ? stream->context->failure : stream->stopped;
}

/* NPU_DELAY, during which a task can be stopped. */
static void dawdle(npu_stream *stream) {
    if (!npu_set()->delay_ms) return;
    struct timespec until = npu_in_milliseconds(npu_set()->delay_ms);
    while (!stream->stop && npu_wait_change(stream, &until)) continue;
}

/* Drops the lock while bytes move. */
static aclError run(npu_stream *stream, const npu_copy *copy) {
    dawdle(stream);
    if (npu_stopped(stream)) return npu_stopped(stream);
    aclError ordered = npu_ordered_failure("task");
    if (ordered) return ordered;
    pthread_mutex_unlock(&npu_lock);
    aclError failed = npu_run_copy(*copy, &stream->stop);
    pthread_mutex_lock(&npu_lock);
    return failed;
}

static void stop_at(npu_stream *stream, aclError failed) {
    if (stream->context->stops) stream->context->failure = failed;
    else if (stream->stops) stream->stopped = failed;
}

/* A task that was stopped did not fail: who waits learns of the abort. */
static void finish(npu_stream *stream, aclError failed) {
    if (failed && !stream->stop) {
        if (!stream->failure) stream->failure = failed;
        if (!npu_stopped(stream)) stop_at(stream, failed);
    }
    stream->running = stream->stop = false;
    stream->done++;
    pthread_cond_broadcast(&stream->changed);
}

static bool has_work(const npu_stream *stream) { return stream->first && !stream->halted; }

static void *work(void *argument) {
    npu_stream *stream = argument;
    NPU_HOLD_LOCK;
    for (;;) {
        while (!has_work(stream) && !stream->ending) npu_wait_change(stream, NULL);
        if (!has_work(stream)) return NULL;
        npu_task *task = take(stream);
        stream->running = true;
        finish(stream, run(stream, &task->copy));
        free(task);
    }
}

bool npu_start_worker(npu_stream *stream) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&stream->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&stream->worker, NULL, work, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) pthread_cond_destroy(&stream->changed);
    return !failed;
}

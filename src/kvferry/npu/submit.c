/* submit.c: copies handed to a stream, one or many. */
#include "call.h"
#include "span.h"
#include "stream.h"

static aclError check_stream(const npu_stream *stream) {
    if (!stream || stream->ending)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no such stream");
    if (stream->context != npu_current())
        return npu_refuse(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is of another context");
    if (stream->halted) return npu_refuse(ACL_ERROR_RT_STREAM_ABORT, "it was stopped");
    if (npu_stopped(stream)) return npu_refuse(npu_stopped(stream), "it stopped at a failure");
    return 0;
}

static aclError queue(npu_stream *stream, const npu_copy *copy) {
    if (npu_submit(stream, copy)) return 0;
    return npu_refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
}

/* A device cannot hold on to memory that is not pinned. */
static aclError settle(npu_stream *stream, bool unpinned) {
    return unpinned ? npu_wait_for(stream, stream->submitted, NPU_FOREVER) : 0;
}

NPU_API aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                                  aclrtMemcpyKind kind, aclrtStream stream) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_stream *found = npu_find_stream(stream);
    npu_copy copy = {
        .dst = dst, .src = src, .count = count, .device = npu_current()->device};
    aclError refused = check_stream(found);
    if (!refused) refused = npu_check_copy(&copy, destMax, kind, true);
    if (!refused) refused = queue(found, &copy);
    return refused ? refused : settle(found, npu_is_unpinned(&copy));
}

/* ---- batches ---- */

typedef struct npu_batch {
    void **dsts, **srcs;
    size_t *rooms, *sizes;
    size_t count;
    const aclrtMemcpyBatchAttr *attrs;
    const size_t *starts; /* attribute k goes for copies starts[k] to starts[k + 1] - 1 */
    size_t attr_count;
} npu_batch;

static aclError check_batch(const npu_batch *b) {
    if (!b->dsts || !b->srcs || !b->rooms || !b->sizes || !b->attrs || !b->starts || !b->count ||
        !b->attr_count || b->attr_count > b->count || b->starts[0])
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "an array is missing, or does not fit");
    for (size_t k = 1; k < b->attr_count; k++)
        if (b->starts[k] <= b->starts[k - 1] || b->starts[k] >= b->count)
            return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "attrsIndexes do not rise");
    return 0;
}

static bool on_device(const aclrtMemLocation *location) {
    return location->type == ACL_MEM_LOCATION_TYPE_DEVICE;
}

/* The direction that an attribute says; DEFAULT: none that a batch may have. */
static aclrtMemcpyKind direction(const aclrtMemcpyBatchAttr *attr) {
    if (on_device(&attr->dstLoc) == on_device(&attr->srcLoc)) return ACL_MEMCPY_DEFAULT;
    return on_device(&attr->dstLoc) ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
}

static npu_copy copy_of(const npu_batch *b, size_t i) {
    return (npu_copy){.dst = b->dsts[i],
                      .src = b->srcs[i],
                      .count = b->sizes[i],
                      .device = npu_current()->device};
}

/* All of them go one way, or none goes. */
static aclError check_copies(const npu_batch *b, size_t *at) {
    aclrtMemcpyKind way = direction(b->attrs);
    size_t k = 0;
    for (*at = 0; *at < b->count; ++*at) {
        if (k + 1 < b->attr_count && b->starts[k + 1] == *at) k++;
        npu_copy copy = copy_of(b, *at);
        if (way == ACL_MEMCPY_DEFAULT || direction(&b->attrs[k]) != way)
            return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "a batch goes to the device or from it");
        aclError refused = npu_check_copy(&copy, b->rooms[*at], way, true);
        if (refused) return refused;
    }
    return 0;
}

static aclError queue_all(npu_stream *stream, const npu_batch *b) {
    bool unpinned = false;
    for (size_t i = 0; i < b->count; i++) {
        npu_copy copy = copy_of(b, i);
        aclError failed = npu_check_copy(&copy, b->rooms[i], direction(b->attrs), true);
        if (!failed) failed = queue(stream, &copy);
        if (failed) return failed;
        unpinned |= npu_is_unpinned(&copy);
    }
    return settle(stream, unpinned);
}

NPU_API aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                       size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                                       size_t *attrsIndexes, size_t numAttrs, size_t *failIndex,
                                       aclrtStream stream) {
    NPU_CALL(NPU_IN_CONTEXT);
    npu_stream *found = npu_find_stream(stream);
    npu_batch b = {dsts, srcs, destMaxs, sizes, numBatches, attrs, attrsIndexes, numAttrs};
    if (!failIndex) return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "no place for failIndex");
    *failIndex = SIZE_MAX;
    size_t at;
    aclError refused = check_stream(found);
    if (!refused) refused = check_batch(&b);
    if (refused) return refused;
    refused = check_copies(&b, &at);
    if (refused) *failIndex = at;
    return refused ? refused : queue_all(found, &b);
}

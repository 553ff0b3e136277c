#include "copy.h"

#include <stdatomic.h>
#include <string.h>

#include "call.h"
#include "span.h"

#define PIECE ((size_t)4 << 20)

/* ---- what is allowed ---- */

#define HOST NPU_SIDE_HOST
#define DEVICE NPU_SIDE_DEVICE

static const struct {
    npu_side from, to;
} SIDES[] = {
    [ACL_MEMCPY_HOST_TO_HOST] = {HOST, HOST},
    [ACL_MEMCPY_HOST_TO_DEVICE] = {HOST, DEVICE},
    [ACL_MEMCPY_DEVICE_TO_HOST] = {DEVICE, HOST},
    [ACL_MEMCPY_DEVICE_TO_DEVICE] = {DEVICE, DEVICE},
};

static npu_side side_of(const void *address) {
    const npu_span *span = npu_span_at(address);
    if (span) return span->on_host ? HOST : DEVICE;
    return npu_holding(NPU_RESERVATION, address) ? DEVICE : HOST;
}

/* Host memory that a device was given access to may stand on both sides. */
static bool fits(const void *address, npu_side side, int32_t device) {
    const npu_span *span = npu_span_at(address);
    return side_of(address) == side || (side == DEVICE && span && span->access[device]);
}

/* Memory of two devices, of which at least one was mapped: only streams copy between such. */
static bool is_for_streams(const npu_copy *copy) {
    const npu_span *from = npu_span_at(copy->src), *to = npu_span_at(copy->dst);
    return from && to && from->device != NPU_HOST && to->device != NPU_HOST &&
           from->device != to->device && (from->block->is_handle || to->block->is_handle);
}

/* Memory by key that lies in another device. */
static bool is_distant(const void *address) {
    const npu_span *span = npu_span_at(address);
    return span && span->block && span->block->share.state == NPU_IMPORTED &&
           span->block->share.ticket.type == NPU_BY_KEY && span->home != span->device;
}

/* Memory of another server, which no processor of this one can map. */
static bool is_remote(const void *address) {
    const npu_span *span = npu_span_at(address);
    return span && span->block && span->block->share.state == NPU_IMPORTED &&
           span->block->share.ticket.server != npu_set()->server;
}

static bool is_remote_by_host(const npu_copy *copy) {
    return (copy->from == HOST && is_remote(copy->dst)) || (copy->to == HOST && is_remote(copy->src));
}

aclError npu_check_copy(npu_copy *copy, size_t room, aclrtMemcpyKind kind, bool async) {
    if (!copy->dst || !copy->src || !copy->count)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "nothing to copy");
    if (copy->count > room)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "more bytes than destMax");
    if ((unsigned)kind > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE)
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no such kind of copy");
    if (kind > ACL_MEMCPY_DEFAULT)
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "this kind of copy is absent here");
    bool inferred = kind == ACL_MEMCPY_DEFAULT;
    copy->from = inferred ? side_of(copy->src) : SIDES[kind].from;
    copy->to = inferred ? side_of(copy->dst) : SIDES[kind].to;
    if (!fits(copy->src, copy->from, copy->device))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the source is not on that side");
    if (!fits(copy->dst, copy->to, copy->device))
        return npu_refuse(ACL_ERROR_RT_PARAM_INVALID, "the destination is not on that side");
    if ((is_distant(copy->src) || is_distant(copy->dst)) &&
        !(async && kind == ACL_MEMCPY_DEVICE_TO_DEVICE))
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                          "another device's memory by key is copied on streams, device to device");
    if (is_remote_by_host(copy))
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                          "between servers only from device address to device address");
    if (!async && is_for_streams(copy))
        return npu_refuse(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "between two devices only by a stream");
    if (async && copy->from == HOST && copy->to == HOST)
        return npu_refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "host to host never is asynchronous");
    return 0;
}

bool npu_is_unpinned(const npu_copy *copy) {
    return (!npu_span_at(copy->src) && side_of(copy->src) == HOST) ||
           (!npu_span_at(copy->dst) && side_of(copy->dst) == HOST);
}

/* ---- moving ---- */

/* One end of a piece: `length` bytes at `at`, of a block that it keeps alive. */
typedef struct npu_end {
    char *at;
    size_t length;
    npu_block *block;
} npu_end;

/* The caller's own memory is where its address says. Whatever else lies there must be of the same side
 * all along: what was unmapped, or ends before the copy does, is no longer. */
static aclError resolve(char *address, size_t length, npu_side side, int32_t device,
                        aclrtMemAccessFlags need, npu_end *end) {
    npu_span *span = npu_span_at(address);
    *end = (npu_end){address, length, NULL};
    if (!span && side == HOST && side_of(address) == HOST) return 0;
    bool allowed = span && (side == HOST ? span->on_host : npu_allows(span, device, need));
    if (!allowed) return ACL_ERROR_RT_DEVICE_MEM_ERROR;
    size_t offset = (uintptr_t)address - span->entry.base;
    size_t left = span->entry.size - offset;
    *end = (npu_end){span->alias + offset, length < left ? length : left, span->block};
    return 0;
}

static void let_go(const npu_end *end) {
    if (end->block) npu_drop_use(end->block);
}

static bool is_word(const void *at) { return !((uintptr_t)at & 7); }

/* Eight aligned bytes are one store with release: a host may poll them to learn that all before them
 * arrived. */
static void move(char *to, const char *from, size_t length) {
    if (length == 8 && is_word(to) && is_word(from)) {
        uint64_t word = atomic_load_explicit((_Atomic uint64_t *)from, memory_order_relaxed);
        atomic_store_explicit((_Atomic uint64_t *)to, word, memory_order_release);
    } else {
        memmove(to, from, length);
    }
}

static aclError begin_piece(const npu_copy *left, npu_end *to, npu_end *from) {
    size_t length = left->count < PIECE ? left->count : PIECE;
    aclError failed = resolve((char *)left->src, length, left->from, left->device,
                              ACL_RT_MEM_ACCESS_FLAGS_READ, from);
    if (!failed)
        failed = resolve(left->dst, from->length, left->to, left->device,
                         ACL_RT_MEM_ACCESS_FLAGS_READWRITE, to);
    if (failed) return failed;
    if (to->block) to->block->uses++;
    if (from->block) from->block->uses++;
    return 0;
}

static aclError run_piece(npu_copy *left, const bool *stop) {
    npu_end to, from;
    {
        NPU_HOLD_LOCK;
        if (stop && *stop) return ACL_ERROR_RT_STREAM_ABORT;
        aclError failed = begin_piece(left, &to, &from);
        if (failed) return npu_refuse(failed, "no memory at an address, or not this device's to use");
    }
    move(to.at, from.at, to.length);
    {
        NPU_HOLD_LOCK;
        let_go(&to);
        let_go(&from);
    }
    left->dst += to.length;
    left->src += to.length;
    left->count -= to.length;
    return 0;
}

aclError npu_run_copy(npu_copy copy, const bool *stop) {
    aclError failed = 0;
    while (copy.count && !failed) failed = run_piece(&copy, stop);
    return failed;
}

NPU_API aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                             aclrtMemcpyKind kind) {
    npu_copy copy = {.dst = dst, .src = src, .count = count};
    {
        NPU_CALL(NPU_IN_CONTEXT);
        copy.device = npu_current()->device;
        aclError refused = npu_check_copy(&copy, destMax, kind, false);
        if (refused) return refused;
    }
    return npu_run_copy(copy, NULL);
}

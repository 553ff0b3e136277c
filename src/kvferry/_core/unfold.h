/* unfold.h: a coprocessor: a batch published by one entry is unfolded by a copy engine.
 *
 *   submitter --entry--> [ control stream ]            one BATCH entry, whatever its size
 *                              | unfolded by who takes the control stream
 *                              v
 *   work ring   | done | done | moving | moving | written | written | free | free |
 *                              ^ notified                            ^ written    2,048 records
 *                              |
 *                        [ worker stream ]   run, NOTIFY, run, run, NOTIFY, ..., FLAG
 *
 * A record is a descriptor with both addresses valid here, at most a chunk long. Records are written
 * in logical batches; each is announced by a run (two where it wraps) and closed by a NOTIFY, which
 * moves the worker's counter to its end: `notified` is how many records, modulo 2^32, lie before the
 * last boundary that was passed. Only space before it is written again. The FLAG behind the last
 * boundary completes the transfer, so that whoever moved its last byte also ends it.
 *
 * Who unfolds would have to wait for a boundary when the ring is full, and before it begins the next
 * batch: then it carries the worker's entries out itself unless another engine is at it. Only one
 * batch of a slot is begun at a time; all others can still be dropped by who holds their line, and
 * then neither their descriptors nor their memory are touched.
 */
#ifndef KVF_UNFOLD_H
#define KVF_UNFOLD_H

#include "engines.h"
#include "resolve.h"

#define KVF_WORK_RECORDS 2048u
#define KVF_LOGICAL_MOST 1920u /* records of one logical batch */
_Static_assert(KVF_LOGICAL_MOST < KVF_WORK_RECORDS, "an open logical batch never fills the ring");

/* Beside the run in its entry. The transfer's own: gone once its line is quiet. */
typedef struct kvf_batch {
    kvf_mover *mover; /* NULL: both sides lie in this address space */
    kvf_late late;
} kvf_batch;

/* What stands behind a control stream. Its head is the worker, so who frees that frees all. */
typedef struct kvf_slot {
    kvf_stream worker;
    uint32_t most;    /* records a logical batch */
    uint32_t written; /* modulo 2^32; of who unfolds */
    kvf_turn taken;   /* entries that left the control ring, modulo 2^32 */
    _Alignas(64) kvf_descriptor work[KVF_WORK_RECORDS];
} kvf_slot;

static inline kvf_slot *kvf_slot_of(const kvf_stream *control) { return (kvf_slot *)control->worker; }

/* Make an idle stream the control stream of a slot of its own; false without memory. */
static inline bool kvf_bind(kvf_stream *control, uint32_t most) {
    kvf_slot *slot = aligned_alloc(64, (sizeof *slot + 63) & ~(size_t)63);
    if (!slot) return false;
    memset(slot, 0, sizeof *slot);
    slot->most = most;
    slot->worker.control = control;
    control->worker = &slot->worker;
    return true;
}

/* One batch while it is unfolded. */
typedef struct kvf_unfolding {
    kvf_engines *engines;
    kvf_slot *slot;
    const kvf_entry *entry;
    kvf_mover *mover;
    uint64_t stretch; /* bytes of the records written since the last run was announced */
    uint32_t first;   /* the first of these */
    uint64_t since;   /* of this thread's processor time, when it last began to unfold */
} kvf_unfolding;

static inline void kvf_count_unfolding(kvf_unfolding *u) {
    uint64_t spent = kvf_thread_cpu() - u->since;
    atomic_fetch_add_explicit(&u->engines->unfold_ns, spent, memory_order_relaxed);
}

/* An engine that is at the worker may leave it for a stream that is ready longer, and tells nobody:
 * so often is looked. */
#define KVF_LOOK_NS 1000000ull

/* Until the worker's counter moves on from `seen`, or has a chance to. */
static inline void kvf_await_notify(kvf_engines *e, kvf_stream *worker, uint32_t seen) {
    if (kvf_serve(e, worker, &e->hold)) return;
    kvf_turn_await(&worker->notified, seen, kvf_now() + KVF_LOOK_NS);
}

static inline void kvf_pause(kvf_unfolding *u, uint32_t seen) {
    kvf_count_unfolding(u);
    kvf_await_notify(u->engines, &u->slot->worker, seen);
    u->since = kvf_thread_cpu();
}

static inline void kvf_enqueue(kvf_unfolding *u, kvf_entry entry) {
    entry.op = u->entry->op, entry.done = u->entry->done, entry.sequence = u->entry->sequence;
    kvf_stream *worker = &u->slot->worker;
    for (;;) {
        uint32_t seen = kvf_turn_now(&worker->notified);
        if (kvf_ring_push(&worker->ring, &entry)) return;
        kvf_pause(u, seen); /* a full ring holds a NOTIFY */
    }
}

/* The records since the last run become one: they lie side by side. */
static inline void kvf_announce(kvf_unfolding *u) {
    kvf_slot *slot = u->slot;
    if (u->stretch) {
        const kvf_descriptor *d = &slot->work[u->first % KVF_WORK_RECORDS];
        kvf_enqueue(u, (kvf_entry){.kind = KVF_ENTRY_COPY, .mover = u->mover,
                                   .run = {d, 0, u->stretch, 0}});
    }
    u->first = slot->written;
    u->stretch = 0;
}

static inline void kvf_write_record(kvf_unfolding *u, const kvf_piece *p) {
    kvf_slot *slot = u->slot;
    for (;;) {
        uint32_t notified = kvf_turn_now(&slot->worker.notified);
        if (slot->written - notified < KVF_WORK_RECORDS) break;
        kvf_pause(u, notified);
    }
    slot->work[slot->written++ % KVF_WORK_RECORDS] = (kvf_descriptor){p->local, p->remote, p->length};
    u->stretch += p->length;
    if (slot->written % KVF_WORK_RECORDS == 0) kvf_announce(u);
}

static inline void kvf_close_logical(kvf_unfolding *u) {
    kvf_announce(u);
    kvf_enqueue(u, (kvf_entry){.kind = KVF_ENTRY_NOTIFY, .word = u->slot->written});
    kvf_doorbell(u->engines, &u->slot->worker, false); /* who unfolds will help */
}

/* Was the batch asked to stop, or has a part of it failed? Then it has failed. */
static inline bool kvf_stopped(const kvf_entry *entry) {
    kvf_done *d = entry->done;
    bool aborted = kvf_done_aborted(d, entry->sequence);
    if (aborted) kvf_done_fail(d, KVF_ABORTED);
    return aborted || kvf_done_outcome(d);
}

/* Write the batch's records, and close a logical batch whenever it is full. */
static inline void kvf_write_batch(kvf_unfolding *u, const kvf_snapshot *far) {
    uint32_t open = 0;
    kvf_run rest = u->entry->run, head;
    kvf_piece p;
    while (kvf_next_relocated(far, &rest, &head)) {
        while (kvf_next_piece(&head, KVF_CHUNK, &p)) {
            if (!open && kvf_stopped(u->entry)) return;
            kvf_write_record(u, &p);
            if (++open < u->slot->most) continue;
            kvf_close_logical(u);
            open = 0;
        }
    }
    if (open) kvf_close_logical(u);
}

/* Nobody has begun the batch and nobody has dropped it: it is ours, once the one before is through. */
static inline bool kvf_begin_batch(kvf_engines *e, kvf_slot *slot, const kvf_entry *entry) {
    uint32_t notified;
    while ((notified = kvf_turn_now(&slot->worker.notified)) != slot->written)
        kvf_await_notify(e, &slot->worker, notified);
    return kvf_done_claim(entry->done, entry->sequence);
}

/* Check what submitting left unchecked; false: refused, and nothing has moved. */
static inline bool kvf_check_batch(const kvf_entry *entry) {
    kvf_side side = KVF_LOCAL;
    uint64_t index = 0;
    const kvf_descriptor *d = entry->run.d;
    kvf_verdict verdict =
        kvf_check_late(&entry->batch->late, d, entry->op == KVF_WRITE, &side, &index);
    if (!verdict) return true;
    kvf_done_refuse(entry->done, verdict, side, side == KVF_LOCAL ? d[index].local : d[index].remote);
    return false;
}

static void kvf_unfold(kvf_engines *e, kvf_stream *control, const kvf_entry *entry) {
    kvf_slot *slot = kvf_slot_of(control);
    kvf_turn_pass(&slot->taken, kvf_turn_now(&slot->taken) + 1);
    if (!kvf_begin_batch(e, slot, entry)) return;
    kvf_unfolding u = {e, slot, entry, entry->batch->mover, 0, slot->written, kvf_thread_cpu()};
    if (!kvf_stopped(entry) && kvf_check_batch(entry))
        kvf_write_batch(&u, &entry->batch->late.remote);
    kvf_enqueue(&u, (kvf_entry){.kind = KVF_ENTRY_FLAG});
    kvf_count_unfolding(&u);
    kvf_doorbell(e, &slot->worker, false);
    kvf_serve(e, &slot->worker, &e->hold);
}

/* For who publishes: until the control ring has room; false at the deadline or after one slice. */
static inline bool kvf_await_room(kvf_stream *control, uint64_t deadline) {
    kvf_turn *taken = &kvf_slot_of(control)->taken;
    uint32_t seen = kvf_turn_now(taken);
    if (kvf_ring_full(&control->ring)) kvf_turn_await(taken, seen, deadline);
    return !kvf_ring_full(&control->ring);
}

/* Who waits for room shall look whether it is still wanted. */
static inline void kvf_stir(kvf_stream *control) { kvf_turn_stir(&kvf_slot_of(control)->taken); }

#endif

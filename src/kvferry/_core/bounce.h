/* bounce.h: a mover that lets pieces pass through a pool's buffer on their way to another mover.
 *
 *             local memory                 buffer                  inner mover
 *   write     a . . b . c      gather ->   | a | b | c |   ->      one run, few places
 *   read      a . . b . c    <- scatter    | a | b | c |   <-      only after it has succeeded
 *
 * A run is moved in rounds. One takes from the run, in its order, what fits a buffer and its records;
 * pieces that need no buffer go along in place and whole. Stretches of these between two rounds are
 * given to the inner mover as they are, without a buffer.
 *
 * Which pieces are staged follows from the local side: of memory that nobody registered, every one;
 * of registered memory the short ones, and only where a run is scattered; of a device's memory every
 * one, by way of its reach.
 */
#ifndef KVF_BOUNCE_H
#define KVF_BOUNCE_H

#include "mover.h"
#include "pool.h"
#include "resolve.h"

#define KVF_STAGE_BELOW (256ull << 10)
#define KVF_NO_LENGTH 0ull
#define KVF_ANY_LENGTH UINT64_MAX

typedef struct kvf_bounce {
    kvf_mover mover;
    kvf_mover *inner;
    kvf_pool *pool;
    uint64_t below;   /* shorter pieces are staged */
    kvf_table *local; /* tells what lies in a device; NULL: nothing of these runs does */
} kvf_bounce;

typedef struct kvf_round {
    kvf_run carried, placed; /* pool.h */
} kvf_round;

/* ---- where memory lies ---- */

/* A range of local memory that is reached in one way. */
typedef struct kvf_stretch {
    uint64_t low, high; /* half open */
    kvf_reach *reach;   /* NULL: the processor's own way */
} kvf_stretch;

static inline kvf_stretch kvf_stretch_at(kvf_table *t, uint64_t address) {
    kvf_stretch found = {0, UINT64_MAX, NULL};
    pthread_mutex_lock(&t->lock);
    uint64_t k = kvf_count_spans(t->row, t->n, address);
    if (k < t->n) found.high = t->row[k]->base;
    if (k) {
        const kvf_span *s = t->row[k - 1];
        uint64_t end = s->base + s->length;
        if (address < end) found = (kvf_stretch){s->base, end, s->reach};
        else found.low = end;
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

/* The next piece of the run, which lies in one stretch; `s` is the last one's, and then its own. */
static inline bool kvf_next_stretched(kvf_table *t, kvf_run *r, uint64_t most, kvf_stretch *s,
                                      kvf_piece *p) {
    if (!t || !r->bytes) return kvf_next_piece(r, most, p);
    uint64_t at = r->d->local + r->skip;
    if (at < s->low || at >= s->high) *s = kvf_stretch_at(t, at);
    return kvf_next_piece(r, most < s->high - at ? most : s->high - at, p);
}

/* ---- rounds ---- */

static inline bool kvf_is_staged(const kvf_bounce *b, const kvf_stretch *s, const kvf_piece *p) {
    return s->reach || p->length < b->below;
}

/* Take from the head of the run what needs no buffer. */
static inline kvf_run kvf_take_unstaged(const kvf_bounce *b, kvf_run *r) {
    kvf_run head = *r, rest = *r;
    kvf_stretch s = {0, 0, NULL};
    kvf_piece p;
    while (kvf_next_stretched(b->local, &rest, UINT64_MAX, &s, &p) && !kvf_is_staged(b, &s, &p))
        *r = rest;
    head.bytes -= r->bytes;
    return head;
}

/* Take from the run what one round over `buffer` moves; a piece is cut where the buffer ends. */
static inline kvf_round kvf_take_round(const kvf_bounce *b, kvf_run *r, kvf_buffer *buffer) {
    kvf_round round = {.carried = {.d = buffer->carried}, .placed = {.d = buffer->placed}};
    kvf_descriptor *carried = buffer->carried, *placed = buffer->placed;
    const uint64_t size = b->pool->size;
    kvf_stretch s = {0, 0, NULL};
    while (r->bytes && round.placed.bytes < size && carried < buffer->carried + KVF_ROUND_PIECES) {
        uint64_t room = size - round.placed.bytes;
        kvf_run before = *r;
        kvf_piece p;
        kvf_next_stretched(b->local, r, UINT64_MAX, &s, &p);
        bool staged = kvf_is_staged(b, &s, &p);
        if (staged && p.length > room) *r = before, kvf_next_piece(r, room, &p);
        *carried = (kvf_descriptor){p.local, p.remote, p.length};
        if (staged) {
            carried->local = buffer->address + round.placed.bytes;
            *placed++ = (kvf_descriptor){p.local, carried->local, p.length};
            round.placed.bytes += p.length;
        }
        carried++;
        round.carried.bytes += p.length;
    }
    return round;
}

/* Between a device and a buffer, which is the piece's remote side. */
static inline kvf_outcome kvf_cross_reach(kvf_reach *reach, kvf_piece p, kvf_op op,
                                          const kvf_brake *brake) {
    kvf_outcome outcome = kvf_brake_check(brake);
    if (outcome) return outcome;
    int code = op == KVF_WRITE ? reach->load(reach, (void *)p.remote, p.local, p.length)
                               : reach->store(reach, p.local, (const void *)p.remote, p.length);
    if (!code) return KVF_OK;
    kvf_done_blame(brake->done, code);
    return KVF_DEVICE;
}

/* Between local memory and the buffer. */
static inline kvf_outcome kvf_move_placed(const kvf_bounce *b, kvf_run placed, kvf_op op,
                                    const kvf_brake *brake) {
    if (!b->local) return kvf_run_plain(placed, op, brake);
    kvf_outcome outcome = KVF_OK;
    kvf_stretch s = {0, 0, NULL};
    for (kvf_piece p; !outcome && kvf_next_stretched(b->local, &placed, KVF_CHUNK, &s, &p);) {
        const kvf_descriptor d = {p.local, p.remote, p.length};
        outcome = s.reach ? kvf_cross_reach(s.reach, p, op, brake)
                          : kvf_run_plain((kvf_run){&d, 0, p.length, 0}, op, brake);
    }
    return outcome;
}

static inline kvf_outcome kvf_move_round(const kvf_bounce *b, kvf_round round, kvf_op op,
                                         const kvf_brake *brake) {
    kvf_outcome outcome = KVF_OK;
    if (op == KVF_WRITE) outcome = kvf_move_placed(b, round.placed, KVF_WRITE, brake);
    if (!outcome) outcome = b->inner->run(b->inner, round.carried, op, brake);
    if (!outcome && op == KVF_READ) outcome = kvf_move_placed(b, round.placed, KVF_READ, brake);
    if (!outcome)
        atomic_fetch_add_explicit(&brake->done->staged, round.placed.bytes, memory_order_relaxed);
    return outcome;
}

static inline kvf_outcome kvf_bounce_round(const kvf_bounce *b, kvf_run *r, kvf_op op,
                                           const kvf_brake *brake) {
    kvf_buffer *buffer;
    kvf_outcome outcome = kvf_pool_take(b->pool, brake, &buffer);
    if (outcome) return outcome;
    outcome = kvf_move_round(b, kvf_take_round(b, r, buffer), op, brake);
    kvf_pool_give(b->pool, buffer);
    return outcome;
}

/* ---- runs ---- */

static inline kvf_outcome kvf_bounce_run(kvf_mover *m, kvf_run r, kvf_op op, const kvf_brake *brake) {
    kvf_bounce *b = (kvf_bounce *)m;
    kvf_outcome outcome = KVF_OK;
    while (!outcome && r.bytes) {
        kvf_run direct = kvf_take_unstaged(b, &r);
        outcome = direct.bytes ? b->inner->run(b->inner, direct, op, brake)
                               : kvf_bounce_round(b, &r, op, brake);
    }
    return outcome;
}

static inline bool kvf_in_one_piece(kvf_run r) {
    kvf_piece p;
    return !kvf_next_piece(&r, UINT64_MAX, &p) || !r.bytes;
}

static inline kvf_outcome kvf_bounce_scattered_run(kvf_mover *m, kvf_run r, kvf_op op,
                                                   const kvf_brake *brake) {
    kvf_mover *inner = ((kvf_bounce *)m)->inner;
    return kvf_in_one_piece(r) ? inner->run(inner, r, op, brake) : kvf_bounce_run(m, r, op, brake);
}

/* For runs whose local side is registered. */
static inline kvf_bounce kvf_bounce_short(kvf_mover *inner, kvf_pool *pool) {
    return (kvf_bounce){{kvf_bounce_scattered_run}, inner, pool, KVF_STAGE_BELOW, NULL};
}

/* For runs whose local side is not. */
static inline kvf_bounce kvf_bounce_all(kvf_mover *inner, kvf_pool *pool) {
    return (kvf_bounce){{kvf_bounce_run}, inner, pool, KVF_ANY_LENGTH, NULL};
}

/* For runs of whose local side some lies in a device, and of the rest what is shorter than `below`. */
static inline kvf_bounce kvf_bounce_opaque(kvf_mover *inner, kvf_pool *pool, uint64_t below,
                                           kvf_table *local) {
    return (kvf_bounce){{kvf_bounce_run}, inner, pool, below, local};
}

#endif

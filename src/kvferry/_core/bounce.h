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
 * of registered memory the short ones, and only where a run is scattered.
 */
#ifndef KVF_BOUNCE_H
#define KVF_BOUNCE_H

#include "mover.h"
#include "pool.h"

#define KVF_STAGE_BELOW (256ull << 10)
#define KVF_ANY_LENGTH UINT64_MAX

typedef struct kvf_bounce {
    kvf_mover mover;
    kvf_mover *inner;
    kvf_pool *pool;
    uint64_t below; /* shorter pieces are staged */
} kvf_bounce;

typedef struct kvf_round {
    kvf_run carried, placed; /* pool.h */
} kvf_round;

/* Take from the head of the run what needs no buffer. */
static inline kvf_run kvf_take_unstaged(kvf_run *r, uint64_t below) {
    kvf_run head = *r, rest = *r;
    for (kvf_piece p; kvf_next_piece(&rest, UINT64_MAX, &p) && p.length >= below;) *r = rest;
    head.bytes -= r->bytes;
    return head;
}

/* Take from the run what one round over buffer `b` moves; a piece is cut where the buffer ends. */
static inline kvf_round kvf_take_round(kvf_run *r, uint64_t below, kvf_buffer *b, uint64_t size) {
    kvf_round round = {.carried = {.d = b->carried}, .placed = {.d = b->placed}};
    kvf_descriptor *carried = b->carried, *placed = b->placed;
    while (r->bytes && round.placed.bytes < size && carried < b->carried + KVF_ROUND_PIECES) {
        uint64_t room = size - round.placed.bytes;
        kvf_run before = *r;
        kvf_piece p;
        kvf_next_piece(r, UINT64_MAX, &p);
        bool staged = p.length < below;
        if (staged && p.length > room) *r = before, kvf_next_piece(r, room, &p);
        *carried = (kvf_descriptor){p.local, p.remote, p.length};
        if (staged) {
            carried->local = b->address + round.placed.bytes;
            *placed++ = (kvf_descriptor){p.local, carried->local, p.length};
            round.placed.bytes += p.length;
        }
        carried++;
        round.carried.bytes += p.length;
    }
    return round;
}

static inline kvf_outcome kvf_move_round(kvf_mover *inner, kvf_round round, kvf_op op,
                                         const kvf_brake *brake) {
    kvf_outcome outcome = KVF_OK;
    if (op == KVF_WRITE) outcome = kvf_run_plain(round.placed, KVF_WRITE, brake);
    if (!outcome) outcome = inner->run(inner, round.carried, op, brake);
    if (!outcome && op == KVF_READ) outcome = kvf_run_plain(round.placed, KVF_READ, brake);
    if (!outcome)
        atomic_fetch_add_explicit(&brake->done->staged, round.placed.bytes, memory_order_relaxed);
    return outcome;
}

static inline kvf_outcome kvf_bounce_round(kvf_bounce *b, kvf_run *r, kvf_op op,
                                           const kvf_brake *brake) {
    kvf_buffer *buffer;
    kvf_outcome outcome = kvf_pool_take(b->pool, brake, &buffer);
    if (outcome) return outcome;
    kvf_round round = kvf_take_round(r, b->below, buffer, b->pool->size);
    outcome = kvf_move_round(b->inner, round, op, brake);
    kvf_pool_give(b->pool, buffer);
    return outcome;
}

static inline kvf_outcome kvf_bounce_run(kvf_mover *m, kvf_run r, kvf_op op, const kvf_brake *brake) {
    kvf_bounce *b = (kvf_bounce *)m;
    kvf_outcome outcome = KVF_OK;
    while (!outcome && r.bytes) {
        kvf_run direct = kvf_take_unstaged(&r, b->below);
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
    return (kvf_bounce){{kvf_bounce_scattered_run}, inner, pool, KVF_STAGE_BELOW};
}

/* For runs whose local side is not. */
static inline kvf_bounce kvf_bounce_all(kvf_mover *inner, kvf_pool *pool) {
    return (kvf_bounce){{kvf_bounce_run}, inner, pool, KVF_ANY_LENGTH};
}

#endif

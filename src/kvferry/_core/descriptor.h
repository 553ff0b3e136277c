/* descriptor.h: what a batch is made of, and how it is cut.
 *
 *   descriptor  | local address u64 | remote address u64 | length u64 |      24 bytes
 *
 * A run is a contiguous part of a batch, measured in bytes, that one stream carries out: it may begin
 * and end inside a descriptor. `delta` is added to every remote address: the relocation from the
 * owner's address space into ours.
 */
#ifndef KVF_DESCRIPTOR_H
#define KVF_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kvf_descriptor {
    uint64_t local, remote, length;
} kvf_descriptor;

typedef enum { KVF_WRITE = 0, KVF_READ = 1 } kvf_op;

/* What is known of a whole batch: the extremes that let one comparison stand for all. */
typedef struct kvf_bounds {
    uint64_t local_low, local_high;   /* half open */
    uint64_t remote_low, remote_high; /* half open */
    uint64_t bytes;
    uint64_t shortest, longest;
} kvf_bounds;

typedef enum { KVF_FIT = 0, KVF_EMPTY_PIECE = 1, KVF_WRAPS = 2, KVF_TOO_MANY_BYTES = 3 } kvf_misfit;

/* Fill `b`; on a misfit, *index names the first offending descriptor. */
static inline kvf_misfit kvf_measure(const kvf_descriptor *d, uint64_t n, kvf_bounds *b,
                                     uint64_t *index) {
    *b = (kvf_bounds){UINT64_MAX, 0, UINT64_MAX, 0, 0, UINT64_MAX, 0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t local_end = d[i].local + d[i].length, remote_end = d[i].remote + d[i].length;
        *index = i;
        if (d[i].length == 0) return KVF_EMPTY_PIECE;
        if (local_end < d[i].local || remote_end < d[i].remote) return KVF_WRAPS;
        if (b->bytes + d[i].length < b->bytes) return KVF_TOO_MANY_BYTES;
        if (d[i].local < b->local_low) b->local_low = d[i].local;
        if (local_end > b->local_high) b->local_high = local_end;
        if (d[i].remote < b->remote_low) b->remote_low = d[i].remote;
        if (remote_end > b->remote_high) b->remote_high = remote_end;
        if (d[i].length < b->shortest) b->shortest = d[i].length;
        if (d[i].length > b->longest) b->longest = d[i].length;
        b->bytes += d[i].length;
    }
    return KVF_FIT;
}

/* base + id * step for block ids; wrapped sums are caught by kvf_measure's caller, who compares the
 * extremes of the ids with the number of blocks first. */
static inline void kvf_fill_blocks(kvf_descriptor *d, uint64_t n, uint64_t local,
                                   const int64_t *local_ids, uint64_t remote,
                                   const int64_t *remote_ids, uint64_t block) {
    for (uint64_t i = 0; i < n; i++) {
        d[i].local = local + (uint64_t)local_ids[i] * block;
        d[i].remote = remote + (uint64_t)remote_ids[i] * block;
        d[i].length = block;
    }
}

/* First id outside 0 .. limit-1, or n. */
static inline uint64_t kvf_first_stray(const int64_t *ids, uint64_t n, uint64_t limit) {
    uint64_t stray = 0;
    for (uint64_t i = 0; i < n; i++) stray |= (uint64_t)ids[i] >= limit;
    if (!stray) return n;
    for (uint64_t i = 0; i < n; i++)
        if ((uint64_t)ids[i] >= limit) return i;
    return n;
}

/* First piece that is not within 0 .. limit, or n. */
static inline uint64_t kvf_first_beyond(const int64_t *offsets, const int64_t *lengths, uint64_t n,
                                         uint64_t limit) {
    for (uint64_t i = 0; i < n; i++)
        if ((uint64_t)lengths[i] > limit || (uint64_t)offsets[i] > limit - (uint64_t)lengths[i]) return i;
    return n;
}

typedef struct kvf_run {
    const kvf_descriptor *d;
    uint64_t skip;  /* bytes of the first descriptor that belong to the run before */
    uint64_t bytes; /* left in this run */
    uint64_t delta;
} kvf_run;

typedef struct kvf_piece {
    uint64_t local, remote, length;
} kvf_piece;

/* The longest adjacent stretch at the head of the run, at most `most` bytes; the run moves on.
 * False at its end. */
static inline bool kvf_next_piece(kvf_run *r, uint64_t most, kvf_piece *p) {
    if (!r->bytes) return false;
    const kvf_descriptor *d = r->d;
    *p = (kvf_piece){d->local + r->skip, d->remote + r->skip + r->delta, d->length - r->skip};
    while (p->length < r->bytes && p->length < most && d[1].local == d->local + d->length &&
           d[1].remote == d->remote + d->length) {
        d++;
        p->length += d->length;
    }
    uint64_t take = p->length;
    if (take > r->bytes) take = r->bytes;
    if (take > most) take = most;
    uint64_t kept = p->length - take; /* of d, which then stays the head */
    p->length = take;
    r->bytes -= take;
    r->d = kept ? d : d + 1;
    r->skip = kept ? d->length - kept : 0;
    return true;
}

/* Move `r` on by `bytes` without copying: where the next stream's run begins. */
static inline void kvf_skip(kvf_run *r, uint64_t bytes) {
    r->bytes -= bytes;
    bytes += r->skip;
    while (bytes && bytes >= r->d->length) {
        bytes -= r->d->length;
        r->d++;
    }
    r->skip = bytes;
}

#endif

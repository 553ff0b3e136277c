/* resolve.h: checks a batch against regions and finds the relocation. Moves nothing.
 *
 * A span is what the copying side must know of a region: where its owner sees it, how far that is
 * from where we see it, who may do what, and the gate that in-flight transfers hold. A table is an
 * array of spans, sorted by base, that do not overlap.
 *
 *   here = there + delta          (modulo 2^64)
 */
#ifndef KVF_RESOLVE_H
#define KVF_RESOLVE_H

#include <pthread.h>

#include "descriptor.h"
#include "gate.h"
#include "reach.h"

/* What peers may do, whom this process serves by hand. */
typedef enum { KVF_OFFER_NONE, KVF_OFFER_READ, KVF_OFFER_WRITE } kvf_offer;

/* A peer that proved itself: the epoch that it proved, whose token (0: this engine's own) and what
 * that token permits. */
typedef struct kvf_visitor {
    uint64_t epoch;
    uint32_t tenant;
    bool writes;
} kvf_visitor;

/* Whom a region is there for: a tenant's visitors, or one of them alone, who may then do all that is
 * offered. Anybody else meets no region there. */
typedef struct kvf_audience {
    bool alone;
    kvf_visitor one; /* of its tenant; all of it, where alone */
} kvf_audience;

static inline bool kvf_audience_admits(const kvf_audience *a, const kvf_visitor *v) {
    if (a->one.tenant != v->tenant) return false;
    return !a->alone || (a->one.epoch == v->epoch && a->one.writes == v->writes);
}

typedef struct kvf_span {
    uint64_t base, length, delta;
    bool writable; /* by this process */
    uint8_t offer; /* a kvf_offer */
    kvf_audience audience; /* to whom */
    uint8_t way;   /* of a channel's links, the one that reaches it: one batch takes one way */
    kvf_reach *reach; /* NULL: the processor loads from it and stores to it */
    kvf_gate gate;
} kvf_span;

static inline bool kvf_span_covers(const kvf_span *s, uint64_t low, uint64_t high) {
    return low >= s->base && high >= low && high - s->base <= s->length;
}

/* Is any byte of [low, high) in it? */
static inline bool kvf_span_touches(const kvf_span *s, uint64_t low, uint64_t high) {
    return s->base > low ? s->base < high : low - s->base < s->length;
}

/* How many spans of the table begin at `address` or before it. */
static inline uint64_t kvf_count_spans(kvf_span *const *table, uint64_t n, uint64_t address) {
    uint64_t low = 0, high = n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (table[middle]->base <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The place in the table of the span that holds `address`; `n` when there is none. */
static inline uint64_t kvf_find_span(kvf_span *const *table, uint64_t n, uint64_t address) {
    uint64_t before = kvf_count_spans(table, n, address);
    if (!before || address - table[before - 1]->base >= table[before - 1]->length) return n;
    return before - 1;
}

typedef enum { KVF_LOCAL, KVF_REMOTE } kvf_side;

typedef enum {
    KVF_RESOLVED,
    KVF_UNKNOWN,  /* no region holds this address */
    KVF_LEAVES,   /* begins in a region and leaves it */
    KVF_READONLY, /* would be written, and may not */
    KVF_STALE,    /* the region was closed, revoked, or belongs to another epoch */
    KVF_MIXED,    /* the descriptors before this one go another way */
    KVF_NO_MEMORY,
} kvf_verdict;

/* Check one side of every descriptor against a table and add the relocation to `out` where it is
 * not NULL. `hits[k]`, where wanted, is set for every span that is used. On failure *index names the descriptor. */
static inline kvf_verdict kvf_resolve_side(const kvf_descriptor *d, uint64_t n, kvf_side side, bool write,
                                           kvf_span *const *table, uint64_t spans, uint8_t *hits,
                                           kvf_descriptor *out, uint64_t *index) {
    const kvf_span *last = NULL;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t address = side == KVF_LOCAL ? d[i].local : d[i].remote;
        if (!last || address - last->base >= last->length) {
            *index = i;
            uint64_t found = kvf_find_span(table, spans, address);
            if (found == spans) return KVF_UNKNOWN;
            if (write && !table[found]->writable) return KVF_READONLY;
            last = table[found];
            if (hits) hits[found] = 1;
        }
        if (d[i].length > last->length - (address - last->base)) {
            *index = i;
            return KVF_LEAVES;
        }
        if (out && side == KVF_LOCAL) out[i].local = address + last->delta;
        if (out && side == KVF_REMOTE) out[i].remote = address + last->delta;
    }
    return KVF_RESOLVED;
}

/* The first descriptor whose remote side goes another way, each of them in a span; n when none does. */
static inline uint64_t kvf_first_other_way(const kvf_descriptor *d, uint64_t n, kvf_span *const *table,
                                           uint64_t spans, uint8_t way) {
    const kvf_span *last = NULL;
    for (uint64_t i = 0; i < n; i++) {
        if (!last || d[i].remote - last->base >= last->length)
            last = table[kvf_find_span(table, spans, d[i].remote)];
        if (last->way != way) return i;
    }
    return n;
}

/* A check that submitting leaves to who carries the batch out. It is made against a snapshot of the
 * spans that the batch's extremes touch, whose gates the transfer holds. */
typedef struct kvf_snapshot {
    kvf_span **row; /* NULL: this side was checked */
    uint64_t n;
} kvf_snapshot;

typedef struct kvf_late {
    uint64_t n; /* descriptors */
    kvf_snapshot local, remote;
    uint8_t way; /* the first descriptor's, which all must go */
} kvf_late;

/* Check all that was left; on a misfit *side and *index name it. */
static inline kvf_verdict kvf_check_late(const kvf_late *late, const kvf_descriptor *d, bool write,
                                         kvf_side *side, uint64_t *index) {
    kvf_snapshot near = late->local, far = late->remote;
    kvf_verdict verdict = KVF_RESOLVED;
    *side = KVF_LOCAL;
    if (near.row)
        verdict = kvf_resolve_side(d, late->n, *side, !write, near.row, near.n, NULL, NULL, index);
    if (verdict || !far.row) return verdict;
    *side = KVF_REMOTE;
    verdict = kvf_resolve_side(d, late->n, *side, write, far.row, far.n, NULL, NULL, index);
    if (verdict) return verdict;
    *index = kvf_first_other_way(d, late->n, far.row, far.n, late->way);
    return *index < late->n ? KVF_MIXED : KVF_RESOLVED;
}

/* The longest head of `rest` whose remote side lies in one span, relocated; `rest` moves on. False at
 * its end. Only after the check. */
static inline bool kvf_next_relocated(const kvf_snapshot *far, kvf_run *rest, kvf_run *head) {
    if (!rest->bytes) return false;
    *head = *rest;
    if (!far->row) {
        rest->bytes = 0;
        return true;
    }
    const kvf_span *s = far->row[kvf_find_span(far->row, far->n, rest->d->remote)];
    head->delta = s->delta;
    do {
        rest->bytes -= rest->d->length;
        rest->d++;
    } while (rest->bytes && rest->d->remote - s->base < s->length);
    head->bytes -= rest->bytes;
    return true;
}

/* A table that threads without the GIL look into while its owner changes it. The row is replaced
 * under the lock; a span is out of every table before its gate is drained, and lives until then. */
typedef struct kvf_table {
    pthread_mutex_t lock;
    kvf_span **row;
    uint64_t n;
} kvf_table;

static inline bool kvf_span_takes_writes(const kvf_span *s, const kvf_visitor *v) {
    return s->offer == KVF_OFFER_WRITE && (v->writes || s->audience.alone);
}

/* Find the region of [address, address + length) for a visitor and enter its gate. */
static inline kvf_verdict kvf_table_enter(kvf_table *t, uint64_t address, uint64_t length, bool write,
                                          const kvf_visitor *who, kvf_span **entered) {
    kvf_verdict verdict = KVF_UNKNOWN;
    pthread_mutex_lock(&t->lock);
    uint64_t k = kvf_find_span(t->row, t->n, address);
    if (k < t->n) {
        kvf_span *s = t->row[k];
        bool there = s->offer != KVF_OFFER_NONE && kvf_audience_admits(&s->audience, who);
        if (!there) verdict = KVF_UNKNOWN;
        else if (length > s->length - (address - s->base)) verdict = KVF_LEAVES;
        else if (write && !kvf_span_takes_writes(s, who)) verdict = KVF_READONLY;
        else if (kvf_gate_enter(&s->gate) != KVF_ENTERED) verdict = KVF_STALE;
        else *entered = s, verdict = KVF_RESOLVED;
    }
    pthread_mutex_unlock(&t->lock);
    return verdict;
}

/* The first descriptor whose side leaves low .. high, for the error message; n when none does. */
static inline uint64_t kvf_first_outside(const kvf_descriptor *d, uint64_t n, kvf_side side,
                                         uint64_t low, uint64_t high) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t address = side == KVF_LOCAL ? d[i].local : d[i].remote;
        if (address < low || address > high || d[i].length > high - address) return i;
    }
    return n;
}

#endif

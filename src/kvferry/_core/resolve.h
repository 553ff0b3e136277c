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

#include "descriptor.h"
#include "gate.h"

typedef struct kvf_span {
    uint64_t base, length, delta;
    bool writable;
    kvf_gate gate;
} kvf_span;

static inline bool kvf_span_covers(const kvf_span *s, uint64_t low, uint64_t high) {
    return low >= s->base && high >= low && high - s->base <= s->length;
}

/* The place in the table of the span that holds `address`; `n` when there is none. */
static inline uint64_t kvf_find_span(kvf_span *const *table, uint64_t n, uint64_t address) {
    uint64_t low = 0, high = n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (table[middle]->base <= address) low = middle + 1;
        else high = middle;
    }
    if (!low || address - table[low - 1]->base >= table[low - 1]->length) return n;
    return low - 1;
}

typedef enum { KVF_LOCAL, KVF_REMOTE } kvf_side;

typedef enum {
    KVF_RESOLVED,
    KVF_UNKNOWN,  /* no region holds this address */
    KVF_LEAVES,   /* begins in a region and leaves it */
    KVF_READONLY, /* would be written, and may not */
    KVF_STALE,    /* the region was closed, revoked, or belongs to another epoch */
    KVF_NO_MEMORY,
} kvf_verdict;

/* Check one side of every descriptor against a table and add the relocation to `out` where it is
 * not NULL. `hits[k]` is set for every span that is used. On failure *index names the descriptor. */
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
            hits[found] = 1;
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

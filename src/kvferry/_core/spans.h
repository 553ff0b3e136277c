/* spans.h: ranges of this process that somebody registered, by address.
 *
 * Rows are sorted by where they begin. Ranges may overlap and be the same, so a row also tells how far
 * it and all before it reach: what lies in one range at least is what lies before the reach of the last
 * row that does not begin behind it. One thread at a time.
 *
 *   |-----------------|                row 0: reach = its end
 *       |----|                         row 1: reach = end of row 0
 *                 |-------------|      row 2: reach = its end
 */
#ifndef KVF_SPANS_H
#define KVF_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct kvf_range {
    uint64_t begin, end, reach;
} kvf_range;

typedef struct kvf_spans {
    kvf_range *rows;
    size_t n, room;
} kvf_spans;

/* How many rows do not begin behind it. */
static inline size_t kvf_spans_upto(const kvf_spans *s, uint64_t address) {
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->rows[middle].begin <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static inline void kvf_spans_reach(kvf_spans *s, size_t from) {
    for (size_t i = from; i < s->n; i++) {
        uint64_t before = i ? s->rows[i - 1].reach : 0;
        s->rows[i].reach = s->rows[i].end > before ? s->rows[i].end : before;
    }
}

static inline bool kvf_spans_grow(kvf_spans *s) {
    size_t room = s->room ? 2 * s->room : 8;
    kvf_range *rows = realloc(s->rows, room * sizeof *rows);
    if (!rows) return false;
    s->rows = rows, s->room = room;
    return true;
}

/* The range ends inside the address space. False: no memory. */
static inline bool kvf_spans_add(kvf_spans *s, uint64_t address, uint64_t length) {
    if (s->n == s->room && !kvf_spans_grow(s)) return false;
    size_t at = kvf_spans_upto(s, address);
    memmove(&s->rows[at + 1], &s->rows[at], (s->n - at) * sizeof *s->rows);
    s->rows[at] = (kvf_range){address, address + length, 0};
    s->n++;
    kvf_spans_reach(s, at);
    return true;
}

/* The last that was added of those that begin there. False: none does. */
static inline bool kvf_spans_drop(kvf_spans *s, uint64_t address) {
    size_t at = kvf_spans_upto(s, address);
    if (!at || s->rows[at - 1].begin != address) return false;
    memmove(&s->rows[at - 1], &s->rows[at], (s->n - at) * sizeof *s->rows);
    s->n--;
    kvf_spans_reach(s, at - 1);
    return true;
}

static inline bool kvf_spans_hold(const kvf_spans *s, uint64_t address, uint64_t length) {
    size_t upto = kvf_spans_upto(s, address);
    uint64_t reach = upto ? s->rows[upto - 1].reach : 0;
    return upto && address <= reach && length <= reach - address;
}

/* The first i that lies in no range; n: none. */
static inline size_t kvf_spans_stray(const kvf_spans *s, const uint64_t *addresses, const uint64_t *lengths,
                                     size_t n) {
    size_t i = 0;
    while (i < n && kvf_spans_hold(s, addresses[i], lengths[i])) i++;
    return i;
}

#endif

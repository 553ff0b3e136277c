/* cover.h: which bytes of a value have been written, in any order and any number of times.
 *
 * Sorted stretches that neither overlap nor touch each other: a value that is written from one end to
 * the other is one stretch all along. One thread at a time.
 */
#ifndef KVF_COVER_H
#define KVF_COVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct kvf_written {
    uint64_t begin, end;
} kvf_written;

typedef struct kvf_cover {
    kvf_written *rows;
    size_t n, room;
} kvf_cover;

/* The first stretch that does not end before `at`. */
static inline size_t kvf_cover_from(const kvf_cover *c, uint64_t at) {
    size_t low = 0, high = c->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->rows[middle].end < at) low = middle + 1;
        else high = middle;
    }
    return low;
}

static inline bool kvf_cover_grow(kvf_cover *c) {
    size_t room = c->room ? 2 * c->room : 4;
    kvf_written *rows = realloc(c->rows, room * sizeof *rows);
    if (!rows) return false;
    c->rows = rows, c->room = room;
    return true;
}

/* Bytes begin .. end were written. False: no memory, and nothing is noted. */
static inline bool kvf_cover_add(kvf_cover *c, uint64_t begin, uint64_t end) {
    if (begin == end) return true;
    if (c->n == c->room && !kvf_cover_grow(c)) return false;
    size_t first = kvf_cover_from(c, begin), after = first;
    for (; after < c->n && c->rows[after].begin <= end; after++) {
        if (c->rows[after].begin < begin) begin = c->rows[after].begin;
        if (c->rows[after].end > end) end = c->rows[after].end;
    }
    memmove(&c->rows[first + 1], &c->rows[after], (c->n - after) * sizeof *c->rows);
    c->n = first + 1 + c->n - after;
    c->rows[first] = (kvf_written){begin, end};
    return true;
}

/* All of its bytes? */
static inline bool kvf_cover_whole(const kvf_cover *c, uint64_t size) {
    return !size || (c->n == 1 && !c->rows[0].begin && c->rows[0].end >= size);
}

#endif

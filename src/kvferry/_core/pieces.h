/* pieces.h: values whose bytes lie in pieces, a row of them each.
 *
 *   starts      0        2  3           n + 1 words: row i has the pieces starts[i] .. starts[i + 1]
 *   addresses   a0  a1   a2
 *   lengths     l0  l1   l2
 *   offsets     o0  o1   o2             where in its value each piece lies
 *
 * The caller answers for the addresses.
 */
#ifndef KVF_PIECES_H
#define KVF_PIECES_H

#include "fill.h"

#define KVF_BEYOND (-1) /* a piece that does not lie in its value */

typedef struct kvf_pieces {
    const uint64_t *starts, *addresses, *lengths, *offsets;
    size_t n;
} kvf_pieces;

/* From none to `pieces`, never back. */
static inline bool kvf_starts_sound(const uint64_t *starts, size_t n, uint64_t pieces) {
    if (starts[0]) return false;
    for (size_t i = 0; i < n; i++)
        if (starts[i] > starts[i + 1]) return false;
    return starts[n] == pieces;
}

/* Pieces of a row follow each other: offsets, and the bytes of each row. The first row that has a piece
 * or a sum beyond the address space; n: none. */
static inline size_t kvf_pieces_lay(const kvf_pieces *p, uint64_t *offsets, uint64_t *sizes) {
    for (size_t i = 0; i < p->n; i++) {
        sizes[i] = 0;
        for (uint64_t j = p->starts[i]; j < p->starts[i + 1]; j++) {
            uint64_t length = p->lengths[j];
            if (p->addresses[j] + length < length || sizes[i] + length < length) return i;
            offsets[j] = sizes[i];
            sizes[i] += length;
        }
    }
    return p->n;
}

static inline bool kvf_piece_within(const kvf_pieces *p, uint64_t j, uint64_t size) {
    return p->offsets[j] <= size && p->lengths[j] <= size - p->offsets[j];
}

/* The first row with a piece beyond its room; n: none. */
static inline size_t kvf_pieces_misfit(const kvf_pieces *p, const uint64_t *rooms) {
    for (size_t i = 0; i < p->n; i++)
        for (uint64_t j = p->starts[i]; j < p->starts[i + 1]; j++)
            if (!kvf_piece_within(p, j, rooms[i])) return i;
    return p->n;
}

/* `run`: bytes that are copied together. */
static inline void kvf_piece_copy(const kvf_variant *nt, void *to, const void *from, uint64_t length,
                                  uint64_t run) {
    bool pays = run >= KVF_NT_RUN && length >= KVF_NT_PIECE;
    if (length) (pays ? nt : kvf_variants)->copy(to, from, length);
}

/* Row i to to[i], which has room for it. Visible to whoever sees what is stored afterwards. */
static inline void kvf_gather_all(const kvf_variant *nt, const kvf_pieces *p, const uint64_t *to,
                                  uint64_t run) {
    for (size_t i = 0; i < p->n; i++)
        for (uint64_t j = p->starts[i]; j < p->starts[i + 1]; j++)
            kvf_piece_copy(nt, (void *)(to[i] + p->offsets[j]), (const void *)p->addresses[j],
                           p->lengths[j], run);
}

/* A value over its row, as far as it goes. */
static inline void kvf_scatter(const kvf_variant *nt, const kvf_pieces *p, size_t row, const char *from,
                               uint64_t size, uint64_t run) {
    for (uint64_t j = p->starts[row]; j < p->starts[row + 1] && p->offsets[j] < size; j++) {
        uint64_t left = size - p->offsets[j];
        uint64_t length = p->lengths[j] < left ? p->lengths[j] : left;
        kvf_piece_copy(nt, (void *)p->addresses[j], from + p->offsets[j], length, run);
    }
}

/* Parts of a value: each that lies in it, whole; how many bytes, or BEYOND and untouched. */
static inline void kvf_pick(const kvf_variant *nt, const kvf_pieces *p, size_t row, const char *from,
                            uint64_t size, uint64_t run, int64_t *moved) {
    for (uint64_t j = p->starts[row]; j < p->starts[row + 1]; j++) {
        bool within = kvf_piece_within(p, j, size);
        moved[j] = within ? (int64_t)p->lengths[j] : KVF_BEYOND;
        if (within)
            kvf_piece_copy(nt, (void *)p->addresses[j], from + p->offsets[j], p->lengths[j], run);
    }
}

#endif

/* ghosts.h: a bounded memory of what is gone: a word for each of the last fingerprints it was told.
 *
 *   bucket   | 8 x print u32 | 8 x word u32 |   the newest first; the last makes way; print 0: nobody
 *
 * A fingerprint that is told again keeps its place. One unknown print in some 10^8 is taken for a
 * known one. Zeroed memory knows nothing.
 */
#ifndef KVF_GHOSTS_H
#define KVF_GHOSTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KVF_WAYS 8u

typedef struct kvf_ghost_bucket {
    uint32_t prints[KVF_WAYS], words[KVF_WAYS];
} kvf_ghost_bucket;

typedef struct kvf_ghosts {
    kvf_ghost_bucket *buckets;
    uint64_t mask; /* buckets - 1, which are a power of two */
} kvf_ghosts;

/* Buckets for so many fingerprints at least. */
static inline uint64_t kvf_ghost_buckets(uint64_t count) {
    uint64_t buckets = 1;
    while (buckets < UINT64_MAX / 2 / sizeof(kvf_ghost_bucket) && buckets * KVF_WAYS < count) buckets *= 2;
    return buckets;
}

/* What tells prints of one bucket apart. */
static inline uint32_t kvf_ghost_tag(uint64_t print) { return (uint32_t)(print >> 32) | 1; }

/* The word of a print; NULL: it is not known. */
static inline uint32_t *kvf_ghost_word(const kvf_ghosts *g, uint64_t print) {
    kvf_ghost_bucket *b = &g->buckets[print & g->mask];
    for (unsigned i = 0; i < KVF_WAYS; i++)
        if (b->prints[i] == kvf_ghost_tag(print)) return &b->words[i];
    return NULL;
}

static inline void kvf_ghost_add(kvf_ghosts *g, uint64_t print, uint32_t word) {
    kvf_ghost_bucket *b = &g->buckets[print & g->mask];
    memmove(b->prints + 1, b->prints, (KVF_WAYS - 1) * sizeof *b->prints);
    memmove(b->words + 1, b->words, (KVF_WAYS - 1) * sizeof *b->words);
    b->prints[0] = kvf_ghost_tag(print);
    b->words[0] = word;
}

static inline void kvf_ghosts_tell(kvf_ghosts *g, const uint64_t *prints, const uint32_t *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t *known = kvf_ghost_word(g, prints[i]);
        if (known) *known = words[i];
        else kvf_ghost_add(g, prints[i], words[i]);
    }
}

static inline void kvf_ghosts_recall(const kvf_ghosts *g, const uint64_t *prints, size_t n, uint32_t *words) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t *known = kvf_ghost_word(g, prints[i]);
        words[i] = known ? *known : 0;
    }
}

/* Whose word, a number that is counted on and on, is at most `most` before `now`. */
static inline void kvf_ghosts_recent(const kvf_ghosts *g, const uint64_t *prints, size_t n, uint32_t now,
                                     uint32_t most, uint8_t *recent) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t *known = kvf_ghost_word(g, prints[i]);
        recent[i] = known && now - *known <= most;
    }
}

#endif

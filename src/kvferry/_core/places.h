/* places.h: which nodes have a key. A table of one process; one thread at a time.
 *
 *   shards   64, by the top bits of a hash of the digest; each has its own rows and grows by itself,
 *            so that no verb ever waits for all rows to move
 *   row      | digest 16 | place u16 x 4 |      place: number of a node, 0: nobody; in no order
 *   wanted   u8 a row: 0 the row is empty, else how many nodes should have the key, 4 at most
 *
 * Rows of a shard are a power of two, probed one after the other, three in four of them used at most.
 * A row that lost its last place stays, so that others behind it are found, until its shard is built
 * anew; it counts as a row. The hash is seeded: whoever chooses digests cannot make them meet.
 */
#ifndef KVF_PLACES_H
#define KVF_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define KVF_PLACES 4u
#define KVF_SHARDS 64u
#define KVF_SHARD_ROWS 64u
#define KVF_NODES 65536u
#define KVF_PLACES_AHEAD 8u

typedef enum {
    KVF_PLACE_ADDED,
    KVF_PLACE_KNOWN,
    KVF_PLACE_CROWDED,
    KVF_PLACE_FULL,
    KVF_PLACE_DROPPED,
    KVF_PLACE_UNKNOWN
} kvf_place_code;

typedef struct kvf_row {
    uint64_t half[2];
    uint16_t place[KVF_PLACES];
} kvf_row;
_Static_assert(sizeof(kvf_row) == 24, "a row is 24 bytes");

typedef struct kvf_shard {
    kvf_row *rows;
    uint8_t *wanted;
    uint64_t size, used, idle; /* used: not empty; idle: of these, those without a place */
    uint64_t lacking;          /* with fewer places than are wanted, and one at least */
} kvf_shard;

typedef struct kvf_places {
    kvf_shard shards[KVF_SHARDS];
    kvf_secret seed;
    uint64_t rows, limit;
    uint64_t held[KVF_NODES]; /* how many keys each node has */
} kvf_places;

/* A row as it is told. */
typedef struct kvf_placed {
    kvf_digest digest;
    uint16_t place[KVF_PLACES];
    uint64_t wanted;
} kvf_placed;

static inline uint64_t kvf_place_hash(const kvf_places *p, kvf_digest d) {
    unsigned __int128 product =
        (unsigned __int128)(d.half[0] ^ p->seed.k0) * (d.half[1] ^ (p->seed.k1 | 1));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline kvf_shard *kvf_shard_of(kvf_places *p, uint64_t hash) { return &p->shards[hash >> 58]; }

static inline bool kvf_shard_make(kvf_shard *s, uint64_t size) {
    *s = (kvf_shard){.size = size, .rows = calloc(size, sizeof *s->rows), .wanted = calloc(size, 1)};
    return s->rows && s->wanted;
}

static inline void kvf_shard_free(kvf_shard *s) {
    free(s->rows);
    free(s->wanted);
}

static inline void kvf_places_free(kvf_places *p) {
    for (unsigned i = 0; i < KVF_SHARDS; i++) kvf_shard_free(&p->shards[i]);
}

/* False: there is no memory. To be freed either way. */
static inline bool kvf_places_make(kvf_places *p, uint64_t limit, kvf_secret seed) {
    bool made = true;
    memset(p, 0, sizeof *p);
    p->limit = limit;
    p->seed = seed;
    for (unsigned i = 0; i < KVF_SHARDS; i++) made &= kvf_shard_make(&p->shards[i], KVF_SHARD_ROWS);
    return made;
}

static inline unsigned kvf_row_count(const kvf_row *r) {
    unsigned n = 0;
    for (unsigned i = 0; i < KVF_PLACES; i++) n += r->place[i] != 0;
    return n;
}

static inline bool kvf_row_lacks(const kvf_shard *s, uint64_t at) {
    unsigned n = kvf_row_count(&s->rows[at]);
    return n && n < s->wanted[at];
}

/* The row of a digest, or the empty one where its row would begin. */
static inline uint64_t kvf_shard_seek(const kvf_shard *s, uint64_t hash, kvf_digest d) {
    uint64_t mask = s->size - 1, at = hash & mask;
    while (s->wanted[at] && (s->rows[at].half[0] != d.half[0] || s->rows[at].half[1] != d.half[1]))
        at = (at + 1) & mask;
    return at;
}

static inline uint16_t *kvf_row_find(kvf_row *r, uint16_t node) {
    for (unsigned i = 0; i < KVF_PLACES; i++)
        if (r->place[i] == node) return &r->place[i];
    return NULL;
}

/* The same rows in a shard of another size, without those that have no place. False: no memory;
 * nothing changed. */
static inline bool kvf_shard_rebuild(kvf_places *p, kvf_shard *s, uint64_t size) {
    kvf_shard made;
    if (!kvf_shard_make(&made, size)) {
        kvf_shard_free(&made);
        return false;
    }
    for (uint64_t at = 0; at < s->size; at++) {
        if (!s->wanted[at] || !kvf_row_count(&s->rows[at])) continue;
        kvf_digest d = {{s->rows[at].half[0], s->rows[at].half[1]}};
        uint64_t to = kvf_shard_seek(&made, kvf_place_hash(p, d), d);
        made.rows[to] = s->rows[at];
        made.wanted[to] = s->wanted[at];
    }
    made.used = s->used - s->idle;
    made.lacking = s->lacking;
    p->rows -= s->idle;
    kvf_shard_free(s);
    *s = made;
    return true;
}

/* Is there room for one row more? Rows without a place go when they are many, or in the way. */
static inline bool kvf_shard_make_room(kvf_places *p, kvf_shard *s) {
    bool dense = (s->used + 1) * 4 > s->size * 3;
    if (!dense && p->rows < p->limit) return true;
    if (!dense && s->idle * 8 < s->size) return false;
    if (p->rows - s->idle >= p->limit) return false;
    uint64_t size = (s->used - s->idle + 1) * 2 > s->size ? 2 * s->size : s->size;
    return kvf_shard_rebuild(p, s, size);
}

static inline kvf_place_code kvf_place_add(kvf_places *p, uint16_t node, kvf_digest d, uint8_t wanted) {
    uint64_t hash = kvf_place_hash(p, d), at;
    kvf_shard *s = kvf_shard_of(p, hash);
    at = kvf_shard_seek(s, hash, d);
    if (!s->wanted[at]) {
        if (!kvf_shard_make_room(p, s)) return KVF_PLACE_FULL;
        at = kvf_shard_seek(s, hash, d);
        s->rows[at] = (kvf_row){.half = {d.half[0], d.half[1]}};
        s->wanted[at] = 1;
        s->used++, s->idle++, p->rows++;
    }
    kvf_row *r = &s->rows[at];
    bool lacked = kvf_row_lacks(s, at), idle = !kvf_row_count(r), known = kvf_row_find(r, node);
    uint16_t *free_place = kvf_row_find(r, 0);
    wanted = wanted > KVF_PLACES ? KVF_PLACES : wanted ? wanted : 1;
    s->wanted[at] = idle || wanted > s->wanted[at] ? wanted : s->wanted[at];
    if (!known && free_place) {
        *free_place = node;
        p->held[node]++;
        s->idle -= idle;
    }
    s->lacking += (uint64_t)kvf_row_lacks(s, at) - lacked;
    return known ? KVF_PLACE_KNOWN : free_place ? KVF_PLACE_ADDED : KVF_PLACE_CROWDED;
}

static inline void kvf_row_leave(kvf_places *p, kvf_shard *s, uint64_t at, uint16_t *place) {
    bool lacked = kvf_row_lacks(s, at);
    p->held[*place]--;
    *place = 0;
    s->idle += !kvf_row_count(&s->rows[at]);
    s->lacking += (uint64_t)kvf_row_lacks(s, at) - lacked;
}

/* False: it was not there. */
static inline bool kvf_place_drop(kvf_places *p, uint16_t node, kvf_digest d) {
    uint64_t hash = kvf_place_hash(p, d);
    kvf_shard *s = kvf_shard_of(p, hash);
    uint64_t at = kvf_shard_seek(s, hash, d);
    uint16_t *place = s->wanted[at] ? kvf_row_find(&s->rows[at], node) : NULL;
    if (place) kvf_row_leave(p, s, at, place);
    return place;
}

static inline void kvf_places_expect(kvf_places *p, const kvf_digest *d, size_t i, size_t n) {
    if (i + KVF_PLACES_AHEAD >= n) return;
    uint64_t hash = kvf_place_hash(p, d[i + KVF_PLACES_AHEAD]);
    kvf_shard *s = kvf_shard_of(p, hash);
    __builtin_prefetch(&s->wanted[hash & (s->size - 1)], 0, 3);
    __builtin_prefetch(&s->rows[hash & (s->size - 1)], 0, 3);
}

/* What a node tells, in order: of how many nodes that should have a key it is one; 0: it has the key no
 * more. */
static inline void kvf_places_tell_all(kvf_places *p, uint16_t node, const kvf_digest *d,
                                       const uint8_t *wanted, size_t n, uint8_t *codes) {
    for (size_t i = 0; i < n; i++) {
        kvf_places_expect(p, d, i, n);
        codes[i] = (uint8_t)(wanted[i]                          ? kvf_place_add(p, node, d[i], wanted[i])
                             : kvf_place_drop(p, node, d[i]) ? KVF_PLACE_DROPPED
                                                             : KVF_PLACE_UNKNOWN);
    }
}

static inline void kvf_places_find_all(kvf_places *p, const kvf_digest *d, size_t n, uint16_t *places) {
    for (size_t i = 0; i < n; i++) {
        kvf_places_expect(p, d, i, n);
        uint64_t hash = kvf_place_hash(p, d[i]);
        const kvf_shard *s = kvf_shard_of(p, hash);
        const kvf_row *r = &s->rows[kvf_shard_seek(s, hash, d[i])];
        memcpy(places + i * KVF_PLACES, r->place, sizeof r->place); /* an empty row is zeroed */
    }
}

/* A node has nothing of one shard any more: how many keys it had there. */
static inline uint64_t kvf_shard_forget(kvf_places *p, unsigned shard, uint16_t node) {
    kvf_shard *s = &p->shards[shard];
    uint64_t n = 0;
    for (uint64_t at = 0; at < s->size && p->held[node]; at++) {
        uint16_t *place = s->wanted[at] ? kvf_row_find(&s->rows[at], node) : NULL;
        if (place) kvf_row_leave(p, s, at, place), n++;
    }
    return n;
}

/* Rows of one shard with a place at least, from row `start` on, `most` of them; only those that lack
 * one, or all. Where to go on is left in `start`. */
static inline size_t kvf_shard_tell(const kvf_places *p, unsigned shard, bool lacking, uint64_t *start,
                                    size_t most, kvf_placed *told) {
    const kvf_shard *s = &p->shards[shard];
    size_t n = 0;
    uint64_t at = *start;
    for (; at < s->size && n < most; at++) {
        if (!s->wanted[at] || (lacking ? !kvf_row_lacks(s, at) : !kvf_row_count(&s->rows[at]))) continue;
        told[n].digest = (kvf_digest){{s->rows[at].half[0], s->rows[at].half[1]}};
        memcpy(told[n].place, s->rows[at].place, sizeof told[n].place);
        told[n++].wanted = s->wanted[at];
    }
    *start = at;
    return n;
}

static inline uint64_t kvf_places_lacking(const kvf_places *p) {
    uint64_t n = 0;
    for (unsigned i = 0; i < KVF_SHARDS; i++) n += p->shards[i].lacking;
    return n;
}

static inline uint64_t kvf_places_idle(const kvf_places *p) {
    uint64_t n = 0;
    for (unsigned i = 0; i < KVF_SHARDS; i++) n += p->shards[i].idle;
    return n;
}

static inline uint64_t kvf_places_bytes(const kvf_places *p) {
    uint64_t n = sizeof *p;
    for (unsigned i = 0; i < KVF_SHARDS; i++) n += p->shards[i].size * (sizeof(kvf_row) + 1);
    return n;
}

#endif

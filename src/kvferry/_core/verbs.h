/* verbs.h: what the node does with its index: find, insert, mark, remove, scan. One thread at a time.
 *
 * An object leaves in this order: mark, look at all users' hazard lines, remove; only then is its
 * extent, when nobody holds its generation, used again.
 */
#ifndef KVF_VERBS_H
#define KVF_VERBS_H

#include "index.h"

#define KVF_GENERATIONS (1ull << 63) /* a generation is from 1 to below this */

enum { KVF_NOWHERE = -1, KVF_FULL = -2, KVF_PRESENT = -3 }; /* in the place of a slot */

/* An object as it is inserted and scanned. */
typedef struct kvf_object {
    uint64_t generation; /* 0: nobody */
    kvf_digest digest;
    uint64_t offset, length, room, attrs;
    uint32_t slot, marked;
} kvf_object;
_Static_assert(sizeof(kvf_object) == 64, "a row of the arrays that Python sees");

/* The same, column by column: a batch to insert. */
typedef struct kvf_rows {
    const kvf_digest *digests;
    const uint64_t *generations, *offsets, *lengths, *rooms, *attrs;
} kvf_rows;

static inline bool kvf_are_generations(const uint64_t *generations, size_t n) {
    bool all = true;
    for (size_t i = 0; i < n; i++) all &= generations[i] - 1 < KVF_GENERATIONS - 1;
    return all;
}

static inline void kvf_index_format(kvf_index *x) {
    kvf_store(&x->head->version, KVF_INDEX_VERSION);
    kvf_store(&x->head->buckets, x->buckets);
    kvf_store(&x->head->epoch, x->epoch);
    kvf_store(&x->head->magic, KVF_INDEX_MAGIC);
}

/* From now on every reader is told that the index is not the one it knows. */
static inline void kvf_index_retire(kvf_index *x) { kvf_store(&x->head->magic, 0); }

static inline uint64_t kvf_tag_at(const kvf_index *x, uint64_t slot) {
    return atomic_load_explicit(&x->entries[slot].tag, memory_order_relaxed);
}

static inline int64_t kvf_index_find(const kvf_index *x, kvf_digest d) {
    kvf_stay stay;
    return kvf_index_probe(x, d, &stay) ? (int64_t)stay.slot : KVF_NOWHERE;
}

static inline void kvf_index_find_all(const kvf_index *x, const kvf_digest *d, size_t n, int64_t *slots) {
    for (size_t i = 0; i < n; i++) {
        kvf_index_expect(x, d, i, n);
        slots[i] = kvf_index_find(x, d[i]);
    }
}

/* A print is 0 where the tag is; half a cache line tells of eight entries. */
static inline unsigned kvf_bucket_free(const kvf_index *x, uint64_t bucket, int64_t *first) {
    unsigned free = 0;
    for (unsigned i = KVF_BUCKET; i--;)
        if (kvf_print_at(x, bucket, i) == 0) free++, *first = (int64_t)(bucket * KVF_BUCKET + i);
    return free;
}

/* All slots where each could stand: those of its first bucket, then those of its second. */
static inline void kvf_index_rivals(const kvf_index *x, const kvf_digest *d, size_t n, int64_t *slots) {
    for (size_t i = 0; i < 2 * n; i++) {
        uint64_t first = kvf_bucket(x, d[i / 2], i % 2) * KVF_BUCKET;
        for (unsigned k = 0; k < KVF_BUCKET; k++) *slots++ = (int64_t)(first + k);
    }
}

/* A free slot in the emptier of the digest's two buckets. */
static inline int64_t kvf_index_room(const kvf_index *x, kvf_digest d) {
    int64_t first = KVF_FULL, second = KVF_FULL;
    unsigned one = kvf_bucket_free(x, kvf_bucket(x, d, 0), &first);
    unsigned two = kvf_bucket_free(x, kvf_bucket(x, d, 1), &second);
    return two > one ? second : first;
}

/* The tag follows its fields, and the fingerprint the tag. `expires`: ns since boot; 0: never. */
static inline int64_t kvf_index_insert(kvf_index *x, const kvf_object *o, uint64_t expires) {
    if (kvf_index_find(x, o->digest) != KVF_NOWHERE) return KVF_PRESENT;
    int64_t slot = kvf_index_room(x, o->digest);
    if (slot < 0) return slot;
    kvf_index_entry *e = &x->entries[slot];
    kvf_store(&e->digest[0], o->digest.half[0]);
    kvf_store(&e->digest[1], o->digest.half[1]);
    kvf_store(&e->offset, o->offset);
    kvf_store(&e->length, o->length);
    kvf_store(&e->room, o->room);
    kvf_store(&e->attrs, o->attrs);
    kvf_store(&e->expires, expires);
    kvf_store(&e->tag, kvf_tag(o->generation));
    atomic_store_explicit(&x->prints[slot / KVF_BUCKET][slot % KVF_BUCKET], kvf_print(o->digest),
                          memory_order_release);
    x->occupied++;
    return slot;
}

/* Slots, or why there is none: KVF_FULL, KVF_PRESENT. */
static inline void kvf_index_insert_all(kvf_index *x, const kvf_rows *r, size_t n, int64_t *slots) {
    for (size_t i = 0; i < n; i++) {
        kvf_index_expect(x, r->digests, i, n);
        kvf_object o = {.generation = r->generations[i], .digest = r->digests[i],
                        .offset = r->offsets[i], .length = r->lengths[i],
                        .room = r->rooms[i], .attrs = r->attrs[i]};
        slots[i] = kvf_index_insert(x, &o, 0);
    }
}

/* False when another stay, or none, or a marked one is there. */
static inline bool kvf_index_mark(kvf_index *x, int64_t slot, uint64_t generation) {
    if ((uint64_t)slot >= kvf_index_slots(x)) return false;
    uint64_t tag = kvf_tag_at(x, (uint64_t)slot);
    if (!kvf_stands(tag) || kvf_generation(tag) != generation) return false;
    atomic_store_explicit(&x->entries[slot].tag, tag | 1, memory_order_seq_cst);
    return true;
}

static inline void kvf_index_mark_all(kvf_index *x, const int64_t *slots, const uint64_t *generations,
                                      size_t n, uint8_t *done) {
    for (size_t i = 0; i < n; i++) done[i] = kvf_index_mark(x, slots[i], generations[i]);
}

/* False unless this stay is there, and marked. */
static inline bool kvf_index_remove(kvf_index *x, int64_t slot, uint64_t generation) {
    if ((uint64_t)slot >= kvf_index_slots(x)) return false;
    uint64_t tag = kvf_tag_at(x, (uint64_t)slot);
    if (!(tag & 1) || kvf_generation(tag) != generation) return false;
    kvf_store(&x->entries[slot].tag, 0);
    atomic_store_explicit(&x->prints[slot / KVF_BUCKET][slot % KVF_BUCKET], 0, memory_order_release);
    x->occupied--;
    return true;
}

static inline void kvf_index_remove_all(kvf_index *x, const int64_t *slots,
                                        const uint64_t *generations, size_t n, uint8_t *done) {
    for (size_t i = 0; i < n; i++) done[i] = kvf_index_remove(x, slots[i], generations[i]);
}

/* What is at `slot`, marked or not; generation 0: nobody, or no such slot. */
static inline kvf_object kvf_index_object(const kvf_index *x, int64_t slot) {
    uint64_t tag = (uint64_t)slot < kvf_index_slots(x) ? kvf_tag_at(x, (uint64_t)slot) : 0;
    if (!tag) return (kvf_object){.slot = (uint32_t)slot};
    const kvf_index_entry *e = &x->entries[slot];
    return (kvf_object){kvf_generation(tag),
                        {{kvf_load(&e->digest[0]), kvf_load(&e->digest[1])}},
                        kvf_load(&e->offset), kvf_load(&e->length), kvf_load(&e->room),
                        kvf_load(&e->attrs), (uint32_t)slot, tag & 1};
}

static inline void kvf_index_read_all(const kvf_index *x, const int64_t *slots, size_t n,
                                      kvf_object *out) {
    for (size_t i = 0; i < n; i++) out[i] = kvf_index_object(x, slots[i]);
}

/* Everything in slots start .. start + count - 1; how many there were. */
static inline size_t kvf_index_scan(const kvf_index *x, uint64_t start, uint64_t count, kvf_object *out) {
    size_t n = 0;
    for (uint64_t slot = start; slot < kvf_index_slots(x) && slot - start < count; slot++)
        if (kvf_tag_at(x, slot)) out[n++] = kvf_index_object(x, (int64_t)slot);
    return n;
}

#endif

/* index.h: where the objects of a store lie. The node writes it, users map it to read only.
 *
 *   head          one page: | magic | version | buckets | epoch |       u64 each
 *                 and in its next cache line | sweeping |               leases.h
 *   fingerprints  8 x u32 a bucket, 0 nobody: half a cache line to look at before any entry
 *   entries       8 a bucket, one cache line each, in 64-bit words:
 *                 | tag | digest (2) | offset | length | room | attrs | expires |
 *
 *   tag   | 63..1 generation | 0 marked |       0: nobody
 *   slot  bucket * 8 + position, below 2^32
 *   expires  ns since boot; 0: never
 *
 * A generation names one stay of one object and is never used again. Each half of a digest names a
 * bucket; an object stands in the emptier of the two, and never moves. Zeroed memory is empty.
 *
 * An entry is a seqlock by its tag. The node's stores are releases and a reader's loads acquires, so
 * that whoever saw a field of a later stay sees a later tag, too, when it looks again. How a reader
 * keeps an extent from being used again is told in reader.h.
 *
 * A reader trusts nothing it finds: places follow from the length of the memory alone.
 */
#ifndef KVF_INDEX_H
#define KVF_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hash.h"

#define KVF_INDEX_MAGIC 0x7865646e4966766bull /* "kvfIndex" */
#define KVF_INDEX_VERSION 1ull
#define KVF_INDEX_PAGE 4096ull
#define KVF_BUCKET 8u
#define KVF_SLOTS_MAX (1ull << 32)
#define KVF_KEYS_AHEAD 8u

typedef struct kvf_index_head {
    _Atomic uint64_t magic, version, buckets, epoch;
    _Alignas(64) _Atomic uint64_t sweeping; /* 1: the node chooses who leaves */
} kvf_index_head;

typedef _Atomic uint32_t kvf_prints[KVF_BUCKET];

typedef struct kvf_index_entry {
    _Atomic uint64_t tag, digest[2], offset, length, room, attrs, expires;
} kvf_index_entry;
_Static_assert(sizeof(kvf_index_entry) == 64, "an entry is one cache line");

/* Process-private: where the parts lie, and what is expected in the head. */
typedef struct kvf_index {
    kvf_index_head *head;
    kvf_prints *prints;
    kvf_index_entry *entries;
    uint64_t buckets, epoch;
    uint64_t occupied; /* the node's own count */
} kvf_index;

/* One stay of one object, as a reader found it. */
typedef struct kvf_stay {
    uint64_t slot, tag, offset, length;
} kvf_stay;

#define KVF_BUCKET_BYTES (sizeof(kvf_prints) + KVF_BUCKET * sizeof(kvf_index_entry))

/* An even number of buckets, so that entries begin at a cache line. */
static inline uint64_t kvf_index_bytes(uint64_t capacity) {
    uint64_t pairs = (capacity + 2 * KVF_BUCKET - 1) / (2 * KVF_BUCKET);
    return KVF_INDEX_PAGE + (pairs ? pairs : 1) * 2 * KVF_BUCKET_BYTES;
}

static inline uint64_t kvf_index_buckets(uint64_t bytes) {
    uint64_t pairs = bytes < KVF_INDEX_PAGE ? 0 : (bytes - KVF_INDEX_PAGE) / (2 * KVF_BUCKET_BYTES);
    uint64_t most = KVF_SLOTS_MAX / (2 * KVF_BUCKET);
    return 2 * (pairs < most ? pairs : most);
}

/* False: this cannot be an index: not aligned to a cache line, or not a pair of buckets long. */
static inline bool kvf_index_at(kvf_index *x, uintptr_t base, uint64_t bytes, uint64_t epoch) {
    uint64_t buckets = kvf_index_buckets(bytes);
    uintptr_t prints = base + KVF_INDEX_PAGE;
    *x = (kvf_index){(kvf_index_head *)base, (kvf_prints *)prints,
                     (kvf_index_entry *)(prints + buckets * sizeof(kvf_prints)), buckets, epoch, 0};
    return buckets && base % 64 == 0;
}

static inline uint64_t kvf_index_slots(const kvf_index *x) { return x->buckets * KVF_BUCKET; }

static inline uint64_t kvf_load(const _Atomic uint64_t *word) {
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline void kvf_store(_Atomic uint64_t *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_release);
}

/* Is this the memory that was expected: of this layout, and of this run of the node? */
static inline bool kvf_index_ours(const kvf_index *x) {
    const kvf_index_head *head = x->head;
    return kvf_load(&head->magic) == KVF_INDEX_MAGIC && kvf_load(&head->epoch) == x->epoch &&
           kvf_load(&head->version) == KVF_INDEX_VERSION && kvf_load(&head->buckets) == x->buckets;
}

static inline uint64_t kvf_tag(uint64_t generation) { return generation << 1; }
static inline uint64_t kvf_generation(uint64_t tag) { return tag >> 1; }
static inline bool kvf_stands(uint64_t tag) { return tag && !(tag & 1); }

static inline uint32_t kvf_print(kvf_digest d) { return (uint32_t)d.half[0] | 1; }

/* Scales the high half of a word to the number of buckets. */
static inline uint64_t kvf_bucket(const kvf_index *x, kvf_digest d, int which) {
    return (d.half[which] >> 32) * x->buckets >> 32;
}

static inline uint32_t kvf_print_at(const kvf_index *x, uint64_t bucket, unsigned position) {
    return atomic_load_explicit(&x->prints[bucket][position], memory_order_acquire);
}

/* Does the digest stand at `slot`? Then `stay` says how, if its tag is the same still. */
static inline bool kvf_index_look(const kvf_index *x, uint64_t slot, kvf_digest d, kvf_stay *stay) {
    const kvf_index_entry *e = &x->entries[slot];
    stay->slot = slot;
    stay->tag = kvf_load(&e->tag);
    if (!kvf_stands(stay->tag)) return false;
    if (kvf_load(&e->digest[0]) != d.half[0] || kvf_load(&e->digest[1]) != d.half[1]) return false;
    stay->offset = kvf_load(&e->offset);
    stay->length = kvf_load(&e->length);
    return true;
}

static inline bool kvf_index_probe(const kvf_index *x, kvf_digest d, kvf_stay *stay) {
    uint32_t print = kvf_print(d);
    for (int which = 0; which < 2; which++) {
        uint64_t bucket = kvf_bucket(x, d, which);
        for (unsigned i = 0; i < KVF_BUCKET; i++)
            if (kvf_print_at(x, bucket, i) == print &&
                kvf_index_look(x, bucket * KVF_BUCKET + i, d, stay))
                return true;
    }
    return false;
}

/* The entry that a probe looks at first; NULL: at none. */
static inline const kvf_index_entry *kvf_index_candidate(const kvf_index *x, kvf_digest d) {
    uint32_t print = kvf_print(d);
    for (int which = 0; which < 2; which++) {
        uint64_t bucket = kvf_bucket(x, d, which);
        for (unsigned i = 0; i < KVF_BUCKET; i++)
            if (kvf_print_at(x, bucket, i) == print) return &x->entries[bucket * KVF_BUCKET + i];
    }
    return NULL;
}

static inline void kvf_index_expect_prints(const kvf_index *x, kvf_digest d) {
    __builtin_prefetch(&x->prints[kvf_bucket(x, d, 0)], 0, 3);
    __builtin_prefetch(&x->prints[kvf_bucket(x, d, 1)], 0, 3);
}

/* Called with i = 0, 1, ... of a batch: asks for the fingerprints of a key some places ahead, and for
 * the entry of one half as far. */
static inline void kvf_index_expect(const kvf_index *x, const kvf_digest *d, size_t i, size_t n) {
    size_t far = i ? i + 2 * KVF_KEYS_AHEAD : 0, near = i + KVF_KEYS_AHEAD;
    for (size_t k = far; k < n && k <= i + 2 * KVF_KEYS_AHEAD; k++) kvf_index_expect_prints(x, d[k]);
    if (near < n) __builtin_prefetch(kvf_index_candidate(x, d[near]), 0, 3);
}

/* Is it the same stay still, and unmarked? What was read before belongs to it then. */
static inline bool kvf_index_recheck(const kvf_index *x, const kvf_stay *stay) {
    return atomic_load_explicit(&x->entries[stay->slot].tag, memory_order_seq_cst) == stay->tag;
}

#endif

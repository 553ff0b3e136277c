/* ledger.h: the part of a catalog that a put waits for. What was written becomes an object of the
 * index here; the catalog hears of it later, many at a time. One thread at a time.
 *
 *   arrivals  what was stored    | generation | print | room | expires | slot u32 | parent u32 |
 *   returned  extents of keys that were there already
 *   refused   keys that were not stored and will not be
 *
 * Until the catalog has taken them, nothing that arrived leaves. All three are of fixed size:
 * committing allocates nothing. Without room for one more of the first two, the catalog has to be
 * asked, as when the index is full; of `refused` the rest is lost.
 */
#ifndef KVF_LEDGER_H
#define KVF_LEDGER_H

#include "attempts.h"
#include "verbs.h"

#define KVF_ARRIVALS 4096u
#define KVF_NODE 0ull /* the user that the node itself is */

/* The numbers of answers.py. Those from TOO_LARGE on refuse. */
typedef enum kvf_said {
    KVF_SAY_STORED = 0,
    KVF_SAY_PRESENT = 1,    /* the attempt is over, its extent is free again */
    KVF_SAY_ABORTED = 3,
    KVF_SAY_FOUND = 4,
    KVF_SAY_ABSENT = 6,
    KVF_SAY_TOO_LARGE = 7,  /* for the extent; the attempt stands */
    KVF_SAY_INDEX_FULL = 12, /* the catalog may still find a way; the attempt stands */
    KVF_SAY_LATE = 13,
    KVF_SAY_UNKNOWN = 14,
    KVF_SAY_TOO_SMALL = 16, /* the destination, in which nothing was written */
} kvf_said;

/* What was written, and where. */
typedef struct kvf_commit {
    uint64_t attempt;
    kvf_digest digest;
    uint64_t length, attrs;
    kvf_digest parent; /* without which it is of no use; its own digest: none */
    uint64_t expires;  /* ns of the clock since boot; 0: never */
} kvf_commit;
_Static_assert(sizeof(kvf_commit) == 64, "a record that users hand over");

/* The same, column by column. NULL: attrs are 0, nobody has a parent, nothing expires. */
typedef struct kvf_commits {
    const uint64_t *attempts;
    const kvf_digest *digests;
    const uint64_t *lengths, *attrs;
    const kvf_digest *parents;
    const uint64_t *expires;
} kvf_commits;

typedef struct kvf_arrival {
    uint64_t generation, print, room, expires;
    uint32_t slot, parent; /* parent: its slot, or the object's own */
} kvf_arrival;
_Static_assert(sizeof(kvf_arrival) == 40, "a row of the arrays that Python sees");

typedef struct kvf_told {
    kvf_arrival arrivals[KVF_ARRIVALS];
    kvf_extent returned[KVF_ARRIVALS];
    kvf_digest refused[KVF_ARRIVALS];
} kvf_told;

typedef struct kvf_ledger {
    kvf_index *index;
    const kvf_index *beside; /* what is there, too, such as on a disk; NULL: nothing */
    uint64_t entries_high; /* so many entries may be in use */
    uint64_t generation;   /* of the next object */
    kvf_attempts attempts;
    kvf_told *told;
    uint32_t arrivals_n, returned_n, refused_n;
} kvf_ledger;

/* False: no memory. The index stays as long as the ledger. */
static inline bool kvf_ledger_make(kvf_ledger *l, kvf_index *index, uint64_t entries_high) {
    *l = (kvf_ledger){.index = index, .entries_high = entries_high, .generation = 1,
                      .attempts = kvf_attempts_none(), .told = malloc(sizeof(kvf_told))};
    return l->told != NULL;
}

static inline void kvf_ledger_free(kvf_ledger *l) {
    kvf_attempts_free(&l->attempts);
    free(l->told);
    l->told = NULL;
}

static inline uint8_t kvf_ledger_refuse(kvf_ledger *l, kvf_digest d, kvf_said said) {
    if (l->refused_n < KVF_ARRIVALS) l->told->refused[l->refused_n++] = d;
    return (uint8_t)said;
}

/* Does it lie beside? Then it is present, and nobody but the node itself, who has it from there, brings it in. */
static inline bool kvf_ledger_beside(const kvf_ledger *l, uint64_t user, kvf_digest d) {
    return l->beside && user != KVF_NODE && kvf_index_find(l->beside, d) != KVF_NOWHERE;
}

/* A slot; KVF_PRESENT; KVF_FULL, also when more entries would be in use than may. */
static inline int64_t kvf_ledger_insert(kvf_ledger *l, const kvf_commit *c, kvf_extent extent) {
    if (l->index->occupied >= l->entries_high)
        return kvf_index_find(l->index, c->digest) == KVF_NOWHERE ? KVF_FULL : KVF_PRESENT;
    kvf_object o = {.generation = l->generation, .digest = c->digest, .offset = extent.offset,
                    .length = c->length, .room = extent.room, .attrs = c->attrs};
    return kvf_index_insert(l->index, &o, c->expires);
}

static inline uint32_t kvf_ledger_parent(const kvf_ledger *l, const kvf_commit *c, int64_t slot) {
    if (memcmp(&c->parent, &c->digest, sizeof c->parent) == 0) return (uint32_t)slot;
    int64_t parent = kvf_index_find(l->index, c->parent);
    return (uint32_t)(parent < 0 ? slot : parent);
}

static inline void kvf_ledger_tell(kvf_ledger *l, const kvf_commit *c, int64_t slot, uint64_t room) {
    l->told->arrivals[l->arrivals_n++] = (kvf_arrival){
        l->generation++, c->digest.half[1], room, c->expires,
        (uint32_t)slot,  kvf_ledger_parent(l, c, slot)};
}

/* What is said of it. The record may not change meanwhile. */
static inline uint8_t kvf_ledger_commit(kvf_ledger *l, uint64_t user, const kvf_commit *c) {
    uint32_t row;
    kvf_attempt_state state = kvf_attempt_find(&l->attempts, user, c->attempt, &row);
    if (state == KVF_STRANGE) return kvf_ledger_refuse(l, c->digest, KVF_SAY_UNKNOWN);
    if (state != KVF_RESERVED) return kvf_ledger_refuse(l, c->digest, KVF_SAY_LATE);
    kvf_extent extent = l->attempts.rows[row].extent;
    if (c->length > extent.room) return kvf_ledger_refuse(l, c->digest, KVF_SAY_TOO_LARGE);
    if (l->arrivals_n == KVF_ARRIVALS || l->returned_n == KVF_ARRIVALS) return KVF_SAY_INDEX_FULL;
    bool beside = kvf_ledger_beside(l, user, c->digest);
    int64_t slot = beside ? KVF_PRESENT : kvf_ledger_insert(l, c, extent);
    if (slot == KVF_FULL) return KVF_SAY_INDEX_FULL;
    kvf_attempt_close(&l->attempts, row);
    if (slot == KVF_PRESENT) {
        l->told->returned[l->returned_n++] = extent;
        return KVF_SAY_PRESENT;
    }
    kvf_ledger_tell(l, c, slot, extent.room);
    return KVF_SAY_STORED;
}

static inline kvf_commit kvf_commit_at(const kvf_commits *c, size_t i) {
    return (kvf_commit){c->attempts[i], c->digests[i], c->lengths[i], c->attrs ? c->attrs[i] : 0,
                        c->parents ? c->parents[i] : c->digests[i], c->expires ? c->expires[i] : 0};
}

/* One after the other: of an attempt or a key that occurs twice, the later one comes too late. */
static inline void kvf_ledger_commit_all(kvf_ledger *l, uint64_t user, const kvf_commits *c, size_t n,
                                         uint8_t *answers) {
    for (size_t i = 0; i < n; i++) {
        kvf_index_expect(l->index, c->digests, i, n);
        kvf_commit one = kvf_commit_at(c, i);
        answers[i] = kvf_ledger_commit(l, user, &one);
    }
}

/* The user will not write there any more. How many extents became free, and their places. */
static inline size_t kvf_ledger_abort_all(kvf_ledger *l, uint64_t user, const uint64_t *attempts, size_t n,
                                          uint8_t *answers, uint64_t *offsets, uint64_t *rooms) {
    static const uint8_t said[] = {KVF_SAY_LATE, KVF_SAY_ABORTED, KVF_SAY_ABORTED, KVF_SAY_UNKNOWN};
    size_t freed = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t row;
        answers[i] = said[kvf_attempt_find(&l->attempts, user, attempts[i], &row)];
        if (answers[i] != KVF_SAY_ABORTED) continue;
        kvf_extent extent = kvf_attempt_close(&l->attempts, row);
        offsets[freed] = extent.offset, rooms[freed++] = extent.room;
    }
    return freed;
}

#endif

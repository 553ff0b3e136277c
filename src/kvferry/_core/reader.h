/* reader.h: a user reads objects where they lie, and asks nobody.
 *
 *   reader                                         node
 *   probe: tag, place in the pool                  mark the entry              (seq_cst)
 *   publish the generation in its line  (seq_cst)  look at all users' lines    (seq_cst)
 *   recheck: the tag is the same        (seq_cst)  held: the extent waits; else it is used again
 *   copy; clear the line                (release)
 *
 * Of the two stores, publish and mark, one comes first in the order of all seq_cst accesses, and the
 * load of the other side sees it: the reader sees the mark, or the node the generation. A line the node
 * sees cleared was cleared after the copy. tests/_core/test_interleavings.py walks all of it.
 *
 * Whatever bytes the index holds, nothing outside the pool is read, and nothing beyond the caller's room
 * is written.
 */
#ifndef KVF_READER_H
#define KVF_READER_H

#include "copy.h"
#include "lines.h"

/* An object that leaves, or is stored anew, this often in one read is not read. */
#define KVF_READ_TRIES 16

typedef enum {
    KVF_HIT,
    KVF_ABSENT,
    KVF_TOO_SMALL, /* nothing was written; the length is told */
    KVF_CHANGING,
    KVF_NO_LINE,
    KVF_FOREIGN, /* the index is of another layout, or of another run of the node */
    KVF_CORRUPT, /* the index names a place outside the pool */
    KVF_BESIDE   /* it is not here, and lies on a disk of the node */
} kvf_read_code;

typedef struct kvf_index_reader {
    kvf_index index;
    kvf_index beside; /* of the disk; without buckets: there is none */
    kvf_lines *lines;
    const char *pool;
    uint64_t pool_length;
    const kvf_variant *nt;
    kvf_hold *hold; /* test point before each copy; may be NULL */
} kvf_index_reader;

static inline bool kvf_in_pool(const kvf_index_reader *r, const kvf_stay *stay) {
    return stay->offset <= r->pool_length && stay->length <= r->pool_length - stay->offset;
}

/* Of what is in memory no more. What comes from the disk stays there, so this is asked last. */
static inline kvf_read_code kvf_absent(const kvf_index_reader *r, kvf_digest d) {
    kvf_stay stay;
    bool there = r->beside.buckets && kvf_index_ours(&r->beside) && kvf_index_probe(&r->beside, d, &stay) &&
                 kvf_index_recheck(&r->beside, &stay);
    return there ? KVF_BESIDE : KVF_ABSENT;
}

/* Find the object and let `line` name it: a HIT stays where it lies until the line is cleared. */
static inline kvf_read_code kvf_grasp(kvf_index_reader *r, kvf_hazard *line, kvf_digest d, kvf_stay *stay) {
    for (int i = 0; i < KVF_READ_TRIES; i++) {
        if (!kvf_index_probe(&r->index, d, stay)) return kvf_absent(r, d);
        kvf_publish(line, kvf_generation(stay->tag));
        if (kvf_index_recheck(&r->index, stay)) {
            if (kvf_in_pool(r, stay)) return KVF_HIT;
            kvf_clear(line);
            return KVF_CORRUPT;
        }
        kvf_clear(line);
        kvf_count(r->lines, KVF_RETRIES, 1);
    }
    return KVF_CHANGING;
}

static inline void kvf_read_hit(kvf_index_reader *r, const kvf_stay *stay) {
    kvf_count(r->lines, KVF_HITS, 1);
    kvf_count(r->lines, KVF_HIT_BYTES, stay->length);
    kvf_touch(r->lines, stay);
}

static inline void kvf_read_missed(kvf_index_reader *r, kvf_read_code code, uint64_t times) {
    static const kvf_counter counter[] = {
        [KVF_ABSENT] = KVF_ABSENTS,     [KVF_TOO_SMALL] = KVF_TOO_SMALLS, [KVF_NO_LINE] = KVF_NO_LINES,
        [KVF_CHANGING] = KVF_CHANGINGS, [KVF_CORRUPT] = KVF_CORRUPTS,
    };
    if (code != KVF_FOREIGN && code != KVF_BESIDE) kvf_count(r->lines, counter[code], times);
}

/* Of one key, whose absence the node may want to explain. */
static inline void kvf_read_missed_one(kvf_index_reader *r, kvf_read_code code, kvf_digest d) {
    kvf_read_missed(r, code, 1);
    if (code == KVF_ABSENT) kvf_miss(r->lines, d);
}

/* `run`: bytes that are read together. */
static inline void kvf_read_copy(const kvf_index_reader *r, const kvf_stay *stay, void *to, uint64_t run) {
    if (r->hold && atomic_load_explicit(&r->hold->held, memory_order_relaxed)) kvf_wait_held(r->hold);
    bool pays = run >= KVF_NT_RUN && stay->length >= KVF_NT_PIECE;
    const kvf_variant *v = pays ? r->nt : kvf_variants;
    if (stay->length) v->copy(to, r->pool + stay->offset, stay->length);
}

static inline kvf_read_code kvf_read_one(kvf_index_reader *r, kvf_hazard *line, kvf_digest d, void *to,
                                         uint64_t room, uint64_t run, uint64_t *length) {
    kvf_stay stay;
    *length = 0;
    kvf_read_code code = kvf_grasp(r, line, d, &stay);
    if (code == KVF_HIT) {
        *length = stay.length;
        if (stay.length > room) code = KVF_TOO_SMALL;
        else kvf_read_copy(r, &stay, to, run);
        kvf_clear(line);
    }
    if (code == KVF_HIT) kvf_read_hit(r, &stay);
    else kvf_read_missed_one(r, code, d);
    return code;
}

static inline uint64_t kvf_sum(const uint64_t *words, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += words[i];
    return sum;
}

/* The same answer for all, and why they got no other. */
static inline void kvf_read_none(kvf_index_reader *r, size_t n, kvf_read_code code, uint8_t *codes,
                                 uint64_t *lengths) {
    memset(codes, code, n);
    memset(lengths, 0, n * sizeof *lengths);
    kvf_read_missed(r, code, n);
}

/* Object d[i] to address to[i], where there is room for so many bytes. */
static inline void kvf_read_all(kvf_index_reader *r, const kvf_digest *d, const uint64_t *to,
                                const uint64_t *rooms, size_t n, uint8_t *codes, uint64_t *lengths) {
    if (!kvf_index_ours(&r->index)) return kvf_read_none(r, n, KVF_FOREIGN, codes, lengths);
    kvf_hazard *line = kvf_claim(r->lines);
    if (!line) return kvf_read_none(r, n, KVF_NO_LINE, codes, lengths);
    uint64_t run = kvf_sum(rooms, n);
    for (size_t i = 0; i < n; i++) {
        kvf_index_expect(&r->index, d, i, n);
        codes[i] = (uint8_t)kvf_read_one(r, line, d[i], (void *)to[i], rooms[i], run, &lengths[i]);
    }
    kvf_give_back(r->lines, line);
}

/* HIT, also of what lies beside, ABSENT or FOREIGN each. Neither counted nor a touch: nothing was
 * read. */
static inline void kvf_exists_all(const kvf_index_reader *r, const kvf_digest *d, size_t n, uint8_t *codes) {
    if (!kvf_index_ours(&r->index)) {
        memset(codes, KVF_FOREIGN, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        kvf_stay stay;
        kvf_index_expect(&r->index, d, i, n);
        bool there = kvf_index_probe(&r->index, d[i], &stay) && kvf_index_recheck(&r->index, &stay);
        codes[i] = there || kvf_absent(r, d[i]) == KVF_BESIDE ? KVF_HIT : KVF_ABSENT;
    }
}

/* A HIT stays where it lies until kvf_let_go of the line. */
static inline kvf_read_code kvf_hold_one(kvf_index_reader *r, kvf_digest d, kvf_stay *stay, uint64_t *line) {
    if (!kvf_index_ours(&r->index)) return KVF_FOREIGN;
    kvf_hazard *h = kvf_claim(r->lines);
    kvf_read_code code = h ? kvf_grasp(r, h, d, stay) : KVF_NO_LINE;
    if (code == KVF_HIT) {
        kvf_read_hit(r, stay);
        *line = (uint64_t)(h - r->lines->memory->hazards);
        return code;
    }
    if (h) kvf_give_back(r->lines, h);
    kvf_read_missed_one(r, code, d);
    return code;
}

/* False when the line does not name this generation. */
static inline bool kvf_let_go(kvf_lines *l, uint64_t line, uint64_t generation) {
    if (line >= l->n || !generation) return false;
    kvf_hazard *h = &l->memory->hazards[line];
    if (atomic_load_explicit(&h->generation, memory_order_relaxed) != generation) return false;
    kvf_give_back(l, h);
    return true;
}

#endif

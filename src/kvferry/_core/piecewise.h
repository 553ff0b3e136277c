/* piecewise.h: objects, or parts of them, into pieces: from where they lie, as reader.h does it, and
 * from a cargo, as locate.h does it. */
#ifndef KVF_PIECEWISE_H
#define KVF_PIECEWISE_H

#include "locate.h"
#include "pieces.h"
#include "reader.h"

static inline void kvf_counted(kvf_index_reader *r, kvf_read_code code, const kvf_stay *stay, kvf_digest d) {
    if (code == KVF_HIT) kvf_read_hit(r, stay);
    else kvf_read_missed_one(r, code, d);
}

static inline const char *kvf_held_at(const kvf_index_reader *r, const kvf_stay *stay) {
    if (r->hold && atomic_load_explicit(&r->hold->held, memory_order_relaxed)) kvf_wait_held(r->hold);
    return r->pool + stay->offset;
}

static inline kvf_read_code kvf_scatter_one(kvf_index_reader *r, kvf_hazard *line, kvf_digest d,
                                            const kvf_pieces *p, size_t row, uint64_t room, uint64_t run,
                                            uint64_t *length) {
    kvf_stay stay;
    *length = 0;
    kvf_read_code code = kvf_grasp(r, line, d, &stay);
    if (code == KVF_HIT) {
        *length = stay.length;
        if (stay.length > room) code = KVF_TOO_SMALL;
        else kvf_scatter(r->nt, p, row, kvf_held_at(r, &stay), stay.length, run);
        kvf_clear(line);
    }
    kvf_counted(r, code, &stay, d);
    return code;
}

static inline kvf_read_code kvf_pick_one(kvf_index_reader *r, kvf_hazard *line, kvf_digest d,
                                         const kvf_pieces *p, size_t row, uint64_t run, uint64_t *length,
                                         int64_t *moved) {
    kvf_stay stay;
    *length = 0;
    kvf_read_code code = kvf_grasp(r, line, d, &stay);
    if (code == KVF_HIT) {
        *length = stay.length;
        kvf_pick(r->nt, p, row, kvf_held_at(r, &stay), stay.length, run, moved);
        kvf_clear(line);
    }
    kvf_counted(r, code, &stay, d);
    return code;
}

/* A line for all of them; NULL: none is read, and each is told why. */
static inline kvf_hazard *kvf_claim_for_all(kvf_index_reader *r, size_t n, uint8_t *codes,
                                            uint64_t *lengths) {
    bool ours = kvf_index_ours(&r->index);
    kvf_hazard *line = ours ? kvf_claim(r->lines) : NULL;
    if (!line) kvf_read_none(r, n, ours ? KVF_NO_LINE : KVF_FOREIGN, codes, lengths);
    return line;
}

/* Object d[i] over row i, which has rooms[i] bytes. */
static inline void kvf_scatter_all(kvf_index_reader *r, const kvf_digest *d, const kvf_pieces *p,
                                   const uint64_t *rooms, uint64_t run, uint8_t *codes,
                                   uint64_t *lengths) {
    kvf_hazard *line = kvf_claim_for_all(r, p->n, codes, lengths);
    if (!line) return;
    for (size_t i = 0; i < p->n; i++) {
        kvf_index_expect(&r->index, d, i, p->n);
        codes[i] = (uint8_t)kvf_scatter_one(r, line, d[i], p, i, rooms[i], run, &lengths[i]);
    }
    kvf_give_back(r->lines, line);
}

/* Of object d[i] what row i asks for. `moved` holds BEYOND for all before. */
static inline void kvf_pick_all(kvf_index_reader *r, const kvf_digest *d, const kvf_pieces *p, uint64_t run,
                                uint8_t *codes, uint64_t *lengths, int64_t *moved) {
    kvf_hazard *line = kvf_claim_for_all(r, p->n, codes, lengths);
    if (!line) return;
    for (size_t i = 0; i < p->n; i++) {
        kvf_index_expect(&r->index, d, i, p->n);
        codes[i] = (uint8_t)kvf_pick_one(r, line, d[i], p, i, run, &lengths[i], moved);
    }
    kvf_give_back(r->lines, line);
}

/* Object i from the cargo over row i, which has rooms[i] bytes, else it is TOO_SMALL. Returns how many
 * `left` names: found, fitting, not aboard. Of sound columns alone. */
static inline size_t kvf_unload_rows(kvf_sites *s, const char *cargo, const kvf_variant *nt,
                                     const kvf_pieces *p, const uint64_t *rooms, int64_t *left) {
    uint64_t at = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (!kvf_found(s, i)) continue;
        bool aboard = kvf_aboard(s->lengths[i], at);
        if (s->lengths[i] > rooms[i]) s->answers[i] = KVF_SAY_TOO_SMALL;
        else if (aboard) kvf_scatter(nt, p, i, cargo + at, s->lengths[i], KVF_CARGO);
        else left[n++] = (int64_t)i;
        if (aboard) at += s->lengths[i];
    }
    return n;
}

/* Of object i what row i asks for. */
static inline size_t kvf_unload_parts(const kvf_sites *s, const char *cargo, const kvf_variant *nt,
                                      const kvf_pieces *p, int64_t *moved, int64_t *left) {
    uint64_t at = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (!kvf_found(s, i)) continue;
        if (kvf_aboard(s->lengths[i], at)) {
            kvf_pick(nt, p, i, cargo + at, s->lengths[i], KVF_CARGO, moved);
            at += s->lengths[i];
        } else {
            left[n++] = (int64_t)i;
        }
    }
    return n;
}

#endif

/* locate.h: where objects lie, for a user that reads them from afar; small ones come with the answer.
 *
 *   columns  of each key: | answer u8 |, | offset u64 |, | length u64 |
 *   cargo    | object | object | ...        the bytes of small ones, in the order of their keys
 *
 * An object that was found is aboard when it is of KVF_BRIEF bytes at most, and there is room for it:
 * the cargo has KVF_CARGO bytes at most. Both ends reckon so from the columns; nothing else says it.
 *
 * The node looks and copies under the lock without which nothing leaves, so no byte is torn. The user
 * trusts no column before kvf_sites_sound.
 */
#ifndef KVF_LOCATE_H
#define KVF_LOCATE_H

#include <string.h>

#include "ledger.h"

#define KVF_BRIEF 16384u
#define KVF_CARGO 262144u

typedef struct kvf_sites {
    uint8_t *answers; /* KVF_SAY_FOUND; KVF_SAY_ABSENT: offset and length are 0 */
    uint64_t *offsets, *lengths;
    size_t n;
} kvf_sites;

/* What was found, for the books of the node: `used` all of it, `left` what is not aboard. */
typedef struct kvf_finds {
    int64_t *used, *left; /* slots */
    uint64_t *generations; /* of what is left */
    size_t used_n, left_n, bytes;
} kvf_finds;

/* Called for each object found, in the order of the keys; `cargo` bytes are aboard before it. */
static inline bool kvf_aboard(uint64_t length, uint64_t cargo) {
    return length <= KVF_BRIEF && cargo + length <= KVF_CARGO;
}

static inline bool kvf_found(const kvf_sites *s, size_t i) { return s->answers[i] == KVF_SAY_FOUND; }

static inline bool kvf_inside(const kvf_sites *s, size_t i, uint64_t pool) {
    return s->offsets[i] <= pool && s->lengths[i] <= pool - s->offsets[i];
}

/* Does it stand, and is its moment to come, if it has one? `moments` of every slot; 0: never. */
static inline bool kvf_lives(const kvf_index *x, kvf_digest d, const uint64_t *moments, uint64_t now,
                             kvf_stay *stay) {
    if (!kvf_index_probe(x, d, stay)) return false;
    uint64_t moment = moments[stay->slot];
    return moment == 0 || moment > now;
}

/* Fills the columns, and `finds`, which has room for as many; returns the bytes of the cargo. */
static inline uint64_t kvf_locate_all(const kvf_index *x, const kvf_digest *d, const uint64_t *moments,
                                      uint64_t now, kvf_sites *s, kvf_finds *finds) {
    uint64_t cargo = 0;
    for (size_t i = 0; i < s->n; i++) {
        kvf_index_expect(x, d, i, s->n);
        kvf_stay stay = {0};
        bool lives = kvf_lives(x, d[i], moments, now, &stay);
        s->answers[i] = lives ? KVF_SAY_FOUND : KVF_SAY_ABSENT;
        s->offsets[i] = lives ? stay.offset : 0;
        s->lengths[i] = lives ? stay.length : 0;
        if (!lives) continue;
        finds->used[finds->used_n++] = (int64_t)stay.slot;
        finds->bytes += stay.length;
        if (kvf_aboard(stay.length, cargo)) {
            cargo += stay.length;
        } else {
            finds->generations[finds->left_n] = kvf_generation(stay.tag);
            finds->left[finds->left_n++] = (int64_t)stay.slot;
        }
    }
    return cargo;
}

/* The columns are the node's own, and lie in its pool. */
static inline void kvf_load_cargo(const kvf_sites *s, const char *pool, char *to) {
    uint64_t cargo = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (!kvf_found(s, i) || !kvf_aboard(s->lengths[i], cargo)) continue;
        memcpy(to + cargo, pool + s->offsets[i], s->lengths[i]);
        cargo += s->lengths[i];
    }
}

/* Can these columns be true of a pool of so many bytes, and belong to a cargo of so many? */
static inline bool kvf_sites_sound(const kvf_sites *s, uint64_t pool, uint64_t bytes) {
    uint64_t cargo = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (!kvf_found(s, i)) {
            if (s->answers[i] != KVF_SAY_ABSENT || s->offsets[i] || s->lengths[i]) return false;
        } else {
            if (!kvf_inside(s, i, pool)) return false;
            if (kvf_aboard(s->lengths[i], cargo)) cargo += s->lengths[i];
        }
    }
    return cargo == bytes;
}

/* Object i from the cargo to to[i], where there is room for it; NULL: it is not wanted. TOO_SMALL takes
 * the place of FOUND where it does not go. Returns how many `left` names: found, wanted, not aboard.
 * Of sound columns alone. */
static inline size_t kvf_unload_cargo(kvf_sites *s, const char *from, char *const *to,
                                      const uint64_t *rooms, int64_t *left) {
    uint64_t cargo = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (!kvf_found(s, i)) continue;
        bool aboard = kvf_aboard(s->lengths[i], cargo);
        bool fits = to[i] && s->lengths[i] <= rooms[i];
        if (!fits) s->answers[i] = KVF_SAY_TOO_SMALL;
        else if (aboard) memcpy(to[i], from + cargo, s->lengths[i]);
        else left[n++] = (int64_t)i;
        if (aboard) cargo += s->lengths[i];
    }
    return n;
}

#endif

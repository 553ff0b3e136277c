/* fill.h: many buffers, each to a place of its own. The caller answers for the places. */
#ifndef KVF_FILL_H
#define KVF_FILL_H

#include "copy.h"

/* The first i whose length is above its room; n: none. */
static inline size_t kvf_fill_misfit(const uint64_t *rooms, const uint64_t *lengths, size_t n) {
    size_t i = 0;
    while (i < n && lengths[i] <= rooms[i]) i++;
    return i;
}

/* All bytes are visible to whoever sees what is stored afterwards. `bytes` of all together: whoever
 * stores so many does not read them soon. */
static inline void kvf_fill_all(const kvf_variant *nt, const uint64_t *to, const uint64_t *from,
                                const uint64_t *lengths, size_t n, uint64_t bytes) {
    for (size_t i = 0; i < n; i++) {
        bool pays = bytes >= KVF_NT_RUN && lengths[i] >= KVF_NT_PIECE;
        const kvf_variant *v = pays ? nt : kvf_variants;
        if (lengths[i]) v->copy((void *)to[i], (const void *)from[i], lengths[i]);
    }
}

#endif

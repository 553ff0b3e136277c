/* mover.h: how the bytes of a run move.
 *
 * Links whose transfers streams carry out differ in this one function; rings, engines, helpers and
 * completion lines serve them all. A mover lives as long as its link, which is longer than any
 * transfer over it. Several threads may be in `run` at once unless its kind says otherwise.
 */
#ifndef KVF_MOVER_H
#define KVF_MOVER_H

#include "copy.h"

typedef struct kvf_mover kvf_mover;

struct kvf_mover {
    /* Moves the run and returns KVF_OK, or stops early and says why. Obeys the brake at least every
     * KVF_CHUNK bytes. Nothing it does writes local memory after it returned. */
    kvf_outcome (*run)(kvf_mover *, kvf_run, kvf_op, const kvf_brake *);
};

/* Both sides lie in this address space. */
typedef struct kvf_memory_mover {
    kvf_mover mover;
    const kvf_variant *nt; /* for runs that the cache would not keep */
} kvf_memory_mover;

static inline kvf_outcome kvf_move_in_memory(kvf_mover *m, kvf_run r, kvf_op op,
                                             const kvf_brake *brake) {
    return kvf_copy_run(((kvf_memory_mover *)m)->nt, r, op, brake);
}

#endif

/* reach.h: how a processor gets at memory that it cannot load from or store to.
 *
 *   host buffer  --- store -->  memory of a device
 *                <-- load ----
 *
 * Both block until every byte is there, from any thread, several at once. They return 0, or the code
 * of the library that copies; then what was copied is unspecified, and nothing more will be.
 */
#ifndef KVF_REACH_H
#define KVF_REACH_H

#include <stdint.h>

typedef struct kvf_reach kvf_reach;

struct kvf_reach {
    int (*load)(kvf_reach *, void *to, uint64_t from, uint64_t n);
    int (*store)(kvf_reach *, uint64_t to, const void *from, uint64_t n);
};

#endif

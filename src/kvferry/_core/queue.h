/* queue.h: a line of slots: join at the back, leave at the front, or from anywhere. O(1) for each.
 *
 *   line    | gone ... | 7 | 3 | 9 | 7 | ...        |      size: twice as many as there are slots
 *             0        head              tail       size
 *   place   of a slot: its position in the line + 1; 0: it stands in none
 *
 * A slot that joins again leaves its former entry behind, which is dead because its place is another.
 * A line that has no room at its back closes its gaps. Slots are below `slots`: the door sees to it.
 */
#ifndef KVF_QUEUE_H
#define KVF_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define KVF_QUEUE_SLOTS_MAX (1ull << 30)

typedef struct kvf_queue {
    uint32_t *line, *place;
    uint64_t slots, size, head, tail;
} kvf_queue;

static inline void kvf_queue_free(kvf_queue *q) {
    free(q->line);
    free(q->place);
}

/* False: there is no memory, or there are too many slots. To be freed either way. */
static inline bool kvf_queue_make(kvf_queue *q, uint64_t slots) {
    *q = (kvf_queue){.slots = slots, .size = 2 * slots + 1};
    if (slots > KVF_QUEUE_SLOTS_MAX) return false;
    q->line = calloc(q->size, sizeof *q->line);
    q->place = calloc(slots + 1, sizeof *q->place);
    return q->line && q->place;
}

static inline bool kvf_are_slots(const int64_t *slots, size_t n, uint64_t limit) {
    bool all = true;
    for (size_t i = 0; i < n; i++) all &= (uint64_t)slots[i] < limit;
    return all;
}

static inline bool kvf_queue_alive(const kvf_queue *q, uint64_t at) {
    return q->place[q->line[at]] == at + 1;
}

static inline void kvf_queue_put(kvf_queue *q, uint64_t at, uint32_t slot) {
    q->line[at] = slot;
    q->place[slot] = (uint32_t)at + 1;
}

static inline void kvf_queue_close_gaps(kvf_queue *q) {
    uint64_t to = 0;
    for (uint64_t at = q->head; at < q->tail; at++)
        if (kvf_queue_alive(q, at)) kvf_queue_put(q, to++, q->line[at]);
    q->head = 0;
    q->tail = to;
}

/* Join at the back, or move there. */
static inline void kvf_queue_push(kvf_queue *q, uint32_t slot) {
    if (q->tail == q->size) kvf_queue_close_gaps(q);
    kvf_queue_put(q, q->tail++, slot);
}

/* Leave from wherever it stands. */
static inline void kvf_queue_drop(kvf_queue *q, uint32_t slot) { q->place[slot] = 0; }

static inline bool kvf_queue_holds(const kvf_queue *q, uint32_t slot) { return q->place[slot] != 0; }

static inline void kvf_queue_push_all(kvf_queue *q, const int64_t *slots, size_t n) {
    for (size_t i = 0; i < n; i++) kvf_queue_push(q, (uint32_t)slots[i]);
}

static inline void kvf_queue_drop_all(kvf_queue *q, const int64_t *slots, size_t n) {
    for (size_t i = 0; i < n; i++) kvf_queue_drop(q, (uint32_t)slots[i]);
}

static inline void kvf_queue_move_all(kvf_queue *q, const int64_t *slots, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (kvf_queue_holds(q, (uint32_t)slots[i])) kvf_queue_push(q, (uint32_t)slots[i]);
}

static inline void kvf_queue_held(const kvf_queue *q, const int64_t *slots, size_t n, uint8_t *held) {
    for (size_t i = 0; i < n; i++) held[i] = kvf_queue_holds(q, (uint32_t)slots[i]);
}

/* Up to `most` that stand at *from and behind it, front first; *from is behind the last of them. */
static inline size_t kvf_queue_peek(const kvf_queue *q, uint64_t *from, size_t most, int64_t *out) {
    size_t n = 0;
    for (; *from < q->tail && n < most; ++*from)
        if (kvf_queue_alive(q, *from)) out[n++] = q->line[*from];
    return n;
}

/* Up to `most` leave at the front. */
static inline size_t kvf_queue_pop(kvf_queue *q, size_t most, int64_t *out) {
    size_t n = kvf_queue_peek(q, &q->head, most, out);
    kvf_queue_drop_all(q, out, n);
    return n;
}

/* The last of those that were just popped stand at the front again; false: so many were not. */
static inline bool kvf_queue_give_back(kvf_queue *q, const int64_t *slots, size_t n) {
    if (n > q->head) return false;
    while (n--) kvf_queue_put(q, --q->head, (uint32_t)slots[n]);
    return true;
}

/* Which of these stands before the others; n: none of them is in line. */
static inline size_t kvf_queue_first(const kvf_queue *q, const int64_t *slots, size_t n) {
    size_t first = n;
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        uint32_t place = q->place[slots[i]];
        if (place && place < least) least = place, first = i;
    }
    return first;
}

#endif

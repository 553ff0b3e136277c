/* trees.h: trees of slots, as prefixes of token sequences form them: of all leaves the oldest leaves.
 *
 *   queue    all that may be looked at, in the order of their last use
 *   parked   who came to the front and has children: out of the queue, under a number that keeps the
 *            order. When its last child has left it is ripe, and older than all in the queue.
 *   ripe    a heap of | number u32 | slot u32 |, some of them outdated: the number is another by now
 *
 * A parent that is removed leaves its children behind as roots. `stay` counts the stays in a slot, by
 * which a child knows its parent from a later tenant of the slot.
 *
 * The door sees to it that slots are below those of the queue. Zeroed nodes are nobody.
 */
#ifndef KVF_TREES_H
#define KVF_TREES_H

#include "queue.h"

#define KVF_PATH 64u /* ancestors that are asked about together */

enum { KVF_UNASKED, KVF_MAY_LEAVE, KVF_STAYS }; /* verdicts */

typedef struct kvf_node {
    uint32_t parent, parent_stay; /* the parent's stay at birth; 0: a root */
    uint32_t stay, parked;        /* parked 0: not */
    uint32_t children : 30, verdict : 2;
} kvf_node;
_Static_assert(KVF_QUEUE_SLOTS_MAX <= 1ull << 30, "children are counted in 30 bits");

typedef struct kvf_trees {
    kvf_queue queue;
    kvf_node *nodes;
    uint64_t *ripe;  /* as many as there are slots */
    uint64_t waiting; /* in `ripe` */
    uint32_t numbers; /* the last one given */
    /* While victims are looked for: */
    uint64_t asked_to; /* in the line, up to here all have been asked about */
    uint64_t known;    /* have a verdict and were not met yet */
} kvf_trees;

static inline void kvf_trees_free(kvf_trees *t) {
    kvf_queue_free(&t->queue);
    free(t->nodes);
    free(t->ripe);
}

/* False: there is no memory, or there are too many slots. To be freed either way. */
static inline bool kvf_trees_make(kvf_trees *t, uint64_t slots) {
    *t = (kvf_trees){.nodes = NULL};
    if (!kvf_queue_make(&t->queue, slots)) return false;
    t->nodes = calloc(slots + 1, sizeof *t->nodes);
    t->ripe = calloc(slots + 1, sizeof *t->ripe);
    return t->nodes && t->ripe;
}

/* ---- who is ripe ---- */

static inline void kvf_swap(uint64_t *a, uint64_t *b) {
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

static inline void kvf_ripe_add(kvf_trees *t, uint32_t slot) {
    uint64_t at = t->waiting++;
    t->ripe[at] = (uint64_t)t->nodes[slot].parked << 32 | slot;
    for (; at && t->ripe[at] < t->ripe[(at - 1) / 2]; at = (at - 1) / 2)
        kvf_swap(&t->ripe[at], &t->ripe[(at - 1) / 2]);
}

static inline void kvf_ripe_pop(kvf_trees *t) {
    t->ripe[0] = t->ripe[--t->waiting];
    for (uint64_t at = 0, child; (child = 2 * at + 1) < t->waiting; at = child) {
        if (child + 1 < t->waiting && t->ripe[child + 1] < t->ripe[child]) child++;
        if (t->ripe[at] <= t->ripe[child]) return;
        kvf_swap(&t->ripe[at], &t->ripe[child]);
    }
}

static inline bool kvf_is_ripe(const kvf_trees *t, uint32_t slot) {
    return t->nodes[slot].parked && !t->nodes[slot].children;
}

/* Without what is outdated. */
static inline void kvf_ripe_rebuild(kvf_trees *t) {
    t->waiting = 0;
    for (uint64_t slot = 0; slot < t->queue.slots; slot++)
        if (kvf_is_ripe(t, (uint32_t)slot)) kvf_ripe_add(t, (uint32_t)slot);
}

/* One that has become so. */
static inline void kvf_ripe_join(kvf_trees *t, uint32_t slot) {
    if (t->waiting == t->queue.slots) kvf_ripe_rebuild(t);
    else kvf_ripe_add(t, slot);
}

/* The oldest that is ripe; false: none is. */
static inline bool kvf_ripe_first(kvf_trees *t, uint32_t *slot) {
    for (; t->waiting; kvf_ripe_pop(t)) {
        *slot = (uint32_t)t->ripe[0];
        if (t->nodes[*slot].parked == t->ripe[0] >> 32 && kvf_is_ripe(t, *slot)) return true;
    }
    return false;
}

static inline int kvf_by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The numbers have run out: all that are parked get new ones, from 1 on. */
static inline void kvf_renumber(kvf_trees *t) {
    uint64_t n = 0;
    for (uint64_t slot = 0; slot < t->queue.slots; slot++)
        if (t->nodes[slot].parked) t->ripe[n++] = (uint64_t)t->nodes[slot].parked << 32 | slot;
    qsort(t->ripe, n, sizeof *t->ripe, kvf_by_number);
    for (t->numbers = 0; t->numbers < n; t->numbers++)
        t->nodes[(uint32_t)t->ripe[t->numbers]].parked = t->numbers + 1;
    kvf_ripe_rebuild(t);
}

static inline void kvf_park(kvf_trees *t, uint32_t slot) {
    if (t->numbers == UINT32_MAX) kvf_renumber(t);
    t->nodes[slot].parked = ++t->numbers;
}

/* ---- coming and going ---- */

/* NULL: it is a root, or its parent has left and another stands there. */
static inline kvf_node *kvf_parent(const kvf_trees *t, const kvf_node *node) {
    kvf_node *parent = &t->nodes[node->parent];
    return node->parent_stay && parent->stay == node->parent_stay ? parent : NULL;
}

static inline void kvf_leave_parent(kvf_trees *t, kvf_node *node) {
    kvf_node *parent = kvf_parent(t, node);
    node->parent_stay = 0;
    if (!parent || !parent->children) return;
    parent->children--;
    uint32_t slot = (uint32_t)(parent - t->nodes);
    if (kvf_is_ripe(t, slot)) kvf_ripe_join(t, slot);
}

/* parents[i] is the slot's own where it has none; it may stand in the same batch. */
static inline void kvf_trees_insert(kvf_trees *t, const int64_t *slots, const int64_t *parents, size_t n) {
    for (size_t i = 0; i < n; i++) {
        kvf_node *node = &t->nodes[slots[i]];
        *node = (kvf_node){.parent = (uint32_t)parents[i], .stay = node->stay + 1};
    }
    for (size_t i = 0; i < n; i++) {
        if (parents[i] == slots[i]) continue;
        t->nodes[slots[i]].parent_stay = t->nodes[parents[i]].stay;
        t->nodes[parents[i]].children++;
    }
    kvf_queue_push_all(&t->queue, slots, n);
}

static inline void kvf_trees_remove(kvf_trees *t, const int64_t *slots, size_t n) {
    kvf_queue_drop_all(&t->queue, slots, n);
    for (size_t i = 0; i < n; i++) t->nodes[slots[i]].parked = 0;
    for (size_t i = 0; i < n; i++) kvf_leave_parent(t, &t->nodes[slots[i]]);
}

static inline void kvf_trees_touch(kvf_trees *t, const int64_t *slots, size_t n) {
    for (size_t i = 0; i < n; i++) {
        kvf_node *node = &t->nodes[slots[i]];
        if (!node->parked && !kvf_queue_holds(&t->queue, (uint32_t)slots[i])) continue;
        node->parked = 0;
        kvf_queue_push(&t->queue, (uint32_t)slots[i]);
    }
}

/* The parent of each, its own slot if there is none; and how many children it has. */
static inline void kvf_trees_kin(const kvf_trees *t, const int64_t *slots, size_t n, int64_t *parents,
                                 int64_t *children) {
    for (size_t i = 0; i < n; i++) {
        const kvf_node *node = &t->nodes[slots[i]], *parent = kvf_parent(t, node);
        parents[i] = parent ? parent - t->nodes : slots[i];
        children[i] = node->children;
    }
}

/* Which of these leaves first; n: none of them may yet. */
static inline size_t kvf_trees_first(const kvf_trees *t, const int64_t *slots, size_t n) {
    size_t first = n;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const kvf_node *node = &t->nodes[slots[i]];
        uint64_t place = t->queue.place[slots[i]];
        if (node->children || (!node->parked && !place)) continue;
        uint64_t rank = node->parked ? node->parked : place + UINT32_MAX;
        if (rank < least) least = rank, first = i;
    }
    return first;
}

/* Everybody; `out` has a place for every slot. */
static inline size_t kvf_trees_members(const kvf_trees *t, int64_t *out) {
    size_t n = 0;
    for (uint64_t slot = 0; slot < t->queue.slots; slot++)
        if (t->nodes[slot].parked || kvf_queue_holds(&t->queue, (uint32_t)slot)) out[n++] = (int64_t)slot;
    return n;
}

/* ---- victims ---- */

/* The slot and its next ancestors. */
static inline size_t kvf_path(const kvf_trees *t, uint32_t slot, size_t most, int64_t *out) {
    size_t n = 0;
    for (const kvf_node *node = &t->nodes[slot]; node && n < most; node = kvf_parent(t, node))
        out[n++] = node - t->nodes;
    return n;
}

/* Who has to be asked about next, at most `most`, which is KVF_PATH at least; 0: there is no leaf. */
static inline size_t kvf_trees_ahead(kvf_trees *t, size_t most, int64_t *out) {
    uint32_t slot;
    if (kvf_ripe_first(t, &slot)) return kvf_path(t, slot, KVF_PATH, out);
    if (t->asked_to < t->queue.head) t->asked_to = t->queue.head;
    return kvf_queue_peek(&t->queue, &t->asked_to, most, out);
}

static inline void kvf_trees_tell(kvf_trees *t, const int64_t *slots, const uint8_t *stays, size_t n) {
    for (size_t i = 0; i < n; i++) {
        kvf_node *node = &t->nodes[slots[i]];
        t->known += node->verdict == KVF_UNASKED;
        node->verdict = stays[i] ? KVF_STAYS : KVF_MAY_LEAVE;
    }
}

/* The oldest leaf, neither in line nor parked any more; false: none, or it has to be asked about. */
static inline bool kvf_oldest_leaf(kvf_trees *t, uint32_t *slot) {
    kvf_queue *q = &t->queue;
    if (kvf_ripe_first(t, slot)) {
        if (t->nodes[*slot].verdict == KVF_UNASKED) return false;
        kvf_ripe_pop(t);
        t->nodes[*slot].parked = 0;
        return true;
    }
    while (q->head < t->asked_to) {
        bool alive = kvf_queue_alive(q, q->head);
        *slot = q->line[q->head++];
        if (!alive) continue;
        kvf_queue_drop(q, *slot);
        if (!t->nodes[*slot].children) return true;
        kvf_park(t, *slot);
    }
    return false;
}

/* Leaves leave until their sizes are `needed`, or one has to be asked about: who left is in `gone`, who
 * was met and stays in `kept`, each of `known` places; neither is in line any more. */
static inline void kvf_trees_leave(kvf_trees *t, const int64_t *sizes, int64_t needed, int64_t *gone,
                                   size_t *left, int64_t *kept, size_t *stayed) {
    uint32_t slot;
    for (*left = *stayed = 0; t->known && needed > 0 && kvf_oldest_leaf(t, &slot); t->known--) {
        if (t->nodes[slot].verdict == KVF_STAYS) {
            kept[(*stayed)++] = slot;
            continue;
        }
        gone[(*left)++] = slot;
        needed -= sizes[slot];
        kvf_leave_parent(t, &t->nodes[slot]);
    }
}

/* Victims are found: forget the verdicts about these. */
static inline void kvf_trees_forget(kvf_trees *t, const int64_t *slots, size_t n) {
    for (size_t i = 0; i < n; i++) t->nodes[slots[i]].verdict = KVF_UNASKED;
    t->asked_to = t->known = 0;
}

#endif

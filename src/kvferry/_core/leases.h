/* leases.h: a user has objects stay for a while, and asks nobody.
 *
 *   words   one u64 a slot of the index: until when the object there stays, ns since boot; 0: nobody
 *           asked. Users raise them, the node clears and bounds them. Zeroed memory is no lease
 *
 *   user                                          node
 *   probe: tag, slot                              sweeping: 1                      (seq_cst)
 *   raise the word of the slot     (seq_cst)      look at the words: who may leave (seq_cst)
 *   look at sweeping: 0            (seq_cst)      clear the words of who leaves    (relaxed)
 *   recheck: the tag is the same   (seq_cst)      mark their entries
 *                                                 sweeping: 0                      (release)
 *
 * In the order of all seq_cst accesses, a user that sees 0 raised its word before the node began to
 * sweep, and the node sees it, or looked after the node had ended, and sees the mark. One that sees 1,
 * or another tag, asks the node by a message. tests/_core/test_interleavings.py walks all of it.
 *
 * A word is clear before a new object is visible at its slot. What a user that was slow raises later
 * keeps an object longer than anybody wanted, and nothing shorter.
 *
 * The node believes a word no further than the longest lease from the moment when it looks at it.
 */
#ifndef KVF_LEASES_H
#define KVF_LEASES_H

#include "reader.h"

typedef _Atomic uint64_t kvf_until;

/* Process-private. */
typedef struct kvf_leases {
    kvf_until *words;
    uint64_t n;
} kvf_leases;

/* False: not of whole words. */
static inline bool kvf_leases_at(kvf_leases *l, uintptr_t base, uint64_t bytes) {
    *l = (kvf_leases){(kvf_until *)base, bytes / sizeof(kvf_until)};
    return base % sizeof(kvf_until) == 0;
}

/* Of the clock that leases are counted on. */
static inline uint64_t kvf_since_boot(void) { return kvf_clock(CLOCK_BOOTTIME); }

static inline uint64_t kvf_lease_word(const kvf_until *word) {
    return atomic_load_explicit(word, memory_order_seq_cst);
}

/* Whoever finds it high enough has seen what another user raised, and so will the node. */
static inline bool kvf_lease_exchange(kvf_until *word, uint64_t *seen, uint64_t until) {
    return atomic_compare_exchange_weak_explicit(word, seen, until, memory_order_seq_cst,
                                                 memory_order_seq_cst);
}

/* ---- the user ---- */

static inline void kvf_lease_raise(kvf_until *word, uint64_t until) {
    uint64_t seen = kvf_lease_word(word);
    while (seen < until && !kvf_lease_exchange(word, &seen, until)) continue;
}

static inline bool kvf_sweeping(const kvf_index *x) {
    return atomic_load_explicit(&x->head->sweeping, memory_order_seq_cst) != 0;
}

/* Of the object that was found. What has expired is kept by no new lease. */
static inline bool kvf_expired(const kvf_index *x, const kvf_stay *stay, uint64_t now) {
    uint64_t moment = kvf_load(&x->entries[stay->slot].expires);
    return moment && moment <= now;
}

/* HIT: it stays where it is until then. ABSENT. CHANGING: the node has to be asked; BESIDE: that, too. */
static inline kvf_read_code kvf_lease_one(const kvf_index_reader *r, const kvf_leases *l, kvf_digest d,
                                          uint64_t now, uint64_t until) {
    kvf_stay stay;
    if (!kvf_index_probe(&r->index, d, &stay)) return kvf_absent(r, d);
    if (stay.slot >= l->n || kvf_expired(&r->index, &stay, now)) return KVF_CHANGING;
    kvf_lease_raise(&l->words[stay.slot], until);
    return !kvf_sweeping(&r->index) && kvf_index_recheck(&r->index, &stay) ? KVF_HIT : KVF_CHANGING;
}

/* Asks for the entry of a key, and for its word. */
static inline void kvf_lease_expect(const kvf_index_reader *r, const kvf_leases *l, kvf_digest d) {
    const kvf_index_entry *entry = kvf_index_candidate(&r->index, d);
    if (!entry) return;
    __builtin_prefetch(entry, 0, 3);
    __builtin_prefetch(&l->words[entry - r->index.entries], 1, 3);
}

/* The same for key i + KVF_KEYS_AHEAD, and at first for those before it; for fingerprints twice as far. */
static inline void kvf_lease_look_ahead(const kvf_index_reader *r, const kvf_leases *l, const kvf_digest *d,
                                        size_t i, size_t n) {
    size_t far = i ? i + 2 * KVF_KEYS_AHEAD : 0, near = i ? i + KVF_KEYS_AHEAD : 0;
    for (size_t k = far; k < n && k <= i + 2 * KVF_KEYS_AHEAD; k++) kvf_index_expect_prints(&r->index, d[k]);
    for (size_t k = near; k < n && k <= i + KVF_KEYS_AHEAD; k++) kvf_lease_expect(r, l, d[k]);
}

/* How many of these the node has to be asked for. Neither counted nor a touch: nothing was read. */
static inline size_t kvf_lease_all(const kvf_index_reader *r, const kvf_leases *l, const kvf_digest *d,
                                   size_t n, uint64_t now, uint64_t until, uint8_t *codes) {
    if (!kvf_index_ours(&r->index)) {
        memset(codes, KVF_FOREIGN, n);
        return n;
    }
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        kvf_lease_look_ahead(r, l, d, i, n);
        codes[i] = (uint8_t)kvf_lease_one(r, l, d[i], now, until);
        left += codes[i] != KVF_HIT && codes[i] != KVF_ABSENT;
    }
    return left;
}

/* ---- the node ---- */

static inline void kvf_sweep_begin(kvf_index *x) {
    atomic_store_explicit(&x->head->sweeping, 1, memory_order_seq_cst);
}

static inline void kvf_sweep_end(kvf_index *x) {
    atomic_store_explicit(&x->head->sweeping, 0, memory_order_release);
}

/* No later than the longest lease from now on, which is now since the word was seen: whatever a user may
 * have raised it to is below. */
static inline void kvf_lease_bound(kvf_until *word, uint64_t seen, uint64_t longest) {
    uint64_t last = kvf_since_boot() + longest;
    while (seen > last && !kvf_lease_exchange(word, &seen, last)) continue;
}

static inline void kvf_leases_held(const kvf_leases *l, const int64_t *slots, size_t n, uint64_t now,
                                   uint64_t longest, uint8_t *held) {
    for (size_t i = 0; i < n; i++) {
        if (i + KVF_KEYS_AHEAD < n) __builtin_prefetch(&l->words[slots[i + KVF_KEYS_AHEAD]], 0, 3);
        uint64_t until = kvf_lease_word(&l->words[slots[i]]);
        if (until > now + longest) kvf_lease_bound(&l->words[slots[i]], until, longest);
        held[i] = until > now;
    }
}

/* Memory of what was never leased is not written to. */
static inline void kvf_leases_clear(const kvf_leases *l, const int64_t *slots, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (atomic_load_explicit(&l->words[slots[i]], memory_order_relaxed))
            atomic_store_explicit(&l->words[slots[i]], 0, memory_order_relaxed);
}

#endif

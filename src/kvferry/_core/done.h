/* done.h: the completion line of one transfer.
 *
 *   line 0   | word 0 | word 1 | ... | word 7 |                    8 bytes each
 *   line 1   | sequence | abort | ended | begun | outcome | streams | bell | waiters | notify | next |
 *   line 2   | started | staged | served | address | claim | verdict | side | batches | code |
 *
 * Who writes what: who copies writes the words, ended, outcome, bell and line 2; who submits or waits
 * writes the rest. Stream i of the transfer stores the transfer's sequence number into word i after
 * its last byte (copy.h has fenced those). Sequence numbers rise and are never reused on a line, so
 * a stale store completes nothing. abort holds the sequence that shall stop, for the same reason.
 * outcome is the first failure, or KVF_LOST, kept by compare-and-swap. claim holds the sequence of
 * the last batch that was begun by a coprocessor, or dropped before that: who raises it to a sequence
 * is the only one to touch that batch.
 *
 * Order: the store of word i, the later look at `waiters` and `notify`, and on the other side the
 * announcement of a waiter and its later look at the words are all seq_cst: one of the two sees the
 * other, so no completion goes unnoticed.
 *
 * Lifetime: after its last word is stored a finisher still reads waiters, notify and bell. Lines
 * therefore come from an arena (engines.h) that outlives every copy engine.
 */
#ifndef KVF_DONE_H
#define KVF_DONE_H

#include "wait.h"

#define KVF_STREAMS_MAX 8

/* By then a copy engine that is awake has begun what it was handed. */
#define KVF_BEGIN_NS 3000ull

typedef enum {
    KVF_OK = 0,
    KVF_ABORTED = 1,  /* the abort flag was seen: some bytes were not moved */
    KVF_EXPIRED = 2,  /* the deadline of an inline copy passed */
    KVF_LOST = 3,     /* the way to the peer broke: what reached it is unknown */
    KVF_REFUSED = 4,  /* the peer, or a check made late, refused a range: of that run nothing moved after it */
    KVF_FAULT = 5,    /* the memory is not there, or the kernel does not let us */
    KVF_DEVICE = 6,   /* a device's library failed: its code is kept */
    KVF_ABANDONED = 7, /* nobody can say that bytes do not move any more: never quiet */
} kvf_outcome;

typedef struct kvf_done {
    _Alignas(64) _Atomic uint64_t word[KVF_STREAMS_MAX];
    _Alignas(64) uint64_t sequence;
    _Atomic uint64_t abort;
    _Atomic uint64_t ended_ns;
    uint64_t begun_ns;
    _Atomic uint32_t outcome;
    _Atomic uint32_t streams;
    _Atomic uint32_t bell;
    _Atomic uint32_t waiters;
    _Atomic int32_t notify; /* an eventfd plus one, or 0 */
    struct kvf_done *next;  /* in the arena's free list */
    _Alignas(64) _Atomic uint64_t started_ns; /* the first byte; 0 before */
    _Atomic uint64_t staged; /* bytes that went through a pool */
    _Atomic uint64_t served; /* bytes that threads of the peer moved at their end */
    /* What KVF_REFUSED is about; written once, before the outcome. */
    _Atomic uint64_t address;
    _Atomic uint64_t claim;
    _Atomic uint32_t verdict, side;
    _Atomic uint32_t batches; /* logical batches that a coprocessor was notified of */
    _Atomic int32_t code;     /* the first that a device's library failed with; 0: none */
} kvf_done;

/* Arm the line for its next transfer, of one stream. Only while it is quiet; from here on it is not. */
static inline void kvf_done_begin(kvf_done *d) {
    d->begun_ns = kvf_now();
    atomic_store_explicit(&d->streams, 1, memory_order_relaxed);
    atomic_store_explicit(&d->outcome, KVF_OK, memory_order_relaxed);
    atomic_store_explicit(&d->notify, 0, memory_order_relaxed);
    atomic_store_explicit(&d->started_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&d->staged, 0, memory_order_relaxed);
    atomic_store_explicit(&d->served, 0, memory_order_relaxed);
    atomic_store_explicit(&d->verdict, 0, memory_order_relaxed);
    atomic_store_explicit(&d->batches, 0, memory_order_relaxed);
    atomic_store_explicit(&d->code, 0, memory_order_relaxed);
    d->sequence++;
}

/* Over how many streams the transfer goes. Before any of them knows of it. */
static inline void kvf_done_spread(kvf_done *d, uint32_t streams) {
    atomic_store_explicit(&d->streams, streams, memory_order_relaxed);
}

static inline uint32_t kvf_done_streams(kvf_done *d) {
    return atomic_load_explicit(&d->streams, memory_order_relaxed);
}

static inline bool kvf_done_quiet(kvf_done *d) {
    /* Word 0 first: whoever stored it knew over how many streams the transfer goes. */
    if (atomic_load_explicit(&d->word[0], memory_order_seq_cst) != d->sequence) return false;
    uint32_t streams = atomic_load_explicit(&d->streams, memory_order_relaxed);
    for (uint32_t i = 1; i < streams; i++)
        if (atomic_load_explicit(&d->word[i], memory_order_seq_cst) != d->sequence) return false;
    return true;
}

static inline uint32_t kvf_done_outcome(kvf_done *d) {
    return atomic_load_explicit(&d->outcome, memory_order_acquire);
}

/* Will it never be quiet? */
static inline bool kvf_done_abandoned(kvf_done *d) { return kvf_done_outcome(d) == KVF_ABANDONED; }

/* What outweighs what: the first failure counts, unless the peer, or a device, may yet move bytes. */
static inline int kvf_weight(uint32_t outcome) {
    return outcome == KVF_ABANDONED ? 2 : outcome == KVF_LOST;
}

static inline void kvf_done_fail(kvf_done *d, uint32_t outcome) {
    uint32_t kept = KVF_OK;
    while (!atomic_compare_exchange_strong_explicit(&d->outcome, &kept, outcome, memory_order_acq_rel,
                                                    memory_order_relaxed))
        if (kvf_weight(outcome) <= kvf_weight(kept)) return;
}

/* The first byte of the transfer is about to move. */
static inline void kvf_done_start(kvf_done *d) {
    if (atomic_load_explicit(&d->started_ns, memory_order_relaxed)) return;
    uint64_t never = 0;
    atomic_compare_exchange_strong_explicit(&d->started_ns, &never, kvf_now(), memory_order_relaxed,
                                            memory_order_relaxed);
}

/* A range was refused: `verdict` and `side` as resolve.h names them. The first refusal is kept. */
static inline void kvf_done_refuse(kvf_done *d, uint32_t verdict, uint32_t side, uint64_t address) {
    uint32_t none = 0;
    if (kvf_done_outcome(d) == KVF_OK &&
        atomic_compare_exchange_strong_explicit(&d->verdict, &none, verdict, memory_order_relaxed,
                                                memory_order_relaxed)) {
        atomic_store_explicit(&d->side, side, memory_order_relaxed);
        atomic_store_explicit(&d->address, address, memory_order_relaxed);
    }
    kvf_done_fail(d, KVF_REFUSED);
}

/* What a device's library said. Before the outcome; the first is kept. */
static inline void kvf_done_blame(kvf_done *d, int32_t code) {
    int32_t none = 0;
    atomic_compare_exchange_strong_explicit(&d->code, &none, code, memory_order_relaxed,
                                            memory_order_relaxed);
}

/* Stream `i` is through with transfer `sequence`: after its last byte, and after its failure. */
static inline void kvf_done_finish(kvf_done *d, uint32_t i, uint64_t sequence) {
    /* Read before the store: afterwards the line may be re-armed. */
    uint32_t streams = atomic_load_explicit(&d->streams, memory_order_relaxed);
    atomic_store_explicit(&d->ended_ns, kvf_now(), memory_order_relaxed);
    bool abandoned = kvf_done_abandoned(d); /* not quiet, and those who wait shall know */
    if (!abandoned) atomic_store_explicit(&d->word[i], sequence, memory_order_seq_cst);
    for (uint32_t k = 0; k < streams && !abandoned; k++)
        if (atomic_load_explicit(&d->word[k], memory_order_seq_cst) != sequence) return;
    if (atomic_load_explicit(&d->waiters, memory_order_seq_cst)) {
        atomic_fetch_add_explicit(&d->bell, 1, memory_order_release);
        kvf_wake_all(&d->bell);
    }
    int32_t notify = atomic_load_explicit(&d->notify, memory_order_seq_cst);
    if (notify) {
        uint64_t one = 1;
        ssize_t written = write(notify - 1, &one, sizeof one);
        (void)written; /* EAGAIN: the counter is full, so its reader is awake */
    }
}

static inline void kvf_done_abort(kvf_done *d) {
    atomic_store_explicit(&d->abort, d->sequence, memory_order_release);
}

static inline bool kvf_done_aborted(const kvf_done *d, uint64_t sequence) {
    return atomic_load_explicit(&d->abort, memory_order_acquire) == sequence;
}

/* Of those who would begin a queued batch or drop it, the first; false for all others. */
static inline bool kvf_done_claim(kvf_done *d, uint64_t sequence) {
    uint64_t before = atomic_load_explicit(&d->claim, memory_order_relaxed);
    while (before < sequence)
        if (atomic_compare_exchange_weak_explicit(&d->claim, &before, sequence, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* Only for transfers that are claimed before they begin: one that was not is over at once. */
static inline void kvf_done_drop(kvf_done *d) {
    if (!kvf_done_claim(d, d->sequence)) return;
    kvf_done_fail(d, KVF_ABORTED);
    kvf_done_finish(d, 0, d->sequence);
}

static inline uint64_t kvf_done_ended(kvf_done *d) {
    return atomic_load_explicit(&d->ended_ns, memory_order_relaxed);
}

/* Is it worth to spin on? Not when nobody begins it: who shall may need this very processor. */
static inline bool kvf_done_prompt(kvf_done *d, uint64_t waited) {
    return waited < KVF_BEGIN_NS || atomic_load_explicit(&d->started_ns, memory_order_relaxed);
}

/* True once quiet. Spins, then sleeps at most one slice; false then, or at the deadline. */
static inline bool kvf_done_wait(kvf_done *d, uint64_t deadline) {
    if (kvf_done_quiet(d)) return true;
    uint64_t start = kvf_now(), until = start + KVF_SPIN_NS;
    if (until > deadline) until = deadline;
    for (uint64_t now = start; now < until && kvf_done_prompt(d, now - start); now = kvf_now())
        for (int i = 0; i < 32; i++) {
            kvf_relax();
            if (kvf_done_quiet(d)) return true;
        }
    atomic_fetch_add_explicit(&d->waiters, 1, memory_order_seq_cst);
    uint32_t seen = atomic_load_explicit(&d->bell, memory_order_acquire);
    bool quiet = kvf_done_quiet(d);
    if (!quiet) {
        uint64_t ns = kvf_slice(kvf_now(), deadline);
        if (ns) kvf_sleep_while(&d->bell, seen, ns);
        quiet = kvf_done_quiet(d);
    }
    atomic_fetch_sub_explicit(&d->waiters, 1, memory_order_relaxed);
    return quiet;
}

/* Ask for a write to `eventfd` when quiet. The caller looks at quiet once more afterwards. */
static inline void kvf_done_notify(kvf_done *d, int eventfd) {
    atomic_store_explicit(&d->notify, eventfd + 1, memory_order_seq_cst);
}

#endif

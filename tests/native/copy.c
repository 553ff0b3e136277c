/* Every variant this processor runs moves exactly the bytes asked for, at every alignment, and obeys
 * its own brake and no other. */
#include "check.h"
#include "copy.h"
#include "parallel.h"

#define ALIGNMENTS 64
#define SHORT 300
#define LONGEST (5 * KVF_CHUNK / 4)
#define GUARD 0xEE

static unsigned char source[LONGEST + 2 * ALIGNMENTS], target[LONGEST + 2 * ALIGNMENTS];
static unsigned char guard[LONGEST + 2 * ALIGNMENTS];

static void fill(void) {
    for (size_t i = 0; i < sizeof source; i++) source[i] = (unsigned char)(i * 7 + (i >> 8) * 13 + 1);
    memset(target, GUARD, sizeof target);
    memset(guard, GUARD, sizeof guard);
}

/* Exactly these bytes of the first `size` of target were written; puts the guard back. */
static void check_and_wipe(size_t to, size_t from, size_t length, size_t size) {
    CHECK(memcmp(target + to, source + from, length) == 0);
    CHECK(memcmp(target, guard, to) == 0);
    CHECK(memcmp(target + to + length, guard, size - to - length) == 0);
    memset(target + to, GUARD, length);
}

/* All pairs of alignments with some lengths; with all others every alignment of the target, which the
 * aligned stores depend on, and some of the source. */
static void check_short(const kvf_variant *v) {
    for (size_t length = 0; length <= SHORT; length++)
        for (size_t to = 0; to < ALIGNMENTS; to++) {
            size_t first = length % 30 ? (to + length) % 16 : 0, step = length % 30 ? 16 : 1;
            for (size_t from = first; from < ALIGNMENTS; from += step) {
                v->copy(target + to, source + from, length);
                check_and_wipe(to, from, length, SHORT + 2 * ALIGNMENTS);
            }
        }
}

static void check_long(const kvf_variant *v) {
    static const size_t lengths[] = {4095, 4096, 65537, KVF_CHUNK - 1, LONGEST};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t to = 0; to < ALIGNMENTS; to += 21) {
            size_t from = (to * 5 + i) % ALIGNMENTS;
            v->copy(target + to, source + from, lengths[i]);
            check_and_wipe(to, from, lengths[i], sizeof target);
        }
}

/* ---- runs ---- */

#define AREA 1024
#define PIECES 12

static unsigned char here[AREA], there[AREA], expected[AREA];

/* Random descriptors, half of them adjacent to the one before, on both sides or on one. */
static uint64_t random_batch(uint64_t *random, kvf_descriptor *d, uint64_t n, uint64_t delta) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = 1 + random_below(random, AREA / PIECES - 1);
        uint64_t local = random_below(random, AREA - length), remote = random_below(random, AREA - length);
        uint64_t next_local = i ? d[i - 1].local + d[i - 1].length - (uintptr_t)here : 0;
        uint64_t next_remote = i ? d[i - 1].remote + d[i - 1].length + delta - (uintptr_t)there : 0;
        uint64_t kind = random_below(random, 6);
        if (kind < 4 && next_local + length <= AREA) local = next_local;
        if (kind > 1 && next_remote + length <= AREA) remote = next_remote;
        d[i] = (kvf_descriptor){(uintptr_t)here + local, (uintptr_t)there + remote - delta, length};
        bytes += length;
    }
    return bytes;
}

/* Byte by byte, in order: what a run means. */
static void expect_run(const kvf_descriptor *d, uint64_t skip, uint64_t bytes, uint64_t delta, kvf_op op) {
    memcpy(expected, op == KVF_WRITE ? there : here, AREA);
    for (uint64_t at = 0; bytes; d++, at = 0)
        for (at = skip, skip = 0; at < d->length && bytes; at++, bytes--) {
            uint64_t local = d->local + at - (uintptr_t)here;
            uint64_t remote = d->remote + delta + at - (uintptr_t)there;
            if (op == KVF_WRITE) expected[remote] = here[local];
            else expected[local] = there[remote];
        }
}

static void check_runs(const kvf_variant *v) {
    uint64_t random = 11;
    kvf_done done = {.word = {0}};
    kvf_brake brake = {&done, 1, KVF_FOREVER, NULL};
    for (int round = 0; round < ALONE(300); round++) {
        kvf_descriptor d[PIECES];
        kvf_op op = round % 2 ? KVF_READ : KVF_WRITE;
        uint64_t n = 1 + random_below(&random, PIECES), delta = random_next(&random);
        random_bytes(&random, here, AREA);
        random_bytes(&random, there, AREA);
        uint64_t bytes = random_batch(&random, d, n, delta);
        uint64_t skip = random_below(&random, d[0].length);
        bytes = 1 + random_below(&random, bytes - skip);
        expect_run(d, skip, bytes, delta, op);
        unsigned char untouched[AREA];
        memcpy(untouched, op == KVF_WRITE ? here : there, AREA);
        CHECK(v->run((kvf_run){d, skip, bytes, delta}, op, &brake) == KVF_OK);
        CHECK(memcmp(op == KVF_WRITE ? there : here, expected, AREA) == 0);
        CHECK(memcmp(op == KVF_WRITE ? here : there, untouched, AREA) == 0);
    }
}

/* ---- the brake ---- */

#define BIG (3 * KVF_CHUNK + KVF_CHUNK / 2)

static unsigned char big_source[BIG], big_target[BIG];

typedef struct held_copy {
    const kvf_variant *variant;
    kvf_done done;
    kvf_hold hold;
    uint64_t block;
    kvf_outcome outcome;
} held_copy;

static kvf_outcome copy_big(const kvf_variant *v, const kvf_brake *brake, uint64_t block) {
    static kvf_descriptor d[BIG / 4096];
    uint64_t n = BIG / block;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t other = block == BIG ? 0 : n - 1 - i; /* nothing is adjacent */
        d[i] = (kvf_descriptor){(uintptr_t)big_source + other * block,
                                (uintptr_t)big_target + i * block, block};
    }
    return v->run((kvf_run){d, 0, BIG, 0}, KVF_WRITE, brake);
}

/* How many bytes at the head were written; none may have been behind them. */
static uint64_t written(void) {
    const unsigned char *end = memchr(big_target, 0, BIG);
    uint64_t n = end ? (uint64_t)(end - big_target) : BIG, rest = BIG - n;
    CHECK(rest < 2 || memcmp(big_target + n, big_target + n + 1, rest - 1) == 0);
    CHECK(memcmp(big_target, big_source, n) == 0);
    return n;
}

static void wipe_big(void) {
    memset(big_source, 1, BIG);
    memset(big_target, 0, BIG);
}

static void held_body(void *arg, unsigned index) {
    (void)index;
    held_copy *h = arg;
    kvf_brake brake = {&h->done, 7, KVF_FOREVER, &h->hold};
    h->outcome = copy_big(h->variant, &brake, h->block);
}

/* Once the copy has begun its first chunk: that one is written, and no other. */
static void abort_held(void *arg) {
    held_copy *h = arg;
    while (!atomic_load_explicit(&h->hold.inside, memory_order_acquire)) sched_yield();
    atomic_store_explicit(&h->done.abort, 7, memory_order_release);
    CHECK(written() == 0);
    atomic_store_explicit(&h->hold.held, 0, memory_order_release);
    kvf_wake_all(&h->hold.held);
}

static void check_abort_under_way(const kvf_variant *v, uint64_t block) {
    held_copy h = {.variant = v, .hold = {.held = 1}, .block = block};
    wipe_big();
    in_parallel(1, held_body, &h, abort_held);
    CHECK(h.outcome == KVF_ABORTED);
    CHECK(written() == (block == BIG ? KVF_CHUNK : KVF_CHUNK / block * block));
}

static void check_brake(const kvf_variant *v) {
    kvf_done done = {.word = {0}};
    kvf_brake brake = {&done, 9, KVF_FOREVER, NULL};
    wipe_big();
    atomic_store_explicit(&done.abort, 9, memory_order_release);
    CHECK(copy_big(v, &brake, 4096) == KVF_ABORTED && written() == 0);
    atomic_store_explicit(&done.abort, 0, memory_order_release);
    brake.deadline = kvf_now();
    CHECK(copy_big(v, &brake, BIG) == KVF_EXPIRED && written() == 0);
    brake.deadline = kvf_now() + 3600 * 1000000000ull;
    for (uint64_t other = 8; other <= 10; other += 2) { /* of the transfer before, and of the next */
        wipe_big();
        atomic_store_explicit(&done.abort, other, memory_order_release);
        CHECK(copy_big(v, &brake, 4096) == KVF_OK && written() == BIG);
    }
}

/* A deadline that passes under way leaves whole chunks. */
static void check_deadline_under_way(const kvf_variant *v) {
    kvf_done done = {.word = {0}};
    kvf_outcome outcome = KVF_OK;
    for (uint64_t ns = 1000; outcome == KVF_OK || !written(); ns += 5000) {
        wipe_big();
        kvf_brake brake = {&done, 9, kvf_now() + ns, NULL};
        outcome = copy_big(v, &brake, BIG);
        CHECK(outcome == KVF_OK ? written() == BIG : written() % KVF_CHUNK == 0);
        if (outcome == KVF_OK) return; /* too fast to be stopped in between */
    }
}

int main(void) {
    fill();
    for (size_t i = 0; i < KVF_VARIANTS; i++) {
        const kvf_variant *v = &kvf_variants[i];
        if (!kvf_variant_runs(v)) continue;
        check_short(v);
        check_long(v);
        check_runs(v);
        check_brake(v);
        check_abort_under_way(v, 4096);
        check_abort_under_way(v, 7 * 4096);
        check_abort_under_way(v, BIG);
        check_deadline_under_way(v);
    }
    return 0;
}

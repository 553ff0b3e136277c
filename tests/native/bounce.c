/* Staging: contents and counts against a plain model, failures of the inner mover, and a pool with
 * fewer buffers than threads. */
#include "bounce.h"
#include "parallel.h"

#define AREA (64u << 10)
#define PIECES 48u
#define BATCHES ALONE(300)
#define THREADS 6u

static uint64_t random_state = 1;

/* ---- an inner mover that remembers, and fails when told to ---- */

typedef struct recorder {
    kvf_mover mover;
    _Atomic uint64_t runs, bytes, through; /* `through`: bytes whose local side was in the pool */
    uint64_t low, high;                    /* of the pool's memory */
    uint64_t fails_at;                     /* this run moves half of it and fails; 0: none does */
    kvf_outcome failure;
} recorder;

static kvf_outcome record(kvf_mover *m, kvf_run r, kvf_op op, const kvf_brake *brake) {
    recorder *to = (recorder *)m;
    uint64_t number = atomic_fetch_add_explicit(&to->runs, 1, memory_order_relaxed) + 1;
    bool fails = number == to->fails_at;
    CHECK(r.bytes);
    if (fails) r.bytes = r.bytes / 2;
    kvf_run rest = r;
    for (kvf_piece p; kvf_next_piece(&rest, UINT64_MAX, &p);) {
        atomic_fetch_add_explicit(&to->bytes, p.length, memory_order_relaxed);
        if (p.local >= to->low && p.local < to->high) {
            CHECK(p.local + p.length <= to->high);
            atomic_fetch_add_explicit(&to->through, p.length, memory_order_relaxed);
        }
    }
    kvf_outcome outcome = kvf_run_plain(r, op, brake);
    return fails ? to->failure : outcome;
}

static recorder recorder_of(const kvf_pool *p) {
    return (recorder){.mover = {record}, .low = p->memory, .high = p->memory + p->length};
}

/* ---- random batches against a model ---- */

typedef struct scene {
    unsigned char here[AREA], there[AREA], wanted[AREA];
    kvf_descriptor d[PIECES];
    kvf_run run;
    uint64_t delta;
} scene;

/* Disjoint pieces on either side; some follow each other on both, so that they are one piece. */
static void deal(scene *s, uint64_t n, kvf_op op) {
    const uint64_t slot = AREA / PIECES;
    random_bytes(&random_state, s->here, AREA);
    random_bytes(&random_state, s->there, AREA);
    memcpy(s->wanted, op == KVF_WRITE ? s->there : s->here, AREA);
    s->delta = random_below(&random_state, 1u << 20);
    s->run = (kvf_run){.d = s->d, .delta = s->delta};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t a = random_below(&random_state, 3) ? i : n - 1 - i, at = i * slot;
        uint64_t length = random_below(&random_state, 2) ? slot : 1 + random_below(&random_state, slot);
        a = op == KVF_WRITE ? a * slot : at;
        uint64_t b = op == KVF_WRITE ? at : (random_below(&random_state, 3) ? i : n - 1 - i) * slot;
        s->d[i] = (kvf_descriptor){(uintptr_t)(s->here + a), (uintptr_t)(s->there + b) - s->delta, length};
        if (op == KVF_WRITE) memcpy(s->wanted + b, s->here + a, length);
        else memcpy(s->wanted + a, s->there + b, length);
        s->run.bytes += length;
    }
}

static uint64_t staged_by_rule(kvf_run r, uint64_t below, bool lone_too) {
    uint64_t bytes = 0, pieces = 0;
    for (kvf_piece p; kvf_next_piece(&r, UINT64_MAX, &p); pieces++)
        if (p.length < below) bytes += p.length;
    return pieces > 1 || lone_too ? bytes : 0;
}

static void check_batch(kvf_pool *pool, uint64_t below, bool lone_too, kvf_op op) {
    static scene s;
    kvf_done done;
    memset(&done, 0, sizeof done);
    kvf_done_begin(&done);
    kvf_brake brake = {&done, done.sequence, KVF_FOREVER, NULL};
    recorder inner = recorder_of(pool);
    kvf_bounce b = lone_too ? kvf_bounce_all(&inner.mover, pool) : kvf_bounce_short(&inner.mover, pool);
    b.below = below;
    deal(&s, 1 + random_below(&random_state, PIECES), op);
    uint64_t skip = random_below(&random_state, s.d[0].length);
    if (skip && skip < s.run.bytes) {
        unsigned char *kept = op == KVF_WRITE ? s.there + (s.d[0].remote + s.delta - (uintptr_t)s.there)
                                              : s.here + (s.d[0].local - (uintptr_t)s.here);
        memcpy(s.wanted + (kept - (op == KVF_WRITE ? s.there : s.here)), kept, skip);
        kvf_skip(&s.run, skip);
    }
    CHECK(b.mover.run(&b.mover, s.run, op, &brake) == KVF_OK);
    CHECK(memcmp(op == KVF_WRITE ? s.there : s.here, s.wanted, AREA) == 0);
    uint64_t staged = staged_by_rule(s.run, below, lone_too);
    CHECK(done.staged == staged && inner.through == staged && inner.bytes == s.run.bytes);
}

static void check_batches(void) {
    const uint64_t sizes[] = {1, 64, 1000, 4096, AREA};
    const uint64_t belows[] = {0, 1, 700, AREA / PIECES, AREA / PIECES + 1, KVF_ANY_LENGTH};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kvf_pool *pool = kvf_pool_new(2, sizes[i]);
        CHECK(pool);
        for (int n = 0; n < (sizes[i] == 1 ? 4 : BATCHES); n++)
            check_batch(pool, belows[random_below(&random_state, 6)], n % 2, n / 2 % 2);
        kvf_pool_free(pool);
    }
}

/* ---- more pieces than a round has records ---- */

static void check_many_pieces(void) {
    enum { MANY = 3 * KVF_ROUND_PIECES + 7 };
    static unsigned char here[2 * MANY], there[MANY];
    static kvf_descriptor d[MANY];
    kvf_pool *pool = kvf_pool_new(1, 1u << 20);
    recorder inner = recorder_of(pool);
    kvf_bounce b = kvf_bounce_short(&inner.mover, pool);
    kvf_done done;
    memset(&done, 0, sizeof done);
    kvf_done_begin(&done);
    random_bytes(&random_state, here, sizeof here);
    for (uint64_t i = 0; i < MANY; i++)
        d[i] = (kvf_descriptor){(uintptr_t)(here + 2 * i), (uintptr_t)(there + i), 1};
    kvf_brake brake = {&done, done.sequence, KVF_FOREVER, NULL};
    CHECK(b.mover.run(&b.mover, (kvf_run){d, 0, MANY, 0}, KVF_WRITE, &brake) == KVF_OK);
    for (uint64_t i = 0; i < MANY; i++) CHECK(there[i] == here[2 * i]);
    CHECK(inner.runs == 4 && done.staged == MANY);
    kvf_pool_free(pool);
}

/* ---- a read that fails in round 3 of many ---- */

static void check_failure(kvf_outcome failure) {
    enum { PIECE = 100, COUNT = 16, ROUND = 4 };
    unsigned char here[2 * PIECE * COUNT], there[PIECE * COUNT];
    kvf_descriptor d[COUNT];
    kvf_pool *pool = kvf_pool_new(1, ROUND * PIECE);
    recorder inner = recorder_of(pool);
    inner.fails_at = 3, inner.failure = failure;
    kvf_bounce b = kvf_bounce_all(&inner.mover, pool);
    kvf_done done;
    memset(&done, 0, sizeof done);
    kvf_done_begin(&done);
    kvf_brake brake = {&done, done.sequence, KVF_FOREVER, NULL};
    memset(here, 0xAA, sizeof here);
    memset(there, 0x55, sizeof there);
    for (uint64_t i = 0; i < COUNT; i++)
        d[i] = (kvf_descriptor){(uintptr_t)(here + 2 * i * PIECE), (uintptr_t)(there + i * PIECE), PIECE};
    CHECK(b.mover.run(&b.mover, (kvf_run){d, 0, sizeof there, 0}, KVF_READ, &brake) == failure);
    for (uint64_t i = 0; i < sizeof here; i++)
        CHECK(here[i] == (i / PIECE % 2 == 0 && i / PIECE / 2 < 2 * ROUND ? 0x55 : 0xAA));
    CHECK(inner.runs == 3 && done.staged == 2 * ROUND * PIECE);
    kvf_buffer *given_back;
    CHECK(kvf_pool_take(pool, &brake, &given_back) == KVF_OK);
    kvf_pool_give(pool, given_back);
    kvf_pool_free(pool);
}

/* ---- brakes ---- */

static void check_brakes(void) {
    unsigned char here[64] = {1}, there[64] = {0};
    kvf_descriptor d = {(uintptr_t)here, (uintptr_t)there, sizeof here};
    kvf_run run = {&d, 0, sizeof here, 0};
    kvf_pool *pool = kvf_pool_new(1, 4096);
    recorder inner = recorder_of(pool);
    kvf_bounce b = kvf_bounce_all(&inner.mover, pool);
    kvf_done done;
    memset(&done, 0, sizeof done);
    kvf_done_begin(&done);
    kvf_brake brake = {&done, done.sequence, KVF_FOREVER, NULL};
    kvf_buffer *only;
    CHECK(kvf_pool_take(pool, &brake, &only) == KVF_OK);
    brake.deadline = kvf_now() + 20000000ull; /* nobody gives a buffer back until then */
    CHECK(b.mover.run(&b.mover, run, KVF_WRITE, &brake) == KVF_EXPIRED);
    kvf_pool_give(pool, only);
    brake.deadline = KVF_FOREVER;
    kvf_done_abort(&done);
    CHECK(b.mover.run(&b.mover, run, KVF_WRITE, &brake) == KVF_ABORTED);
    CHECK(inner.runs == 0 && there[0] == 0 && done.staged == 0);
    kvf_pool_free(pool);
}

/* ---- more threads than buffers ---- */

typedef struct crowd {
    kvf_pool *pool;
    recorder inner;
    kvf_done done[THREADS];
} crowd;

static void work(void *arg, unsigned index) {
    enum { COUNT = 20, PIECE = 333 };
    crowd *c = arg;
    unsigned char here[COUNT * PIECE], there[COUNT * PIECE], back[COUNT * PIECE];
    kvf_descriptor out[COUNT], in[COUNT];
    uint64_t random = index + 100;
    kvf_bounce b = kvf_bounce_all(&c->inner.mover, c->pool);
    kvf_done_begin(&c->done[index]);
    kvf_brake brake = {&c->done[index], c->done[index].sequence, KVF_FOREVER, NULL};
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t k = (i * 7 + index) % COUNT;
        out[i] = (kvf_descriptor){(uintptr_t)(here + i * PIECE), (uintptr_t)(there + k * PIECE), PIECE};
        in[i] = (kvf_descriptor){(uintptr_t)(back + i * PIECE), (uintptr_t)(there + k * PIECE), PIECE};
    }
    for (int round = 0; round < 40; round++) {
        random_bytes(&random, here, sizeof here);
        CHECK(b.mover.run(&b.mover, (kvf_run){out, 0, sizeof here, 0}, KVF_WRITE, &brake) == KVF_OK);
        CHECK(b.mover.run(&b.mover, (kvf_run){in, 0, sizeof here, 0}, KVF_READ, &brake) == KVF_OK);
        CHECK(memcmp(here, back, sizeof here) == 0);
    }
    CHECK(c->done[index].staged == 80 * sizeof here);
}

static void check_crowd(void) {
    static crowd c;
    c.pool = kvf_pool_new(2, 1000);
    c.inner = recorder_of(c.pool);
    in_parallel(THREADS, work, &c, NULL);
    CHECK(c.inner.through == c.inner.bytes);
    kvf_pool_free(c.pool);
}

int main(void) {
    check_batches();
    check_many_pieces();
    const kvf_outcome failures[] = {KVF_ABORTED, KVF_EXPIRED, KVF_LOST, KVF_REFUSED, KVF_FAULT};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) check_failure(failures[i]);
    check_brakes();
    check_crowd();
    return 0;
}

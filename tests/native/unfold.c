/* Batches on a control stream: contents, the ring's wrap, drops at any moment, late refusals. */
#include "engines.h"
#include "parallel.h"

#define SLOTS 3u
#define PRODUCERS 4u
#define BATCHES 25
#define PIECES 300u
#define GRAIN 16u

static kvf_engines *start(unsigned threads) {
    kvf_engines *e = kvf_engines_new(kvf_best_nt());
    CHECK(e && kvf_engines_start(e, threads) == 0);
    return e;
}

static void end(kvf_engines *e) {
    kvf_engines_stop(e);
    kvf_engines_free(e);
}

static kvf_stream *control_new(uint32_t most) {
    kvf_stream *s = kvf_stream_new();
    CHECK(s && kvf_bind(s, most));
    return s;
}

static bool publish(kvf_engines *e, kvf_stream *s, kvf_done *done, kvf_op op, const kvf_batch *batch,
                    kvf_run run) {
    kvf_entry entry = {.kind = KVF_ENTRY_BATCH, .op = op, .done = done, .sequence = done->sequence,
                       .batch = batch, .run = run};
    if (!kvf_ring_push(&s->ring, &entry)) return false;
    kvf_doorbell(e, s, true);
    return true;
}

static void wait_quiet(kvf_done *done) {
    while (!kvf_done_wait(done, KVF_FOREVER)) continue;
}

/* ---- several producers on shared slots ---- */

typedef struct slot {
    kvf_stream *control;
    pthread_mutex_t lock; /* one publishes at a time */
} slot;

typedef struct producer {
    unsigned char here[PIECES * GRAIN], there[2 * PIECES * GRAIN];
    kvf_done *done;
} producer;

typedef struct scene {
    kvf_engines *engines;
    slot slot[SLOTS];
    producer p[PRODUCERS];
} scene;

static void publish_patiently(kvf_engines *e, slot *s, kvf_done *done, const kvf_batch *batch,
                              kvf_run run) {
    for (;;) {
        pthread_mutex_lock(&s->lock);
        bool pushed = publish(e, s->control, done, KVF_WRITE, batch, run);
        pthread_mutex_unlock(&s->lock);
        if (pushed) return;
        kvf_await_room(s->control, KVF_FOREVER);
    }
}

/* Grains of `here`, in an order of their own, to every second grain of `there`: none can be joined. */
static void scatter(kvf_descriptor *d, uint64_t n, uint64_t shift, producer *p) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t to = (i * 7 + shift) % PIECES;
        d[i] = (kvf_descriptor){(uintptr_t)p->here + i * GRAIN, (uintptr_t)p->there + 2 * to * GRAIN,
                                GRAIN};
    }
}

static void check_arrived(const producer *p, uint64_t n, uint64_t shift) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t to = (i * 7 + shift) % PIECES;
        CHECK(!memcmp(p->here + i * GRAIN, p->there + 2 * to * GRAIN, GRAIN));
    }
}

static void one_batch(scene *s, producer *p, uint64_t *random) {
    uint64_t n = 1 + random_below(random, PIECES), shift = random_below(random, PIECES);
    /* On the heap, so that a look at them after the end is found. */
    kvf_descriptor *d = malloc(n * sizeof *d);
    kvf_batch *batch = calloc(1, sizeof *batch);
    CHECK(d && batch);
    random_bytes(random, p->here, n * GRAIN);
    memset(p->there, 0, sizeof p->there);
    scatter(d, n, shift, p);
    kvf_done_begin(p->done);
    publish_patiently(s->engines, &s->slot[random_below(random, SLOTS)], p->done, batch,
                      (kvf_run){d, 0, n * GRAIN, 0});
    if (random_below(random, 3) == 0) {
        for (uint64_t k = random_below(random, 2000); k--;) kvf_relax();
        kvf_done_abort(p->done);
        kvf_done_drop(p->done);
    }
    wait_quiet(p->done);
    uint32_t outcome = kvf_done_outcome(p->done);
    CHECK(outcome == KVF_OK || outcome == KVF_ABORTED);
    if (!outcome) check_arrived(p, n, shift);
    free(d);
    free(batch);
}

static void produce(void *arg, unsigned index) {
    scene *s = arg;
    uint64_t random = index + 1;
    for (int i = 0; i < BATCHES; i++) one_batch(s, &s->p[index], &random);
}

static void check_producers(unsigned threads, uint32_t most) {
    static scene s;
    s.engines = start(threads);
    for (unsigned i = 0; i < SLOTS; i++) {
        s.slot[i].control = control_new(most);
        pthread_mutex_init(&s.slot[i].lock, NULL);
    }
    for (unsigned i = 0; i < PRODUCERS; i++) s.p[i].done = kvf_line_take(s.engines);
    in_parallel(PRODUCERS, produce, &s, NULL);
    for (unsigned i = 0; i < PRODUCERS; i++) kvf_line_give(s.engines, s.p[i].done);
    for (unsigned i = 0; i < SLOTS; i++) { /* some still busy: freed by who is at them */
        kvf_stream_free(s.engines, s.slot[i].control);
        pthread_mutex_destroy(&s.slot[i].lock);
    }
    CHECK(atomic_load_explicit(&s.engines->unfold_ns, memory_order_relaxed) > 0);
    end(s.engines);
}

/* ---- the ring ---- */

/* Records of one byte each, more than the ring has, through every kind of wrap. */
static void check_wrap(uint32_t most) {
    enum { MANY = 5000 };
    static unsigned char from[MANY], to[2 * MANY];
    static kvf_descriptor d[MANY];
    kvf_engines *e = start(2);
    kvf_stream *s = control_new(most);
    kvf_done *done = kvf_line_take(e);
    kvf_batch batch = {0};
    uint32_t sizes[] = {0, 1, KVF_LOGICAL_MOST, KVF_WORK_RECORDS - 1, KVF_WORK_RECORDS,
                        KVF_WORK_RECORDS + 1, MANY};
    kvf_slot_of(s)->written = UINT32_MAX - 700; /* the counter's own wrap comes soon */
    atomic_store_explicit(&s->worker->notified.now, UINT32_MAX - 700, memory_order_relaxed);
    for (uint32_t i = 0; i < MANY; i++)
        d[i] = (kvf_descriptor){(uintptr_t)&from[i], (uintptr_t)&to[2 * i], 1};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint32_t n = sizes[k];
        memset(from, (int)k + 1, MANY);
        kvf_done_begin(done);
        CHECK(publish(e, s, done, KVF_WRITE, &batch, (kvf_run){d, 0, n, 0}));
        wait_quiet(done);
        CHECK(kvf_done_outcome(done) == KVF_OK);
        CHECK(atomic_load_explicit(&done->batches, memory_order_relaxed) == (n + most - 1) / most);
        for (uint32_t i = 0; i < n; i++) CHECK(to[2 * i] == k + 1 && to[2 * i + 1] == 0);
    }
    CHECK(kvf_stream_settle(e, s, KVF_FOREVER));
    kvf_stream_free(e, s);
    kvf_line_give(e, done);
    end(e);
}

/* ---- drops ---- */

/* While the first is held in its chunk the second is dropped: over at once, its memory not looked at
 * again, and its line at once in use for the third. */
static void check_drop(void) {
    enum { SIZE = 1000 };
    static unsigned char from[SIZE], to[3][SIZE];
    kvf_engines *e = start(2);
    kvf_stream *s = control_new(KVF_LOGICAL_MOST);
    kvf_done *first = kvf_line_take(e), *line = kvf_line_take(e);
    kvf_descriptor d = {(uintptr_t)from, (uintptr_t)to[0], SIZE};
    kvf_descriptor last = {(uintptr_t)from, (uintptr_t)to[2], SIZE};
    kvf_descriptor *gone = malloc(sizeof *gone);
    kvf_batch batch = {0}, *none = calloc(1, sizeof *none);
    CHECK(gone && none);
    memset(from, 3, SIZE);
    *gone = (kvf_descriptor){(uintptr_t)from, (uintptr_t)to[1], SIZE};
    kvf_engines_hold(e, true, 0);
    kvf_done_begin(first);
    CHECK(publish(e, s, first, KVF_WRITE, &batch, (kvf_run){&d, 0, SIZE, 0}));
    while (kvf_engines_held(e) == 0) sched_yield();
    kvf_done_begin(line);
    CHECK(publish(e, s, line, KVF_WRITE, none, (kvf_run){gone, 0, SIZE, 0}));
    kvf_done_abort(line);
    kvf_done_drop(line);
    CHECK(kvf_done_quiet(line) && kvf_done_outcome(line) == KVF_ABORTED);
    free(gone);
    free(none);
    kvf_done_begin(line);
    CHECK(publish(e, s, line, KVF_WRITE, &batch, (kvf_run){&last, 0, SIZE, 0}));
    kvf_done_abort(first); /* begun: over only behind its chunk */
    kvf_done_drop(first);
    CHECK(!kvf_done_quiet(first) && kvf_stream_busy(e, s));
    kvf_engines_hold(e, false, 0);
    wait_quiet(line);
    wait_quiet(first);
    CHECK(kvf_done_outcome(line) == KVF_OK && !memcmp(to[2], from, SIZE));
    CHECK(to[1][0] == 0 && to[1][SIZE - 1] == 0);
    kvf_stream_free(e, s);
    kvf_line_give(e, first);
    kvf_line_give(e, line);
    end(e);
}

/* ---- an engine that leaves the worker for another stream ---- */

typedef struct napper {
    kvf_mover mover;
    uint64_t ns;
    _Atomic uint32_t naps;
    _Atomic uint64_t last; /* when the last one began */
    _Atomic pthread_t by;
} napper;

static kvf_outcome nap(kvf_mover *m, kvf_run r, kvf_op op, const kvf_brake *brake) {
    (void)r, (void)op, (void)brake;
    napper *n = (napper *)m;
    struct timespec asleep = {0, (long)n->ns};
    atomic_store(&n->by, pthread_self());
    atomic_store(&n->last, kvf_now());
    atomic_fetch_add(&n->naps, 1);
    nanosleep(&asleep, NULL);
    return KVF_OK;
}

/* How long nobody was at the worker after its engine had gone elsewhere; 0 when another one went. */
static uint64_t gap_at_the_worker(void) {
    static unsigned char from[2 * KVF_WORK_RECORDS], to[2 * KVF_WORK_RECORDS];
    static kvf_descriptor d[KVF_WORK_RECORDS];
    napper batch_mover = {.mover = {nap}, .ns = 1000000}, other_mover = {.mover = {nap}, .ns = 150000000};
    kvf_engines *e = start(2);
    kvf_stream *control = control_new(32), *other = kvf_stream_new();
    kvf_done *done = kvf_line_take(e), *away = kvf_line_take(e);
    kvf_batch batch = {.mover = &batch_mover.mover};
    for (uint64_t i = 0; i < KVF_WORK_RECORDS; i++)
        d[i] = (kvf_descriptor){(uintptr_t)from + 2 * i, (uintptr_t)to + 2 * i, 1};
    kvf_done_begin(done), kvf_done_begin(away);
    CHECK(publish(e, control, done, KVF_WRITE, &batch, (kvf_run){d, 0, KVF_WORK_RECORDS, 0}));
    while (atomic_load(&batch_mover.naps) < 4) kvf_wake_engines(e); /* one unfolds, one is at the worker */
    kvf_entry copy = {.kind = KVF_ENTRY_COPY, .done = away, .sequence = away->sequence,
                      .mover = &other_mover.mover, .run = {d, 0, 1, 0}};
    kvf_entry flag = {.kind = KVF_ENTRY_FLAG, .done = away, .sequence = away->sequence};
    CHECK(kvf_ring_push(&other->ring, &copy) && kvf_ring_push(&other->ring, &flag));
    kvf_doorbell(e, other, true);
    while (!atomic_load(&other_mover.naps)) sched_yield();
    uint64_t left = atomic_load(&other_mover.last), last;
    bool same = atomic_load(&other_mover.by) == atomic_load(&batch_mover.by);
    while ((last = atomic_load(&batch_mover.last)) < left && !kvf_done_quiet(done)) sched_yield();
    wait_quiet(done), wait_quiet(away);
    kvf_stream_free(e, control), kvf_stream_free(e, other);
    kvf_line_give(e, done), kvf_line_give(e, away);
    end(e);
    return same && last > left ? last - left : 0;
}

static void check_left_alone(void) {
    uint64_t shortest = KVF_FOREVER;
    for (int round = 0; round < 8 && shortest > KVF_SLICE_NS / 3; round++) {
        uint64_t gap = gap_at_the_worker();
        if (gap && gap < shortest) shortest = gap;
    }
    CHECK(shortest == KVF_FOREVER || shortest < KVF_SLICE_NS / 3);
}

/* ---- late checks ---- */

static void check_late(void) {
    static unsigned char from[64], to[2][32];
    kvf_engines *e = start(1);
    kvf_stream *s = control_new(3);
    kvf_done *done = kvf_line_take(e);
    kvf_span span[2];
    for (int i = 0; i < 2; i++) /* adjacent there, in the other order here */
        span[i] = (kvf_span){.base = 1000 + 32 * (uint64_t)i, .length = 32, .writable = true,
                             .delta = (uintptr_t)to[1 - i] - (1000 + 32 * (uint64_t)i)};
    kvf_span *row[] = {&span[0], &span[1]};
    kvf_descriptor d[64];
    kvf_batch batch = {NULL, {64, {NULL, 0}, {row, 2}, 0}};
    for (unsigned i = 0; i < 64; i++) {
        from[i] = (unsigned char)(i + 1);
        d[i] = (kvf_descriptor){(uintptr_t)&from[i], 1000 + i, 1};
    }
    d[40].remote = 1064;
    kvf_done_begin(done);
    CHECK(publish(e, s, done, KVF_WRITE, &batch, (kvf_run){d, 0, 64, 0}));
    wait_quiet(done);
    CHECK(kvf_done_outcome(done) == KVF_REFUSED && !to[0][0] && !to[1][0]);
    CHECK(done->verdict == KVF_UNKNOWN && done->side == KVF_REMOTE && done->address == 1064);
    d[40].remote = 1040;
    kvf_done_begin(done);
    CHECK(publish(e, s, done, KVF_WRITE, &batch, (kvf_run){d, 0, 64, 0}));
    wait_quiet(done);
    CHECK(kvf_done_outcome(done) == KVF_OK);
    CHECK(!memcmp(to[1], from, 32) && !memcmp(to[0], from + 32, 32));
    CHECK(kvf_stream_settle(e, s, KVF_FOREVER));
    kvf_stream_free(e, s);
    kvf_line_give(e, done);
    end(e);
}

int main(void) {
    check_producers(1, 7);
    check_producers(3, 7);
    check_producers(2, KVF_LOGICAL_MOST);
    check_wrap(1);
    check_wrap(7);
    check_wrap(KVF_LOGICAL_MOST);
    check_drop();
    check_left_alone();
    check_late();
    return 0;
}

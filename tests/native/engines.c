/* Copy engines under several producers: contents, order within a stream, abort, stop, settle. */
#include "engines.h"
#include "parallel.h"

#define PRODUCERS 4u
#define STREAMS 3u
#define TRANSFERS 25
#define PIECES 24u
#define AREA (96u << 10)

static kvf_entry copy_entry(kvf_done *done, kvf_run run, kvf_op op) {
    return (kvf_entry){.kind = KVF_ENTRY_COPY, .op = op, .done = done, .sequence = done->sequence,
                       .run = run};
}

static void push(kvf_stream *s, kvf_entry e) { CHECK(kvf_ring_push(&s->ring, &e)); }

static void push_flag(kvf_stream *s, kvf_done *done, uint64_t word) {
    push(s, (kvf_entry){.kind = KVF_ENTRY_FLAG, .done = done, .sequence = done->sequence, .word = word});
}

static void wait_quiet(kvf_done *done) {
    while (!kvf_done_wait(done, KVF_FOREVER)) continue;
}

static void free_stream(kvf_engines *e, kvf_stream *s) {
    CHECK(kvf_stream_settle(e, s, KVF_FOREVER) && !kvf_stream_busy(e, s));
    free(s);
}

static kvf_engines *start(unsigned threads) {
    kvf_engines *e = kvf_engines_new(kvf_best_nt());
    CHECK(e && kvf_engines_start(e, threads) == 0);
    return e;
}

static void end(kvf_engines *e) {
    kvf_engines_stop(e);
    kvf_engines_free(e);
}

/* ---- several producers ---- */

typedef struct producer {
    unsigned char here[AREA], there[AREA], wanted[AREA];
    kvf_stream *stream[STREAMS];
    kvf_done *done;
    uint64_t bytes;
} producer;

typedef struct scene {
    kvf_engines *engines;
    producer p[PRODUCERS];
} scene;

/* Disjoint pieces of a random place each, so that streams may carry them out in any order. */
static uint64_t scatter(producer *p, uint64_t *random, kvf_op op, kvf_descriptor *d) {
    const uint64_t slot = AREA / PIECES;
    uint64_t bytes = 0, shift = random_below(random, PIECES);
    memcpy(p->wanted, op == KVF_WRITE ? p->there : p->here, AREA);
    for (uint64_t i = 0; i < PIECES; i++) {
        uint64_t length = random_below(random, 3) ? slot : 1 + random_below(random, slot);
        uint64_t to = (i * 7 + shift) % PIECES * slot, from = random_below(random, AREA - length);
        unsigned char *local = p->here + (op == KVF_WRITE ? from : to);
        unsigned char *remote = p->there + (op == KVF_WRITE ? to : from);
        d[i] = (kvf_descriptor){(uintptr_t)local, (uintptr_t)remote, length};
        memcpy(p->wanted + to, op == KVF_WRITE ? local : remote, length);
        bytes += length;
    }
    return bytes;
}

static void transfer(kvf_engines *e, producer *p, uint64_t *random, kvf_op op) {
    kvf_descriptor d[PIECES];
    uint64_t bytes = scatter(p, random, op, d);
    kvf_run rest = {d, 0, bytes, 0};
    kvf_done_begin(p->done);
    kvf_done_spread(p->done, STREAMS);
    for (unsigned i = 0; i < STREAMS; i++) {
        kvf_run run = rest;
        if (i + 1 < STREAMS) run.bytes = bytes / STREAMS;
        kvf_skip(&rest, run.bytes);
        push(p->stream[i], copy_entry(p->done, run, op));
        push_flag(p->stream[i], p->done, i);
        kvf_doorbell(e, p->stream[i], i + 1 < STREAMS);
    }
    if (random_below(random, 2))
        for (unsigned i = STREAMS; i--;) kvf_help(e, p->stream[i], p->done, KVF_FOREVER);
    else kvf_wake_engines(e);
    wait_quiet(p->done);
    CHECK(kvf_done_outcome(p->done) == KVF_OK);
    CHECK(memcmp(op == KVF_WRITE ? p->there : p->here, p->wanted, AREA) == 0);
    p->bytes += bytes;
}

static void produce(void *arg, unsigned index) {
    scene *s = arg;
    producer *p = &s->p[index];
    uint64_t random = index + 1;
    for (int i = 0; i < TRANSFERS; i++) {
        for (unsigned k = 0; k < AREA; k += 64) p->here[k + random_below(&random, 64)]++;
        transfer(s->engines, p, &random, i % 3 ? KVF_WRITE : KVF_READ);
    }
}

static void check_producers(unsigned threads) {
    static scene s;
    uint64_t bytes = 0, random = 29;
    s.engines = start(threads);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producer *p = &s.p[i];
        random_bytes(&random, p->here, 4096);
        random_bytes(&random, p->there, 4096);
        p->done = kvf_line_take(s.engines);
        p->bytes = 0;
        for (unsigned k = 0; k < STREAMS; k++) p->stream[k] = kvf_stream_new();
    }
    in_parallel(PRODUCERS, produce, &s, NULL);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        bytes += s.p[i].bytes;
        for (unsigned k = 0; k < STREAMS; k++) free_stream(s.engines, s.p[i].stream[k]);
        kvf_line_give(s.engines, s.p[i].done);
    }
    CHECK(kvf_engines_bytes(s.engines) == bytes);
    end(s.engines);
}

/* ---- order ---- */

/* Each copy of a chain moves what the one before it brought, a full ring of them behind one flag. */
static void check_order(void) {
    enum { LINKS = KVF_RING_ENTRIES - 1, SIZE = 2048 };
    static unsigned char step[LINKS + 1][SIZE];
    kvf_descriptor d[LINKS];
    kvf_engines *e = start(3);
    kvf_stream *s = kvf_stream_new();
    kvf_done *done = kvf_line_take(e);
    for (int round = 0; round < 20; round++) {
        memset(step, 0, sizeof step);
        memset(step[0], round + 1, SIZE);
        kvf_done_begin(done);
        for (unsigned i = 0; i < LINKS; i++) {
            d[i] = (kvf_descriptor){(uintptr_t)step[i], (uintptr_t)step[i + 1], SIZE};
            push(s, copy_entry(done, (kvf_run){&d[i], 0, SIZE, 0}, KVF_WRITE));
            if (i % 7 == 0) kvf_doorbell(e, s, true); /* a bell for a busy stream changes nothing */
        }
        push_flag(s, done, 0);
        kvf_doorbell(e, s, true);
        wait_quiet(done);
        CHECK(memcmp(step[LINKS], step[0], SIZE) == 0);
    }
    free_stream(e, s);
    kvf_line_give(e, done);
    end(e);
}

/* ---- abort, hold ---- */

#define BIG (3 * KVF_CHUNK)
static unsigned char big_source[BIG], big_target[BIG];

static void await_held(kvf_engines *e) {
    while (!kvf_engines_held(e)) sched_yield();
}

static bool all_are(const unsigned char *bytes, size_t n, unsigned char value) {
    return bytes[0] == value && memcmp(bytes, bytes + 1, n - 1) == 0;
}

/* One copy has begun a chunk, one has not begun: the chunk is written, and nothing else. The next
 * transfer on the same line and stream is not aborted. */
static void check_abort(void) {
    kvf_engines *e = start(1);
    kvf_stream *first = kvf_stream_new(), *second = kvf_stream_new();
    kvf_done *done = kvf_line_take(e);
    const kvf_descriptor d[] = {{(uintptr_t)big_source, (uintptr_t)big_target, BIG}};
    memset(big_source, 5, BIG);
    memset(big_target, 0, BIG);
    kvf_done_begin(done);
    kvf_done_spread(done, 2);
    kvf_engines_hold(e, true, 0);
    push(first, copy_entry(done, (kvf_run){d, 0, 2 * KVF_CHUNK, 0}, KVF_WRITE));
    push_flag(first, done, 0);
    kvf_doorbell(e, first, true);
    await_held(e);
    push(second, copy_entry(done, (kvf_run){d, 2 * KVF_CHUNK, KVF_CHUNK, 0}, KVF_WRITE));
    push_flag(second, done, 1);
    kvf_doorbell(e, second, true);
    kvf_done_abort(done);
    CHECK(!kvf_done_wait(done, kvf_now() + 1000000) && !kvf_done_quiet(done));
    CHECK(!kvf_stream_settle(e, first, kvf_now() + 1000000) && kvf_stream_busy(e, first));
    CHECK(all_are(big_target, BIG, 0));
    kvf_engines_hold(e, false, 0);
    wait_quiet(done);
    CHECK(kvf_done_outcome(done) == KVF_ABORTED);
    CHECK(all_are(big_target, KVF_CHUNK, 5));
    CHECK(all_are(big_target + KVF_CHUNK, BIG - KVF_CHUNK, 0));
    CHECK(kvf_engines_bytes(e) == 0);
    kvf_done_begin(done);
    push(second, copy_entry(done, (kvf_run){d, 0, BIG, 0}, KVF_WRITE));
    push_flag(second, done, 0);
    kvf_doorbell(e, second, true);
    wait_quiet(done);
    CHECK(kvf_done_outcome(done) == KVF_OK && all_are(big_target, BIG, 5));
    free_stream(e, first);
    free_stream(e, second);
    kvf_line_give(e, done);
    end(e);
}

/* ---- help ---- */

/* Two transfers stand in one ring, and no engine runs: who waits for the first carries out that one,
 * whatever its deadline makes of it, and leaves the second alone. */
static void check_help(uint64_t deadline, kvf_outcome outcome) {
    enum { SIZE = 5000 };
    static unsigned char from[SIZE], to[2][SIZE];
    kvf_engines *e = start(0);
    kvf_stream *s = kvf_stream_new();
    kvf_descriptor d[2];
    kvf_done *done[2];
    memset(from, 3, SIZE);
    memset(to, 0, sizeof to);
    for (int i = 0; i < 2; i++) {
        d[i] = (kvf_descriptor){(uintptr_t)from, (uintptr_t)to[i], SIZE};
        done[i] = kvf_line_take(e);
        kvf_done_begin(done[i]);
        push(s, copy_entry(done[i], (kvf_run){&d[i], 0, SIZE, 0}, KVF_WRITE));
        push_flag(s, done[i], 0);
    }
    kvf_doorbell(e, s, true);
    kvf_help(e, s, done[1], KVF_FOREVER); /* not its turn */
    CHECK(!kvf_done_quiet(done[0]) && !kvf_done_quiet(done[1]));
    kvf_help(e, s, done[0], deadline);
    CHECK(kvf_done_quiet(done[0]) && kvf_done_outcome(done[0]) == outcome);
    CHECK(all_are(to[0], SIZE, outcome ? 0 : 3));
    CHECK(!kvf_done_quiet(done[1]) && kvf_done_outcome(done[1]) == KVF_OK);
    CHECK(all_are(to[1], SIZE, 0) && kvf_stream_busy(e, s));
    kvf_help(e, s, done[0], deadline); /* over already */
    CHECK(!kvf_done_quiet(done[1]));
    kvf_help(e, s, done[1], KVF_FOREVER);
    CHECK(kvf_done_quiet(done[1]) && kvf_done_outcome(done[1]) == KVF_OK);
    CHECK(all_are(to[1], SIZE, 3));
    free_stream(e, s);
    for (int i = 0; i < 2; i++) kvf_line_give(e, done[i]);
    end(e);
}

/* ---- stop ---- */

/* What was submitted is carried out, although nobody waits for it. */
static void check_stop_drains(void) {
    enum { MANY = 20, SIZE = 40000 };
    static unsigned char from[SIZE], to[MANY][SIZE];
    kvf_descriptor d[MANY];
    kvf_stream *s[MANY];
    kvf_done *done[MANY];
    kvf_engines *e = start(2);
    memset(from, 9, SIZE);
    for (int i = 0; i < MANY; i++) {
        d[i] = (kvf_descriptor){(uintptr_t)to[i], (uintptr_t)from, SIZE};
        s[i] = kvf_stream_new();
        done[i] = kvf_line_take(e);
        kvf_done_begin(done[i]);
        push(s[i], copy_entry(done[i], (kvf_run){&d[i], 0, SIZE, 0}, KVF_READ));
        push_flag(s[i], done[i], 0);
        kvf_doorbell(e, s[i], true);
    }
    kvf_engines_stop(e);
    for (int i = 0; i < MANY; i++) {
        CHECK(kvf_done_quiet(done[i]) && all_are(to[i], SIZE, 9));
        free_stream(e, s[i]);
        kvf_line_give(e, done[i]);
    }
    kvf_engines_free(e);
}

int main(void) {
    check_producers(1);
    check_producers(3);
    check_order();
    check_abort();
    check_help(KVF_FOREVER, KVF_OK);
    check_help(0, KVF_EXPIRED);
    check_stop_drains();
    return 0;
}

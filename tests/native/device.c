/* Memory that faults when it is touched: at the target of wires, and on the local side of staging. */
#include "bounce.h"
#include "device.h"
#include "target.h"

#define PAGE 4096u
#define PIECES 400u

static uint64_t random_state = 5;

/* ---- a target with a region of the host and one of a device ---- */

typedef struct mixed {
    target t;
    device far;
    kvf_span span;
    kvf_span *row[3];
    kvf_wire *wire;
} mixed;

static void mixed_start(mixed *m) {
    target_start(&m->t);
    m->far = device_new(AREA, 0);
    m->span = device_span(&m->far);
    bool behind = m->span.base > m->t.span[0].base;
    for (unsigned i = 0; i < 2; i++) m->row[i + !behind] = &m->t.span[i];
    m->row[behind ? 2 : 0] = &m->span;
    m->t.table.row = m->row, m->t.table.n = 3;
    m->wire = dial(&m->t, 1);
}

static void mixed_end(mixed *m) {
    kvf_wire_free(m->wire);
    target_end(&m->t);
    CHECK(kvf_gate_inside(&m->span.gate) == 0);
    device_free(&m->far);
}

/* ---- frames with pieces of both ---- */

static void check_frames(mixed *m, uint64_t most, kvf_op op) {
    static kvf_descriptor d[PIECES];
    static unsigned char *real[PIECES];
    kvf_done done = {0};
    uint64_t n = 0, bytes = 0, staged = 0, at = 0, host = 0, far = 0;
    for (; n < PIECES; n++) {
        bool device = random_below(&random_state, 2);
        uint64_t length = 1 + random_below(&random_state, most);
        if (at + length > AREA || host + length > HALF - GAP || far + length > AREA) break;
        real[n] = device ? m->far.alias + far : there + host;
        d[n] = (kvf_descriptor){(uintptr_t)here + at, (uintptr_t)(device ? m->far.face + far : real[n]), length};
        *(device ? &far : &host) += length + random_below(&random_state, 2);
        at += length, bytes += length;
        if (device) staged += length;
    }
    random_bytes(&random_state, here, at);
    for (uint64_t i = 0; op == KVF_READ && i < n; i++)
        random_bytes(&random_state, real[i], d[i].length);
    CHECK(move(m->wire, d, bytes, op, &done) == KVF_OK);
    for (uint64_t i = 0; i < n; i++) CHECK(memcmp((void *)d[i].local, real[i], d[i].length) == 0);
    CHECK(done.staged == staged && done.served == bytes);
}

static void check_target(void) {
    mixed m;
    const uint64_t most[] = {1, 300, 9000, KVF_FRAME_BYTES + 100};
    mixed_start(&m);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 2; k++) check_frames(&m, most[i], k % 2 ? KVF_READ : KVF_WRITE);
    mixed_end(&m);
}

/* ---- a device that fails: what it said is told, and the wire goes on ---- */

/* Is all behind so many frames as it was? */
static bool all_are(const unsigned char *area, unsigned frames, unsigned char value) {
    const unsigned char *rest = area + frames * KVF_FRAME_BYTES;
    uint64_t n = AREA - frames * KVF_FRAME_BYTES;
    return !n || (rest[0] == value && memcmp(rest, rest + 1, n - 1) == 0);
}

static void check_target_fails(kvf_op op) {
    mixed m;
    kvf_done done = {0};
    mixed_start(&m);
    const kvf_descriptor d = {(uintptr_t)here, (uintptr_t)m.far.face, AREA};
    for (unsigned frame = 1; frame <= 3; frame++) {
        m.far.calls = 0, m.far.fails_at = frame;
        memset(here, 1, AREA), memset(m.far.alias, 2, AREA);
        CHECK(move(m.wire, &d, AREA, op, &done) == KVF_DEVICE && done.code == DEVICE_CODE);
        CHECK(m.far.calls == frame && done.staged == (frame - 1) * KVF_FRAME_BYTES);
        CHECK(all_are(here, frame, 1) && all_are(m.far.alias, frame, 2));
        CHECK(move(m.wire, &d, AREA, op, &done) == KVF_OK && done.code == 0);
        CHECK(memcmp(here, m.far.alias, AREA) == 0);
    }
    mixed_end(&m);
}

/* ---- the gate is held while the device works ---- */

typedef struct slow {
    mixed m;
    _Atomic bool waiting;
} slow;

static void write_slowly(void *arg, unsigned index) {
    (void)index;
    slow *s = arg;
    kvf_done done = {0};
    const kvf_descriptor d = {(uintptr_t)here, (uintptr_t)s->m.far.face, PAGE};
    CHECK(move(s->m.wire, &d, PAGE, KVF_WRITE, &done) == KVF_OK);
    CHECK(move(s->m.wire, &d, PAGE, KVF_WRITE, &done) == KVF_REFUSED && done.verdict == KVF_STALE);
}

static void close_meanwhile(void *arg) {
    slow *s = arg;
    while (!atomic_load(&s->waiting)) sched_yield();
    kvf_gate_close(&s->m.span.gate);
    CHECK(!kvf_gate_drain(&s->m.span.gate, kvf_now() + 2000000));
    atomic_store(&s->waiting, false);
    while (!kvf_gate_drain(&s->m.span.gate, KVF_FOREVER)) continue;
}

static void check_gate(void) {
    static slow s;
    mixed_start(&s.m);
    s.m.far.waiting = &s.waiting;
    in_parallel(1, write_slowly, &s, close_meanwhile);
    CHECK(memcmp(here, s.m.far.alias, PAGE) == 0);
    mixed_end(&s.m);
}

static void check_answers(void) {
    const kvf_answer right = {.magic = KVF_ANSWER_MAGIC, .status = KVF_BROKEN, .code = DEVICE_CODE};
    kvf_answer a = right;
    CHECK(kvf_answer_fits(&a, 0, 9));
    a.code = 0;
    CHECK(!kvf_answer_fits(&a, 0, 9));
    a.code = 1ll << 31;
    CHECK(!kvf_answer_fits(&a, 0, 9));
    a = right, a.bytes = 9;
    CHECK(!kvf_answer_fits(&a, 0, 9));
    a.status = KVF_DONE, a.staged = 9;
    CHECK(kvf_answer_fits(&a, 0, 9));
    a.staged = 10;
    CHECK(!kvf_answer_fits(&a, 0, 9));
}

/* ---- staging on the local side ---- */

/* An inner mover that copies between the buffer, or local memory of the host, and `there`. */
static kvf_outcome copy_plainly(kvf_mover *m, kvf_run r, kvf_op op, const kvf_brake *brake) {
    (void)m;
    return kvf_run_plain(r, op, brake);
}

typedef struct local {
    device d; /* with host memory behind it */
    kvf_span span;
    kvf_span *row[1];
    kvf_table table;
    kvf_mover inner;
    kvf_pool *pool;
    kvf_bounce bounce;
} local;

static void local_start(local *l, uint64_t below, uint64_t size) {
    *l = (local){.d = device_new(16 * PAGE, 16 * PAGE), .inner = {copy_plainly}};
    l->span = device_span(&l->d);
    l->row[0] = &l->span;
    l->table.row = l->row, l->table.n = 1;
    pthread_mutex_init(&l->table.lock, NULL);
    CHECK(l->pool = kvf_pool_new(1, size));
    l->bounce = kvf_bounce_opaque(&l->inner, l->pool, below, &l->table);
}

static void local_end(local *l) {
    kvf_pool_free(l->pool);
    pthread_mutex_destroy(&l->table.lock);
    device_free(&l->d);
}

static kvf_outcome local_move(local *l, kvf_mover *m, const kvf_descriptor *d, uint64_t bytes, kvf_op op,
                              kvf_done *done) {
    (void)l;
    kvf_done_begin(done);
    kvf_brake brake = {done, done->sequence, KVF_FOREVER, NULL};
    return m->run(m, (kvf_run){d, 0, bytes, 0}, op, &brake);
}

/* Pieces one behind the other on both sides, now and then with a gap: those that are joined reach from
 * the device into the host's memory behind it. */
static void check_local(uint64_t below, uint64_t size, kvf_op op) {
    local l;
    kvf_done done = {0};
    static kvf_descriptor d[PIECES];
    uint64_t n = 0, bytes = 0, device = 0, at = random_below(&random_state, 9 * PAGE), far = 0;
    local_start(&l, below, size);
    for (uint64_t length; n < PIECES; n++, at += length, far += length) {
        length = 1 + random_below(&random_state, 2 * PAGE);
        if (random_below(&random_state, 3) == 0) at += PAGE;
        if (at + length > 32 * PAGE) break;
        d[n] = (kvf_descriptor){(uintptr_t)l.d.face + at, (uintptr_t)there + far, length};
        bytes += length;
        if (at < l.d.length) device += at + length < l.d.length ? length : l.d.length - at;
    }
    for (uint64_t i = 0; i < 32 * PAGE; i++)
        *device_real(&l.d, i) = (unsigned char)random_next(&random_state);
    random_bytes(&random_state, there, far + 1);
    CHECK(local_move(&l, &l.bounce.mover, d, bytes, op, &done) == KVF_OK);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < d[i].length; k++)
            CHECK(*device_real(&l.d, d[i].local + k - (uintptr_t)l.d.face) == ((unsigned char *)d[i].remote)[k]);
    CHECK(below == KVF_NO_LENGTH ? done.staged == device : done.staged == bytes);
    local_end(&l);
}

static void check_local_fails(kvf_op op) {
    enum { COUNT = 8, LENGTH = 1000 };
    local l;
    kvf_done done = {0};
    kvf_descriptor d[COUNT];
    local_start(&l, KVF_NO_LENGTH, 2 * LENGTH);
    for (uint64_t i = 0; i < COUNT; i++)
        d[i] = (kvf_descriptor){(uintptr_t)l.d.face + 2 * i * LENGTH, (uintptr_t)there + i * LENGTH, LENGTH};
    for (unsigned k = 1; k <= COUNT; k++) {
        memset(l.d.alias, 1, l.d.length), memset(there, 2, COUNT * LENGTH);
        l.d.calls = 0, l.d.fails_at = k;
        CHECK(local_move(&l, &l.bounce.mover, d, COUNT * LENGTH, op, &done) == KVF_DEVICE);
        CHECK(done.code == DEVICE_CODE && l.d.calls == k && done.staged == (k - 1) / 2 * 2 * LENGTH);
        for (uint64_t i = k; i < COUNT; i++)
            CHECK(l.d.alias[2 * i * LENGTH] == 1 && there[(op == KVF_READ ? i : i / 2 * 2) * LENGTH] == 2);
        CHECK(local_move(&l, &l.bounce.mover, d, COUNT * LENGTH, op, &done) == KVF_OK && !done.code);
    }
    local_end(&l);
}

/* ---- both sides: every byte is staged twice ---- */

static void check_both(void) {
    local l;
    mixed m;
    kvf_done done = {0};
    local_start(&l, KVF_STAGE_BELOW, 3 * PAGE);
    mixed_start(&m);
    kvf_bounce b = kvf_bounce_opaque(&m.wire->mover, l.pool, KVF_STAGE_BELOW, &l.table);
    const kvf_descriptor d = {(uintptr_t)l.d.face, (uintptr_t)m.far.face, l.d.length};
    random_bytes(&random_state, l.d.alias, l.d.length);
    CHECK(local_move(&l, &b.mover, &d, d.length, KVF_WRITE, &done) == KVF_OK);
    CHECK(memcmp(l.d.alias, m.far.alias, d.length) == 0 && done.staged == 2 * d.length);
    memset(l.d.alias, 0, l.d.length);
    CHECK(local_move(&l, &b.mover, &d, d.length, KVF_READ, &done) == KVF_OK);
    CHECK(memcmp(l.d.alias, m.far.alias, d.length) == 0 && done.staged == 2 * d.length);
    mixed_end(&m);
    local_end(&l);
}

int main(void) {
    check_target();
    check_target_fails(KVF_WRITE);
    check_target_fails(KVF_READ);
    check_gate();
    check_answers();
    const uint64_t sizes[] = {700, PAGE, 1u << 20};
    for (unsigned i = 0; i < 48; i++)
        check_local(i % 2 ? KVF_NO_LENGTH : KVF_ANY_LENGTH, sizes[i % 3], i / 2 % 2 ? KVF_READ : KVF_WRITE);
    check_local_fails(KVF_WRITE);
    check_local_fails(KVF_READ);
    check_both();
    return 0;
}

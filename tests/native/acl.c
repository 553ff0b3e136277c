/* The mover of ACL's streams: contents against a model, rounds and their flags, every way to end
 * early, and what a library that does not stop does to it. */
#include "acl_library.h"
#include "parallel.h"

#define PIECES 40u
#define BATCHES 200

static uint64_t random_state = 5;
static kvf_done done;
static kvf_brake brake; /* of the run under way */
static kvf_acl_mover mover;

/* ---- own memory: aliases of thirds A and C, none of B ---- */

static kvf_span spans[2];
static kvf_span *row[] = {&spans[0], &spans[1]};
static kvf_table aliases = {PTHREAD_MUTEX_INITIALIZER, row, 2};

static void lay_aliases(void) {
    uint64_t near = (uintptr_t)lib.near, far = (uintptr_t)lib.far;
    spans[0] = (kvf_span){.base = near, .length = THIRD, .delta = far + 2 * THIRD - near};
    spans[1] = (kvf_span){.base = near + 2 * THIRD, .length = THIRD, .delta = far - near - 2 * THIRD};
}

static bool has_alias(uint64_t at) { return at < THIRD || at >= 2 * THIRD; }

/* ---- one run ---- */

static void begin(void) {
    kvf_done_begin(&done);
    brake = (kvf_brake){&done, done.sequence, KVF_FOREVER, NULL};
}

static void abort_it(void) { kvf_done_abort(&done); }
static void expire_it(void) { brake.deadline = kvf_now(); }

static void make_stream(script s) {
    follow(s);
    kvf_acl_mover_init(&mover, &calls, &of_stream, &a_stream, &aliases, &lib.flag, one_of_device());
}

/* From a thread with another context, with the stream's or with none: what it had it has afterwards. */
static kvf_outcome move(kvf_run run, kvf_op op) {
    static const void *const befores[] = {&of_caller, &of_stream, NULL};
    static unsigned turn;
    void *before = (void *)befores[turn++ % 3];
    current = before;
    kvf_outcome outcome = mover.mover.run(&mover.mover, run, op, &brake);
    if (before) CHECK(current == before);
    return outcome;
}

/* `n` descriptors of a byte each, all of own memory that has an alias. */
static kvf_run bytes_of_aliases(kvf_descriptor *d, uint64_t n) {
    CHECK(n <= THIRD);
    for (uint64_t i = 0; i < n; i++)
        d[i] = (kvf_descriptor){(uintptr_t)lib.near + i, (uintptr_t)lib.far + AREA + i, 1};
    return (kvf_run){d, 0, n, 0};
}

/* ---- contents ---- */

typedef struct scene {
    unsigned char wanted[AREA];
    kvf_descriptor d[PIECES];
    kvf_run run;
    uint64_t staged;
} scene;

static uint64_t without_alias(uint64_t at, uint64_t n) {
    uint64_t count = 0;
    for (uint64_t i = at; i < at + n; i++) count += !has_alias(i);
    return count;
}

/* Disjoint on either side, anywhere in own memory: some begin in one stretch and end in the next. */
static void deal(scene *s, kvf_op op) {
    const uint64_t slot = AREA / PIECES;
    uint64_t delta = random_below(&random_state, 1u << 20), shift = random_below(&random_state, PIECES);
    unsigned char *own = lib.near, *peer = lib.seen + AREA;
    random_bytes(&random_state, lib.seen, 2 * AREA);
    memcpy(s->wanted, op == KVF_WRITE ? peer : own, AREA);
    s->run = (kvf_run){.d = s->d, .delta = delta};
    s->staged = 0;
    for (uint64_t i = 0; i < PIECES; i++) {
        uint64_t n = random_below(&random_state, 4) ? slot : 1 + random_below(&random_state, slot);
        uint64_t a = i * slot + random_below(&random_state, slot - n + 1);
        uint64_t b = (i + shift) % PIECES * slot, skip = 0;
        s->d[i] = (kvf_descriptor){(uintptr_t)lib.near + a, (uintptr_t)lib.far + AREA + b - delta, n};
        if (i == 0) s->run.skip = skip = random_below(&random_state, n);
        if (i == PIECES - 1) n -= random_below(&random_state, n); /* the run ends inside it */
        if (op == KVF_WRITE) memcpy(s->wanted + b + skip, own + a + skip, n - skip);
        else memcpy(s->wanted + a + skip, peer + b + skip, n - skip);
        s->run.bytes += n - skip;
        s->staged += without_alias(a + skip, n - skip);
    }
}

static void check_batches(bool by_query, int batches) {
    static scene s;
    make_stream((script){.by_query = by_query});
    for (int n = 0; n < batches; n++) {
        kvf_op op = n % 2 ? KVF_READ : KVF_WRITE;
        begin();
        deal(&s, op);
        CHECK(move(s.run, op) == KVF_OK);
        CHECK(memcmp(op == KVF_WRITE ? lib.seen + AREA : lib.near, s.wanted, AREA) == 0);
        CHECK(done.staged == s.staged && !mover.failed);
    }
    CHECK(lib.flags == (uint64_t)batches && lib.aborts == 0);
}

/* A caller's own buffer, far from all aliases. */
static void check_buffer(void) {
    unsigned char buffer[64], back[64];
    kvf_descriptor out = {(uintptr_t)buffer, (uintptr_t)lib.far + AREA, sizeof buffer};
    kvf_descriptor in = {(uintptr_t)back, (uintptr_t)lib.far + AREA, sizeof back};
    random_bytes(&random_state, buffer, sizeof buffer);
    make_stream((script){0});
    begin();
    CHECK(move((kvf_run){&out, 0, sizeof buffer, 0}, KVF_WRITE) == KVF_OK);
    CHECK(move((kvf_run){&in, 0, sizeof back, 0}, KVF_READ) == KVF_OK);
    CHECK(memcmp(buffer, back, sizeof back) == 0 && done.staged == 2 * sizeof back);
    CHECK(lib.kinds[KVF_ACL_HOST_TO_DEVICE] == 1 && lib.kinds[KVF_ACL_DEVICE_TO_HOST] == 1);
}

/* One descriptor over all of own memory is a copy a stretch. */
static void check_borders(void) {
    kvf_descriptor d = {(uintptr_t)lib.near, (uintptr_t)lib.far + AREA, AREA};
    make_stream((script){0});
    begin();
    CHECK(move((kvf_run){&d, 0, AREA, 0}, KVF_WRITE) == KVF_OK);
    CHECK(memcmp(lib.near, lib.seen + AREA, AREA) == 0 && done.staged == THIRD);
    CHECK(lib.kinds[KVF_ACL_DEVICE_TO_DEVICE] == 2 && lib.kinds[KVF_ACL_HOST_TO_DEVICE] == 1);
}

static void check_rounds(void) {
    enum { MANY = 2 * KVF_ACL_ROUND + 7 };
    static kvf_descriptor d[MANY];
    for (int by_query = 0; by_query < 2; by_query++) {
        make_stream((script){.by_query = by_query});
        random_bytes(&random_state, lib.seen, 2 * AREA);
        begin();
        CHECK(move(bytes_of_aliases(d, MANY), KVF_WRITE) == KVF_OK);
        CHECK(memcmp(lib.near, lib.seen + AREA, MANY) == 0);
        CHECK(lib.flags == 3 && lib.rounds[0] == KVF_ACL_ROUND && lib.rounds[1] == KVF_ACL_ROUND);
        CHECK(lib.rounds[2] == 7 && lib.kinds[KVF_ACL_DEVICE_TO_DEVICE] == MANY);
    }
}

/* ---- ends ---- */

#define COUNT 300u

/* What a run came to that ended early. */
typedef struct ending {
    kvf_outcome outcome;
    int code;
    uint64_t moved; /* exactly these bytes, from the first on */
} ending;

/* The stream is aborted and quiet, says that it failed, and moves nothing any more. */
static void check_stream_is_dead(kvf_run run) {
    uint64_t copies = lib.copies, aborts = lib.aborts;
    begin();
    CHECK(mover.failed && lib.queued == 0 && aborts > 0);
    CHECK(move(run, KVF_WRITE) == KVF_ABORTED);
    CHECK(lib.copies == copies && lib.aborts == aborts && mover.failed);
}

static kvf_run prepare(kvf_descriptor *d) {
    memset(lib.near, 0x55, AREA);
    memset(lib.seen + AREA, 0, AREA);
    return bytes_of_aliases(d, COUNT);
}

static void check_moved(uint64_t bytes) {
    for (uint64_t i = 0; i < AREA; i++) CHECK(lib.seen[AREA + i] == (i < bytes ? 0x55 : 0));
}

static void check_ending(script s, ending wanted) {
    static kvf_descriptor d[COUNT];
    kvf_run run = prepare(d);
    make_stream(s);
    begin();
    CHECK(move(run, KVF_WRITE) == wanted.outcome && done.code == wanted.code);
    check_moved(wanted.moved);
    check_stream_is_dead(run);
}

static void check_refusals(void) {
    const uint64_t places[] = {1, 2, KVF_ACL_LOOK, COUNT};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        check_ending((script){.stands_still = true, .refuse_copy = places[i]},
                     (ending){KVF_DEVICE, REFUSED, 0});
    check_ending((script){.stands_still = true, .refuse_flag = 1}, (ending){KVF_DEVICE, REFUSED, 0});
    CHECK(lib.copies == COUNT);
}

/* The stream stops: what is behind the copy that failed never comes, the flag included. */
static void check_failures(void) {
    const uint64_t places[] = {1, 77, COUNT, COUNT + 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (int k = 0; k < 4; k++)
            check_ending((script){.by_query = k % 2, .silent = k / 2, .break_task = places[i]},
                         (ending){KVF_DEVICE, k / 2 ? 0 : BROKEN, places[i] - 1});
}

static void check_brakes(void) {
    for (uint64_t place = 1; place <= COUNT; place += 61) {
        script s = {.stands_still = true, .at_copy = place, .then = abort_it};
        check_ending(s, (ending){KVF_ABORTED, 0, 0});
        uint64_t seen = (place + KVF_ACL_LOOK - 1) / KVF_ACL_LOOK * KVF_ACL_LOOK;
        CHECK(lib.copies == (seen < COUNT ? seen : COUNT));
    }
    check_ending((script){.stands_still = true, .at_query = 2, .then = abort_it},
                 (ending){KVF_ABORTED, 0, 0});
    CHECK(lib.queries == 2);
    check_ending((script){.stands_still = true, .at_copy = 100, .then = expire_it},
                 (ending){KVF_EXPIRED, 0, 0});
    CHECK(lib.copies == 2 * KVF_ACL_LOOK);
    check_ending((script){.stands_still = true, .at_query = 3, .then = expire_it},
                 (ending){KVF_EXPIRED, 0, 0});
    CHECK(lib.queries == 3);
}

/* In a later round, what came before has landed. */
static void check_later_round(void) {
    enum { MANY = KVF_ACL_ROUND + COUNT };
    static kvf_descriptor d[MANY];
    prepare(d);
    make_stream((script){.refuse_copy = KVF_ACL_ROUND + 5, .by_query = true});
    begin();
    kvf_run run = bytes_of_aliases(d, MANY);
    CHECK(move(run, KVF_WRITE) == KVF_DEVICE && done.code == REFUSED);
    check_moved(KVF_ACL_ROUND);
    check_stream_is_dead(run);
}

/* What was stopped before anything was submitted leaves the stream as it was. */
static void check_early(void) {
    static kvf_descriptor d[COUNT];
    kvf_run run = prepare(d);
    make_stream((script){0});
    begin();
    kvf_done_abort(&done);
    CHECK(move(run, KVF_WRITE) == KVF_ABORTED);
    begin();
    brake.deadline = kvf_now();
    CHECK(move(run, KVF_WRITE) == KVF_EXPIRED);
    CHECK(lib.copies == 0 && lib.aborts == 0 && !mover.failed);
    begin();
    CHECK(move(run, KVF_WRITE) == KVF_OK);
    check_moved(COUNT);
}

static void check_context_is_gone(void) {
    static kvf_descriptor d[COUNT];
    kvf_run run = prepare(d);
    make_stream((script){.refuse_context = true});
    begin();
    current = &of_caller;
    CHECK(mover.mover.run(&mover.mover, run, KVF_WRITE, &brake) == KVF_DEVICE);
    CHECK(current == &of_caller && done.code == NO_SUCH_CONTEXT && mover.failed && !lib.copies);
}

/* ---- held, and not to be stopped ---- */

typedef struct held {
    kvf_run run;
    kvf_hold hold;
} held;

static void move_held(void *arg, unsigned index) {
    held *h = arg;
    (void)index;
    CHECK(move(h->run, KVF_WRITE) == KVF_OK);
}

static void let_go(void *arg) {
    held *h = arg;
    while (atomic_load(&h->hold.passing) >= 0) kvf_relax();
    pthread_mutex_lock(&lib.lock);
    CHECK(lib.copies == 2 * KVF_ACL_LOOK); /* the looks before copies 0 and 64 went through */
    pthread_mutex_unlock(&lib.lock);
    atomic_store(&h->hold.held, 0);
    kvf_wake_all(&h->hold.held);
}

static void check_hold(void) {
    static kvf_descriptor d[COUNT];
    static held h;
    h = (held){.run = prepare(d), .hold = {.held = 1, .passing = 2}};
    begin();
    brake.hold = &h.hold;
    make_stream((script){0});
    in_parallel(1, move_held, &h, let_go);
    check_moved(COUNT);
}

static void check_slow_abort(void) {
    check_ending((script){.stands_still = true, .refuse_copy = 9, .refuse_aborts = 3},
                 (ending){KVF_DEVICE, REFUSED, 0});
    CHECK(lib.aborts == 4);
}

static void move_lost(void *arg, unsigned index) {
    held *h = arg;
    (void)index;
    CHECK(move(h->run, KVF_WRITE) == KVF_ABANDONED);
    CHECK(atomic_load(&calls.given_up));
}

static void give_up(void *arg) {
    (void)arg;
    for (uint64_t aborts = 0; aborts < 3; kvf_nap(KVF_ACL_NAP_NS)) {
        pthread_mutex_lock(&lib.lock);
        aborts = lib.aborts;
        pthread_mutex_unlock(&lib.lock);
    }
    atomic_store(&calls.given_up, true);
}

/* Its copies may yet land, so it is no end that the run returns before somebody says so. */
static void check_no_abort(void) {
    static kvf_descriptor d[COUNT];
    static held h;
    h.run = prepare(d);
    begin();
    make_stream((script){.stands_still = true, .refuse_aborts = UINT64_MAX, .at_query = 1,
                         .then = expire_it});
    in_parallel(1, move_lost, &h, give_up);
    CHECK(mover.failed && lib.queued == COUNT + 1);
    lib.script.refuse_aborts = 0;
    current = &of_stream;
    CHECK(abort_stream(&a_stream) == 0);
    check_stream_is_dead(h.run);
    atomic_store(&calls.given_up, false);
}

/* ---- reach ---- */

static void check_reach(void) {
    unsigned char out[1000], back[1000];
    uint64_t there = (uintptr_t)lib.far + AREA + 11;
    kvf_acl_reach r;
    kvf_acl_reach_init(&r, &calls, &of_stream);
    void *befores[] = {&of_caller, &of_stream, NULL};
    for (int i = 0; i < 3; i++) {
        follow((script){0});
        current = befores[i];
        random_bytes(&random_state, out, sizeof out);
        CHECK(r.reach.store(&r.reach, there, out, sizeof out) == 0);
        CHECK(memcmp(lib.seen + AREA + 11, out, sizeof out) == 0);
        CHECK(r.reach.load(&r.reach, back, there, sizeof back) == 0);
        CHECK(memcmp(back, out, sizeof out) == 0);
        follow((script){.refuse_copy = 1});
        CHECK(r.reach.store(&r.reach, there, out, sizeof out) == REFUSED);
        CHECK(r.reach.load(&r.reach, back, there, sizeof back) == REFUSED);
        CHECK(current == (befores[i] ? befores[i] : &of_stream));
    }
    follow((script){.refuse_context = true});
    current = &of_caller;
    CHECK(r.reach.load(&r.reach, back, there, sizeof back) == NO_SUCH_CONTEXT);
    CHECK(current == &of_caller);
}

int main(void) {
    pthread_t worker;
    open_library();
    lay_aliases();
    CHECK(pthread_create(&worker, NULL, work_of_device, NULL) == 0);
    check_batches(false, BATCHES);
    check_batches(true, BATCHES / 4);
    check_buffer();
    check_borders();
    check_rounds();
    check_refusals();
    check_failures();
    check_brakes();
    check_later_round();
    check_early();
    check_context_is_gone();
    check_hold();
    check_slow_abort();
    check_no_abort();
    check_reach();
    stop_device(worker);
    close_library();
    return 0;
}

/* Threads enter and leave while one closes: after the drain nobody is inside, nor will be. */
#include "gate.h"
#include "parallel.h"

#define ROUNDS 25
#define VISITORS 8u
#define CLOSERS 2u
#define ENOUGH 200 /* visits in a round before it is closed */

typedef struct room {
    kvf_gate gate;
    char *furniture; /* freed after the drain: a late visitor is a finding of the sanitizer */
    _Atomic uint32_t visits, refused, closers;
} room;

static void visit(room *r) {
    for (kvf_gate_code code; (code = kvf_gate_enter(&r->gate)) != KVF_CLOSED;) {
        CHECK(code == KVF_ENTERED);
        CHECK(kvf_gate_inside(&r->gate) >= 1 && r->furniture[0] == 1);
        atomic_fetch_add_explicit(&r->visits, 1, memory_order_relaxed);
        kvf_gate_leave(&r->gate);
    }
    atomic_fetch_add_explicit(&r->refused, 1, memory_order_relaxed);
}

static void close_room(room *r) {
    while (atomic_load_explicit(&r->visits, memory_order_relaxed) < ENOUGH) sched_yield();
    if (!kvf_gate_close(&r->gate)) return;
    atomic_fetch_add_explicit(&r->closers, 1, memory_order_relaxed);
    while (!kvf_gate_drain(&r->gate, KVF_FOREVER)) continue;
    r->furniture[0] = 0;
    free(r->furniture);
}

static void body(void *arg, unsigned index) {
    if (index < VISITORS) visit(arg);
    else close_room(arg);
}

static void check_close_under_traffic(void) {
    for (int round = 0; round < ROUNDS; round++) {
        room r = {.furniture = malloc(1)};
        r.furniture[0] = 1;
        kvf_gate_init(&r.gate);
        in_parallel(VISITORS + CLOSERS, body, &r, NULL);
        CHECK(atomic_load_explicit(&r.refused, memory_order_relaxed) == VISITORS);
        CHECK(atomic_load_explicit(&r.closers, memory_order_relaxed) == 1);
        CHECK(kvf_gate_inside(&r.gate) == 0);
    }
}

static void check_alone(void) {
    kvf_gate g;
    kvf_gate_init(&g);
    CHECK(kvf_gate_enter(&g) == KVF_ENTERED && kvf_gate_enter(&g) == KVF_ENTERED);
    CHECK(kvf_gate_inside(&g) == 2);
    CHECK(kvf_gate_close(&g) && !kvf_gate_close(&g));
    CHECK(kvf_gate_enter(&g) == KVF_CLOSED && kvf_gate_inside(&g) == 2);
    CHECK(!kvf_gate_drain(&g, 0) && !kvf_gate_drain(&g, kvf_now() + 1000000));
    kvf_gate_leave(&g);
    CHECK(!kvf_gate_drain(&g, kvf_now() + 1000000));
    kvf_gate_leave(&g);
    CHECK(kvf_gate_drain(&g, 0) && kvf_gate_drain(&g, KVF_FOREVER));
}

static uint64_t left_at;

static void leave_late(void *gate, unsigned index) {
    (void)index;
    struct timespec asleep = {0, 2000000};
    nanosleep(&asleep, NULL);
    left_at = kvf_now();
    kvf_gate_leave(gate);
}

static void drain_now(void *gate) {
    while (!kvf_gate_drain(gate, KVF_FOREVER)) continue;
}

/* Who drains is woken by the last to leave, and does not find out at the end of its slice. */
static void check_woken(void) {
    uint64_t fastest = KVF_FOREVER;
    for (int round = 0; round < 8 && fastest > KVF_SLICE_NS / 2; round++) {
        kvf_gate g;
        kvf_gate_init(&g);
        CHECK(kvf_gate_enter(&g) == KVF_ENTERED && kvf_gate_close(&g));
        in_parallel(1, leave_late, &g, drain_now);
        uint64_t after = kvf_now() - left_at;
        if (after < fastest) fastest = after;
    }
    CHECK(fastest < KVF_SLICE_NS / 2);
}

static void leave(void *gate, unsigned index) {
    (void)index;
    kvf_gate_leave(gate);
}

static void drain_and_free(void *gate) {
    drain_now(gate);
    free(gate);
}

/* Who has left looks at the gate no more: whoever drained it frees it. */
static void check_freed_at_once(void) {
    for (int round = 0; round < 200; round++) {
        kvf_gate *g = malloc(sizeof *g);
        kvf_gate_init(g);
        for (unsigned i = 0; i < VISITORS; i++) CHECK(kvf_gate_enter(g) == KVF_ENTERED);
        kvf_gate_close(g);
        in_parallel(VISITORS, leave, g, drain_and_free);
    }
}

/* In a child those inside are forgotten, and the answer is its own. */
static void check_fork(void) {
    kvf_gate g;
    kvf_gate_init(&g);
    CHECK(kvf_gate_enter(&g) == KVF_ENTERED);
    kvf_gate_fork(&g);
    CHECK(kvf_gate_inside(&g) == 0 && kvf_gate_drain(&g, 0));
    for (int i = 0; i < 3; i++) CHECK(kvf_gate_enter(&g) == KVF_FORKED);
    CHECK(!kvf_gate_close(&g) && kvf_gate_inside(&g) == 0);
}

int main(void) {
    check_alone();
    check_fork();
    check_woken();
    check_close_under_traffic();
    check_freed_at_once();
    return 0;
}

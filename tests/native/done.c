/* A completion line, finished by many threads, waited for by several, armed again at once. */
#include <poll.h>
#include <sys/eventfd.h>

#include "copy.h"
#include "parallel.h"

#define ROUNDS 300u
#define FINISHERS 8u
#define WAITERS 3u

static kvf_done line;
static _Atomic uint64_t armed;     /* the round that may be finished */
static _Atomic uint32_t through;   /* waiters that saw its end */
static unsigned char bytes[FINISHERS]; /* written before the words: they must be visible behind them */
static int bell[ROUNDS + 1];

static uint32_t streams_of(uint64_t round) { return 1 + (uint32_t)(round % FINISHERS); }

static void check_bytes(uint64_t round) {
    for (uint32_t i = 0; i < streams_of(round); i++) CHECK(bytes[i] == (unsigned char)round);
}

static void await_round(uint64_t round) {
    while (atomic_load_explicit(&armed, memory_order_acquire) < round) sched_yield();
}

static void finish_rounds(uint32_t i) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        await_round(round);
        if (i >= streams_of(round)) continue;
        bytes[i] = (unsigned char)round;
        if (round % 3 == 0) kvf_done_fail(&line, KVF_ABORTED + i % 2);
        kvf_done_finish(&line, i, round);
    }
}

static void wait_rounds(void) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        await_round(round);
        while (!kvf_done_wait(&line, KVF_FOREVER)) continue;
        check_bytes(round);
        atomic_fetch_add_explicit(&through, 1, memory_order_acq_rel);
    }
}

static void body(void *unused, unsigned index) {
    (void)unused;
    if (index < FINISHERS) finish_rounds(index);
    else wait_rounds();
}

/* Arms the line as soon as all have seen it quiet, while finishers may still look at it. In every
 * other round it waits for the bell as well: whoever asked for one keeps the line until it rang. */
static void arm_rounds(void *unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        atomic_store_explicit(&through, 0, memory_order_relaxed);
        kvf_done_begin(&line);
        kvf_done_spread(&line, streams_of(round));
        CHECK(line.sequence == round && !kvf_done_quiet(&line));
        kvf_done_notify(&line, bell[round]);
        atomic_store_explicit(&armed, round, memory_order_release);
        struct pollfd p = {bell[round], POLLIN, 0};
        if (round % 2) CHECK(poll(&p, 1, 20000) == 1);
        while (!kvf_done_wait(&line, KVF_FOREVER)) continue;
        check_bytes(round);
        uint32_t outcome = kvf_done_outcome(&line);
        CHECK(round % 3 ? outcome == KVF_OK : outcome == KVF_ABORTED || outcome == KVF_EXPIRED);
        CHECK(kvf_done_ended(&line) >= line.begun_ns);
        while (atomic_load_explicit(&through, memory_order_acquire) < WAITERS) sched_yield();
    }
}

static void check_many_threads(void) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        bell[round] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        CHECK(bell[round] >= 0);
    }
    in_parallel(FINISHERS + WAITERS, body, NULL, arm_rounds);
    for (uint64_t round = 1; round <= ROUNDS; round++) close(bell[round]);
}

static void check_stale(void) {
    kvf_done d = {.word = {0}};
    for (int round = 0; round < 20; round++) {
        kvf_done_begin(&d);
        kvf_done_spread(&d, 2);
        kvf_done_finish(&d, 0, d.sequence - 1);
        kvf_done_finish(&d, 1, d.sequence - 1);
        CHECK(!kvf_done_quiet(&d));
        kvf_done_finish(&d, 1, d.sequence);
        CHECK(!kvf_done_quiet(&d));
        kvf_done_finish(&d, 0, d.sequence);
        CHECK(kvf_done_quiet(&d) && kvf_done_outcome(&d) == KVF_OK);
    }
}

static void check_first_failure_stays(void) {
    kvf_done d = {.word = {0}};
    kvf_done_begin(&d);
    kvf_done_fail(&d, KVF_EXPIRED);
    kvf_done_fail(&d, KVF_ABORTED);
    kvf_done_finish(&d, 0, d.sequence);
    CHECK(kvf_done_outcome(&d) == KVF_EXPIRED);
    kvf_done_begin(&d);
    CHECK(kvf_done_outcome(&d) == KVF_OK && !kvf_done_quiet(&d));
}

/* An abort belongs to the transfer it was asked for. */
static void check_abort_of_the_one_before(void) {
    kvf_done d = {.word = {0}};
    kvf_done_begin(&d);
    kvf_brake before = {&d, d.sequence, KVF_FOREVER, NULL};
    CHECK(kvf_brake_check(&before) == KVF_OK);
    kvf_done_abort(&d);
    CHECK(kvf_brake_check(&before) == KVF_ABORTED);
    kvf_done_finish(&d, 0, d.sequence);
    kvf_done_begin(&d);
    kvf_brake after = {&d, d.sequence, KVF_FOREVER, NULL};
    CHECK(kvf_brake_check(&after) == KVF_OK);
}

static void check_deadline(void) {
    kvf_done d = {.word = {0}};
    kvf_done_begin(&d);
    CHECK(!kvf_done_wait(&d, 0) && !kvf_done_wait(&d, kvf_now()));
    uint64_t deadline = kvf_now() + 3000000;
    while (kvf_now() < deadline) CHECK(!kvf_done_wait(&d, deadline));
    CHECK(kvf_now() < deadline + 1000000000ull);
    CHECK(atomic_load_explicit(&d.waiters, memory_order_acquire) == 0);
}

/* ---- waking ---- */

static uint64_t woken_after; /* nanoseconds from the finish to the waiter's return */

static void sleep_and_tell(void *arg, unsigned index) {
    (void)index;
    while (!kvf_done_wait(arg, KVF_FOREVER)) continue;
    woken_after = kvf_now() - kvf_done_ended(arg);
}

static void finish_when_awaited(void *arg) {
    kvf_done *d = arg;
    while (!atomic_load_explicit(&d->waiters, memory_order_acquire)) sched_yield();
    struct timespec asleep = {0, 2000000};
    nanosleep(&asleep, NULL);
    kvf_done_finish(d, 0, d->sequence);
}

/* A sleeper is woken, and does not find out at the end of its slice. The fastest of some: a busy
 * machine may delay any. */
static void check_woken(void) {
    kvf_done d = {.word = {0}};
    uint64_t fastest = KVF_FOREVER;
    for (int round = 0; round < 8 && fastest > KVF_SLICE_NS / 2; round++) {
        kvf_done_begin(&d);
        in_parallel(1, sleep_and_tell, &d, finish_when_awaited);
        if (woken_after < fastest) fastest = woken_after;
    }
    CHECK(fastest < KVF_SLICE_NS / 2);
}

int main(void) {
    check_woken();
    check_stale();
    check_first_failure_stays();
    check_abort_of_the_one_before();
    check_deadline();
    check_many_threads();
    return 0;
}

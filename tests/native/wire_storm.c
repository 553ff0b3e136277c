/* Runs over wires that are stopped at any moment, against a region that comes and goes: a run that
 * has ended touches neither side any more, and what arrived is what was sent. */
#include "target.h"

#define CREW 3u
#define ROUNDS 40u
#define MOST 2500u /* pieces, of several frames */

typedef struct storm {
    target t;
    kvf_done done[CREW];
    _Atomic unsigned at_work;
    _Atomic uint64_t arrived;
} storm;

/* Pieces of a share, in turn to the other half of it and nowhere twice. */
static uint64_t deal(kvf_descriptor *d, uint64_t begin, uint64_t share, uint64_t *random) {
    uint64_t n = 1 + random_below(random, MOST), step = share / n, bytes = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = (i * 7 + 3) % n, length = 1 + random_below(random, step);
        if (n % 7 == 0) k = i;
        d[i] = (kvf_descriptor){(uintptr_t)here + begin + i * step, (uintptr_t)there + begin + k * step, length};
        bytes += length;
    }
    return bytes;
}

static bool check_run(storm *s, kvf_wire **w, unsigned index, uint64_t *random, bool fill) {
    static kvf_descriptor deals[CREW][MOST];
    const uint64_t share = 96u << 10, begin = index * share;
    kvf_descriptor *d = deals[index];
    kvf_done *done = &s->done[index];
    uint64_t bytes = deal(d, begin, share, random);
    /* Whoever still placed bytes of the run before would race with these. (That the kernel reads what
     * it sends before that is received, a sanitizer does not know.) */
    memset(here + begin, (int)random_next(random), share);
    if (fill) memset(there + begin, (int)random_next(random), share);
    kvf_op op = (kvf_op)random_below(random, 2);
    kvf_done_begin(done);
    kvf_brake brake = {done, done->sequence, KVF_FOREVER, NULL};
    if (random_below(random, 3) == 0) brake.deadline = kvf_now() + random_below(random, 1000000);
    kvf_outcome outcome = (*w)->mover.run(&(*w)->mover, (kvf_run){d, 0, bytes, 0}, op, &brake);
    kvf_done_finish(done, 0, done->sequence);
    CHECK(outcome != KVF_FAULT);
    if (outcome == KVF_REFUSED) CHECK(done->verdict == KVF_STALE || done->verdict == KVF_UNKNOWN);
    if (outcome == KVF_OK) atomic_fetch_add_explicit(&s->arrived, 1, memory_order_relaxed);
    for (uint64_t left = outcome ? 0 : bytes; left; left -= (d++)->length)
        CHECK(memcmp((void *)d->local, (void *)d->remote, d->length) == 0);
    if (!atomic_load_explicit(&(*w)->dead, memory_order_relaxed)) return op == KVF_WRITE && !outcome;
    kvf_server_dismiss(s->t.server, &(uint64_t){index});
    kvf_wire_free(*w);
    *w = dial(&s->t, index);
    return true;
}

static void weather(void *arg, unsigned index) {
    storm *s = arg;
    uint64_t random = index + 1;
    kvf_wire *w = dial(&s->t, index);
    bool fill = true;
    for (unsigned i = 0; i < ROUNDS; i++) fill = check_run(s, &w, index, &random, fill);
    kvf_wire_free(w);
    atomic_fetch_sub(&s->at_work, 1);
}

/* Take the region away, wait for quiet, and offer it again. */
static void withdraw(target *t) {
    pthread_mutex_lock(&t->table.lock);
    t->table.n = 0;
    pthread_mutex_unlock(&t->table.lock);
    kvf_gate_close(&t->span[0].gate);
    uint64_t until = kvf_now() + 50 * KVF_SLICE_NS;
    while (!kvf_gate_drain(&t->span[0].gate, until)) CHECK(kvf_now() < until);
    kvf_gate_init(&t->span[0].gate);
    pthread_mutex_lock(&t->table.lock);
    t->table.n = 2;
    pthread_mutex_unlock(&t->table.lock);
}

static void meddle(void *arg) {
    storm *s = arg;
    uint64_t random = 99;
    for (unsigned i = 0; atomic_load(&s->at_work); i++) {
        kvf_done *done = &s->done[random_below(&random, CREW)];
        uint64_t sequence = atomic_load_explicit(&done->word[0], memory_order_acquire) + 1;
        atomic_store_explicit(&done->abort, sequence, memory_order_release); /* the run at hand, or none */
        if (i % 8 == 0) withdraw(&s->t);
        for (uint64_t k = random_below(&random, 20000); k--;) kvf_relax();
    }
}

int main(void) {
    static storm s = {.at_work = CREW};
    target_start(&s.t);
    in_parallel(CREW, weather, &s, meddle);
    target_end(&s.t);
    CHECK(s.arrived);
    return 0;
}

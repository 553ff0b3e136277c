/* Wires within one process: contents of both directions, refusals, stops, and peers that misbehave. */
#include "engines.h"
#include "target.h"

#define PIECES 3000u

static unsigned char wanted[AREA];

typedef struct contents {
    target t;
    uint32_t length[4];
} contents;

/* Every thread has a wire, and a part of the region to itself. */
static void write_and_read(void *arg, unsigned index) {
    contents *c = arg;
    const uint64_t share = (HALF - GAP) / 4, begin = index * share;
    uint64_t random = index + 1;
    kvf_done done = {0};
    kvf_wire *w = dial(&c->t, index);
    kvf_descriptor *d = calloc(PIECES, sizeof *d);
    for (unsigned round = 0; round < 8; round++) {
        uint64_t bytes = 0, n = 0, most = c->length[round % 4];
        while (n < PIECES) {
            uint64_t length = 1 + random_below(&random, most);
            if (bytes + length > share) break;
            d[n] = (kvf_descriptor){(uintptr_t)here + begin + bytes, (uintptr_t)there + begin + bytes, length};
            bytes += length, n++;
        }
        for (uint64_t i = n; i > 1; i--) { /* in any order */
            uint64_t k = random_below(&random, i);
            kvf_descriptor other = d[i - 1];
            d[i - 1] = d[k], d[k] = other;
        }
        random_bytes(&random, here + begin, bytes);
        CHECK(move(w, d, bytes, KVF_WRITE, &done) == KVF_OK);
        CHECK(memcmp(here + begin, there + begin, bytes) == 0);
        random_bytes(&random, there + begin, bytes);
        CHECK(move(w, d, bytes, KVF_READ, &done) == KVF_OK);
        CHECK(memcmp(here + begin, there + begin, bytes) == 0);
    }
    free(d);
    kvf_wire_free(w);
}

static void check_contents(void) {
    static contents c = {.length = {40, 5000, 1, 400000}};
    target_start(&c.t);
    in_parallel(4, write_and_read, &c, NULL);
    target_end(&c.t);
}

static void check_refusals(void) {
    target t;
    kvf_done done = {0};
    target_start(&t);
    kvf_wire *w = dial(&t, 0);
    memset(here, 1, AREA);
    memset(there, 0, AREA);
    memset(wanted, 0, AREA);
    const struct {
        uint64_t to, length;
        kvf_op op;
        kvf_verdict verdict;
    } cases[] = {
        {HALF, 64, KVF_WRITE, KVF_READONLY},
        {HALF - GAP, 64, KVF_WRITE, KVF_UNKNOWN},
        {HALF - GAP, 64, KVF_READ, KVF_UNKNOWN},
        {HALF - GAP - 63, 64, KVF_WRITE, KVF_LEAVES},
        {AREA - GAP - 63, 64, KVF_READ, KVF_LEAVES},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t to = cases[i].to;
        const kvf_descriptor d[] = {{(uintptr_t)here, (uintptr_t)there, 128},
                                    {(uintptr_t)here + 1000, (uintptr_t)there + to, cases[i].length}};
        CHECK(move(w, d, 128 + cases[i].length, cases[i].op, &done) == KVF_REFUSED);
        CHECK(done.verdict == cases[i].verdict && done.side == KVF_REMOTE);
        CHECK(done.address == (uintptr_t)there + to);
        CHECK(memcmp(there, wanted, AREA) == 0); /* not even the piece that was right */
    }
    CHECK(move_one(w, 0, 0, 4096, KVF_WRITE, &done) == KVF_OK && there[4095] == 1);
    /* What stands behind a refused frame in its run is not moved; what comes after the run is. */
    const kvf_descriptor d[] = {{(uintptr_t)here, (uintptr_t)there + HALF, KVF_FRAME_BYTES / 2},
                                {(uintptr_t)here, (uintptr_t)there + 8192, KVF_FRAME_BYTES}};
    CHECK(move(w, d, d[0].length + d[1].length, KVF_WRITE, &done) == KVF_REFUSED);
    CHECK(memcmp(there + 8192, wanted, HALF - 8192) == 0);
    kvf_gate_close(&t.span[0].gate);
    CHECK(move_one(w, 0, 0, 64, KVF_READ, &done) == KVF_REFUSED && done.verdict == KVF_STALE);
    kvf_wire_free(w);
    target_end(&t);
}

/* ---- stops ---- */

typedef struct stop {
    kvf_wire *wire;
    kvf_done done;
    kvf_op op;
    uint64_t deadline;
    kvf_outcome outcome;
} stop;

static void run_to_the_stop(void *arg, unsigned index) {
    (void)index;
    stop *s = arg;
    const kvf_descriptor d = {(uintptr_t)here, (uintptr_t)there, AREA};
    kvf_brake brake = {&s->done, s->done.sequence, s->deadline, NULL};
    s->outcome = s->wire->mover.run(&s->wire->mover, (kvf_run){&d, 0, AREA, 0}, s->op, &brake);
}

static void abort_it(void *arg) { kvf_done_abort(&((stop *)arg)->done); }

/* A peer that takes nothing and says nothing. */
static void check_silence(kvf_op op, bool abort, kvf_outcome outcome) {
    int fd[2];
    connect_pair(fd);
    static stop s;
    s = (stop){.wire = kvf_wire_new(fd[0], NULL), .op = op, .deadline = KVF_FOREVER};
    kvf_done_begin(&s.done);
    uint64_t before = kvf_now();
    if (!abort) s.deadline = before + 50000000;
    memset(here, 3, AREA);
    in_parallel(1, run_to_the_stop, &s, abort ? abort_it : NULL);
    CHECK(s.outcome == outcome || !s.wire->begun); /* the stop came before the first frame */
    CHECK(kvf_now() - before < 5 * KVF_PATIENCE_NS);
    CHECK(here[0] == 3 && memcmp(here, here + 1, AREA - 1) == 0);
    if (s.outcome == outcome && outcome == KVF_LOST)
        CHECK(move_one(s.wire, 0, 0, 8, KVF_READ, &s.done) == KVF_LOST);
    kvf_wire_free(s.wire);
    close(fd[1]);
}

/* ---- a peer that stands still in the midst of a frame holds up nobody who unregisters ---- */

static void check_stalled_initiator(void) {
    target t;
    int fd[2];
    target_start(&t);
    connect_pair(fd);
    CHECK(kvf_server_serve(t.server, fd[1], 1, FRIEND) == 0);
    struct {
        kvf_request head;
        kvf_place place;
        char body[8];
    } frame = {{KVF_REQUEST_MAGIC, KVF_WRITE, 0, 1, 1, 4096}, {(uintptr_t)there, 4096}, "half"};
    CHECK(send(fd[0], &frame, sizeof frame, MSG_NOSIGNAL) == sizeof frame);
    while (!kvf_gate_inside(&t.span[0].gate)) sched_yield();
    pthread_mutex_lock(&t.table.lock);
    t.table.n = 0;
    pthread_mutex_unlock(&t.table.lock);
    kvf_gate_close(&t.span[0].gate);
    uint64_t until = kvf_now() + 10 * KVF_SLICE_NS;
    while (!kvf_gate_drain(&t.span[0].gate, until)) CHECK(kvf_now() < until);
    char byte;
    CHECK(recv(fd[0], &byte, 1, 0) <= 0);
    close(fd[0]);
    target_end(&t);
}

/* ---- a region that goes while bytes flow: the frame at hand is completed, the next is refused ---- */

typedef struct going {
    target t;
    kvf_wire *wire;
    kvf_op op;
} going;

static void run_until_refused(void *arg, unsigned index) {
    (void)index;
    going *g = arg;
    kvf_done done = {0};
    kvf_outcome outcome;
    while (!(outcome = move_one(g->wire, 0, 0, HALF - GAP, g->op, &done))) continue;
    CHECK(outcome == KVF_REFUSED && done.verdict == KVF_UNKNOWN);
}

static void withdraw(void *arg) {
    target *t = &((going *)arg)->t;
    while (!kvf_gate_inside(&t->span[0].gate)) sched_yield();
    pthread_mutex_lock(&t->table.lock);
    t->table.n = 0;
    pthread_mutex_unlock(&t->table.lock);
    kvf_gate_close(&t->span[0].gate);
    while (!kvf_gate_drain(&t->span[0].gate, KVF_FOREVER)) continue;
}

static void check_going(kvf_op op) {
    static going g;
    target_start(&g.t);
    g.wire = dial(&g.t, 1), g.op = op;
    in_parallel(1, run_until_refused, &g, withdraw);
    CHECK(!atomic_load(&g.wire->dead));
    kvf_wire_free(g.wire);
    target_end(&g.t);
}

/* ---- noise ---- */

static void check_noise(void) {
    target t;
    uint64_t random = 7;
    target_start(&t);
    memset(there, 9, AREA);
    t.span[0].length = 4096; /* all else must stay as it is */
    for (unsigned i = 0; i < 300; i++) {
        int fd[2];
        struct {
            kvf_request head;
            kvf_place place[4];
            unsigned char body[512];
        } f = {.head = {KVF_REQUEST_MAGIC, i % 2, i, 1, 1 + i % 4, 0}};
        random_bytes(&random, f.body, sizeof f.body);
        for (unsigned k = 0; k < f.head.pieces; k++) {
            f.place[k] = (kvf_place){(uintptr_t)there + random_below(&random, 8192), 1 + random_below(&random, 200)};
            f.head.bytes += f.place[k].length;
        }
        for (unsigned k = random_below(&random, 3); k; k--)
            ((unsigned char *)&f)[random_below(&random, sizeof f.head + sizeof f.place)] ^= 1u << random_below(&random, 8);
        connect_pair(fd);
        CHECK(kvf_server_serve(t.server, fd[1], i, FRIEND) == 0);
        send(fd[0], &f, random_below(&random, sizeof f), MSG_NOSIGNAL);
        if (i % 3) shutdown(fd[0], SHUT_WR);
        else kvf_server_dismiss(t.server, &(uint64_t){i});
        char answer[256];
        while (recv(fd[0], answer, sizeof answer, 0) > 0) continue;
        close(fd[0]);
    }
    target_end(&t);
    for (unsigned i = 4096; i < AREA; i++) CHECK(there[i] == 9);
}

int main(void) {
    check_contents();
    check_refusals();
    check_silence(KVF_WRITE, true, KVF_LOST);
    check_silence(KVF_WRITE, false, KVF_LOST);
    check_silence(KVF_READ, false, KVF_EXPIRED);
    check_stalled_initiator();
    for (int i = 0; i < 8; i++) check_going(i % 2 ? KVF_READ : KVF_WRITE);
    check_noise();
    return 0;
}

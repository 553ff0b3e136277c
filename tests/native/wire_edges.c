/* Wires at their edges: tiny buffers, single bytes, numbers that wrap, memory that is gone, signals. */
#include <signal.h>
#include <sys/mman.h>

#include "engines.h"
#include "target.h"

#define PIECES 5000u /* several frames, although they are short */

/* Single bytes, the last first: no two can be joined. */
static void deal(kvf_descriptor *d, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        d[i] = (kvf_descriptor){(uintptr_t)here + 2 * i, (uintptr_t)there + n - 1 - i, 1};
}

static void check_dealt(unsigned n) {
    for (unsigned i = 0; i < n; i++) CHECK(here[2 * i] == there[n - 1 - i]);
}

static void both_ways(kvf_wire *w, unsigned n) {
    static kvf_descriptor d[PIECES];
    kvf_done done = {0};
    uint64_t random = n;
    deal(d, n);
    random_bytes(&random, here, 2 * n);
    CHECK(move(w, d, n, KVF_WRITE, &done) == KVF_OK);
    check_dealt(n);
    random_bytes(&random, there, n);
    CHECK(move(w, d, n, KVF_READ, &done) == KVF_OK);
    check_dealt(n);
    CHECK(done.served == n);
}

/* ---- buffers that hold less than a request ---- */

static void narrow(int fd) {
    int half = 4096; /* the kernel doubles it */
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof half) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &half, sizeof half) == 0);
}

static void check_narrow(void) {
    target t;
    int fd[2];
    target_start(&t);
    connect_pair(fd);
    narrow(fd[0]), narrow(fd[1]);
    CHECK(kvf_server_serve(t.server, fd[1], 1, FRIEND) == 0);
    kvf_wire *w = kvf_wire_new(fd[0], NULL);
    both_ways(w, PIECES);
    kvf_wire_free(w);
    target_end(&t);
}

/* ---- a network that brings one byte at a time ---- */

typedef struct relay {
    int from, to;
} relay;

static void pass_on(void *arg, unsigned index) {
    relay r = ((relay *)arg)[index];
    for (char byte; recv(r.from, &byte, 1, 0) == 1;) CHECK(send(r.to, &byte, 1, MSG_NOSIGNAL) == 1);
    shutdown(r.to, SHUT_WR);
}

static void through_the_relay(void *arg, unsigned index) {
    relay *r = arg;
    if (index < 2) return pass_on(r, index);
    kvf_wire *w = kvf_wire_new(r[2].from, NULL);
    kvf_done done = {0};
    both_ways(w, 300);
    CHECK(move_one(w, 0, HALF, 64, KVF_WRITE, &done) == KVF_REFUSED && done.verdict == KVF_READONLY);
    CHECK(move_one(w, 0, 0, 64, KVF_WRITE, &done) == KVF_OK && memcmp(here, there, 64) == 0);
    kvf_wire_free(w);
}

static void check_single_bytes(void) {
    target t;
    int near[2], far[2];
    target_start(&t);
    connect_pair(near), connect_pair(far);
    kvf_socket_prepare(near[1]), kvf_socket_prepare(far[0]);
    CHECK(kvf_server_serve(t.server, far[1], 1, FRIEND) == 0);
    relay r[] = {{near[1], far[0]}, {far[0], near[1]}, {near[0], 0}};
    in_parallel(3, through_the_relay, r, NULL);
    close(near[1]), close(far[0]);
    target_end(&t);
}

/* ---- tags and run numbers that wrap ---- */

static void check_wrap(void) {
    target t;
    kvf_done done = {0};
    target_start(&t);
    kvf_wire *w = dial(&t, 1);
    w->begun = w->answered = UINT64_MAX - 1;
    w->run = UINT32_MAX - 1;
    CHECK(move_one(w, 0, HALF, 64, KVF_WRITE, &done) == KVF_REFUSED);
    both_ways(w, PIECES);
    CHECK(w->run == 2 && w->begun == w->answered && w->begun < 100);
    kvf_wire_free(w);
    target_end(&t);
}

/* ---- memory that is gone ---- */

#define GONE (1u << 20)
#define KEPT (64u << 10) /* more than a reader holds */

static unsigned char *memory_with_a_hole(void) {
    unsigned char *p = mmap(NULL, GONE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 5, KEPT);
    CHECK(munmap(p + KEPT, GONE - KEPT) == 0);
    return p;
}

/* At the target: the wire ends, and nothing else. */
static void check_gone_there(kvf_op op) {
    target t;
    kvf_done done = {0};
    target_start(&t);
    unsigned char *gone = memory_with_a_hole();
    t.span[0].delta = (uintptr_t)gone - (uintptr_t)there;
    kvf_wire *w = dial(&t, 1);
    CHECK(move_one(w, 0, 0, GONE, op, &done) == KVF_LOST);
    CHECK(move_one(w, 0, 0, 64, op, &done) == KVF_LOST);
    kvf_wire_free(w);
    w = dial(&t, 2);
    CHECK(move_one(w, 0, 0, 64, KVF_READ, &done) == KVF_OK && here[0] == gone[0]);
    kvf_wire_free(w);
    target_end(&t);
    munmap(gone, KEPT);
}

/* Here: what was sent of a WRITE the peer may yet place, of a READ nothing is left anywhere. */
static void check_gone_here(kvf_op op, kvf_outcome outcome) {
    target t;
    kvf_done done = {0};
    target_start(&t);
    unsigned char *gone = memory_with_a_hole();
    const kvf_descriptor d = {(uintptr_t)gone, (uintptr_t)there, GONE};
    kvf_wire *w = dial(&t, 1);
    CHECK(move(w, &d, GONE, op, &done) == outcome);
    CHECK(atomic_load(&w->dead));
    kvf_server_dismiss(t.server, &(uint64_t){1});
    kvf_wire_free(w);
    target_end(&t);
    munmap(gone, KEPT);
}

/* ---- ends that close in the midst, without SIGPIPE ---- */

typedef struct leaver {
    int fd;
    size_t after; /* bytes */
    int how;
} leaver;

static void leave_in_the_midst(void *arg) {
    leaver *l = arg;
    static char taken[4096];
    for (size_t left = l->after; left;) {
        ssize_t n = recv(l->fd, taken, left < sizeof taken ? left : sizeof taken, 0);
        CHECK(n > 0);
        left -= (size_t)n;
    }
    shutdown(l->fd, l->how);
}

typedef struct parting {
    leaver leaver; /* first */
    kvf_wire *wire;
    kvf_op op;
} parting;

static void run_until_left(void *arg, unsigned index) {
    (void)index;
    parting *p = arg;
    kvf_done done = {0};
    CHECK(move_one(p->wire, 0, 0, AREA, p->op, &done) == KVF_LOST);
}

static void check_parting(kvf_op op, size_t after, int how) {
    int fd[2];
    connect_pair(fd);
    parting p = {{fd[1], after, how}, kvf_wire_new(fd[0], NULL), op};
    in_parallel(1, run_until_left, &p, leave_in_the_midst);
    kvf_wire_free(p.wire);
    close(fd[1]);
}

/* An initiator that will ask no more is answered what it asked. */
static void check_half_closed(void) {
    target t;
    int fd[2];
    struct {
        kvf_request head;
        kvf_place place;
    } frame = {{KVF_REQUEST_MAGIC, KVF_READ, 7, 1, 1, HALF / 2}, {(uintptr_t)there, HALF / 2}};
    target_start(&t);
    connect_pair(fd);
    memset(there, 8, HALF);
    CHECK(kvf_server_serve(t.server, fd[1], 1, FRIEND) == 0);
    CHECK(send(fd[0], &frame, sizeof frame, MSG_NOSIGNAL) == sizeof frame);
    shutdown(fd[0], SHUT_WR);
    kvf_answer a;
    CHECK(recv(fd[0], &a, sizeof a, MSG_WAITALL) == sizeof a && a.status == KVF_DONE && a.tag == 7);
    CHECK(recv(fd[0], here, HALF / 2, MSG_WAITALL) == HALF / 2 && memcmp(here, there, HALF / 2) == 0);
    CHECK(recv(fd[0], here, 1, 0) == 0);
    close(fd[0]);
    target_end(&t);
}

/* ---- signals ---- */

typedef struct volley {
    kvf_wire *wire;
    pthread_t runner;
    _Atomic bool on;
} volley;

static void ignore(int number) { (void)number; }

static void run_under_fire(void *arg, unsigned index) {
    (void)index;
    volley *v = arg;
    v->runner = pthread_self();
    atomic_store(&v->on, true);
    for (int i = 0; i < 3; i++) both_ways(v->wire, PIECES);
    atomic_store(&v->on, false);
}

static void fire(void *arg) {
    volley *v = arg;
    while (!atomic_load(&v->on)) sched_yield();
    for (; atomic_load(&v->on); sched_yield()) pthread_kill(v->runner, SIGUSR1);
}

static void check_signals(void) {
    target t;
    struct sigaction action = {.sa_handler = ignore}; /* no SA_RESTART */
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    target_start(&t);
    volley v = {.wire = dial(&t, 1)};
    in_parallel(1, run_under_fire, &v, fire);
    kvf_wire_free(v.wire);
    target_end(&t);
}

/* ---- more wires than threads ---- */

#define WIRES 12u

static void check_few_threads(void) {
    target t;
    static kvf_done done[WIRES];
    kvf_descriptor d[WIRES];
    kvf_wire *w[WIRES];
    kvf_stream *s[WIRES];
    const uint64_t share = (HALF - GAP) / WIRES;
    target_start(&t);
    kvf_engines *e = kvf_engines_new(kvf_best_nt());
    CHECK(kvf_engines_start(e, 2) == 0);
    memset(there, 0, HALF);
    for (unsigned i = 0; i < WIRES; i++) {
        uint64_t at = i * share;
        memset(here + at, (int)i + 1, share);
        d[i] = (kvf_descriptor){(uintptr_t)here + at, (uintptr_t)there + at, share};
        w[i] = dial(&t, i), s[i] = kvf_stream_new();
        kvf_done_begin(&done[i]);
        kvf_entry copy = {.kind = KVF_ENTRY_COPY, .op = KVF_WRITE, .done = &done[i],
                          .sequence = done[i].sequence, .mover = &w[i]->mover,
                          .run = {&d[i], 0, share, 0}};
        kvf_entry flag = {.kind = KVF_ENTRY_FLAG, .done = &done[i], .sequence = done[i].sequence};
        CHECK(kvf_ring_push(&s[i]->ring, &copy) && kvf_ring_push(&s[i]->ring, &flag));
        kvf_doorbell(e, s[i], true);
    }
    for (unsigned i = 0; i < WIRES; i++) {
        while (!kvf_done_wait(&done[i], KVF_FOREVER)) continue;
        CHECK(kvf_done_outcome(&done[i]) == KVF_OK);
        kvf_stream_free(e, s[i]);
        kvf_wire_free(w[i]);
    }
    CHECK(memcmp(here, there, WIRES * share) == 0);
    kvf_engines_stop(e);
    kvf_engines_free(e);
    target_end(&t);
}

int main(void) {
    check_narrow();
    check_single_bytes();
    check_wrap();
    for (kvf_op op = KVF_WRITE; op <= KVF_READ; op++) check_gone_there(op);
    check_gone_here(KVF_WRITE, KVF_LOST);
    check_gone_here(KVF_READ, KVF_FAULT);
    check_parting(KVF_WRITE, 100, SHUT_RDWR);
    check_parting(KVF_WRITE, AREA / 2, SHUT_WR);
    check_parting(KVF_READ, 40, SHUT_WR);
    check_half_closed();
    check_signals();
    check_few_threads();
    return 0;
}

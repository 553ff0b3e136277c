/* target.h: who serves wires within this process, both ends of connections, and runs over them. */
#ifndef KVF_TARGET_H
#define KVF_TARGET_H

#include "parallel.h"
#include "serve.h"
#include "wire.h"

#define AREA (3u << 20)

static unsigned char here[AREA], there[AREA];

/* ---- one region that may be written, one that may not, and a gap between ---- */

#define HALF (AREA / 2)
#define GAP 4096u
#define FRIEND ((kvf_visitor){.epoch = 1, .writes = true})

typedef struct target {
    kvf_span span[2];
    kvf_span *row[2];
    kvf_table table;
    kvf_server *server;
} target;

static inline void target_start(target *t) {
    memset(t, 0, sizeof *t);
    pthread_mutex_init(&t->table.lock, NULL);
    for (unsigned i = 0; i < 2; i++) {
        t->span[i] = (kvf_span){.base = (uintptr_t)there + i * HALF, .length = HALF - GAP,
                                .offer = i ? KVF_OFFER_READ : KVF_OFFER_WRITE};
        kvf_gate_init(&t->span[i].gate);
        t->row[i] = &t->span[i];
    }
    t->table.row = t->row, t->table.n = 2;
    CHECK(t->server = kvf_server_new(&t->table));
}

static inline void target_end(target *t) {
    kvf_server_dismiss(t->server, NULL);
    CHECK(kvf_server_wires(t->server) == 0);
    for (unsigned i = 0; i < 2; i++) CHECK(kvf_gate_inside(&t->span[i].gate) == 0);
    kvf_server_free(t->server);
    pthread_mutex_destroy(&t->table.lock);
}

/* Both ends of a TCP connection within this host. */
static inline void connect_pair(int fd[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, size) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd[0], (struct sockaddr *)&at, size) == 0);
    CHECK((fd[1] = accept(listener, NULL, NULL)) >= 0);
    close(listener);
}

static inline kvf_wire *dial(target *t, uint64_t owner) {
    int fd[2];
    connect_pair(fd);
    CHECK(kvf_server_serve(t->server, fd[1], owner, FRIEND) == 0);
    kvf_wire *w = kvf_wire_new(fd[0], NULL);
    CHECK(w);
    return w;
}

/* ---- runs ---- */

static inline kvf_outcome move(kvf_wire *w, const kvf_descriptor *d, uint64_t bytes, kvf_op op, kvf_done *done) {
    kvf_done_begin(done);
    kvf_brake brake = {done, done->sequence, KVF_FOREVER, NULL};
    kvf_outcome outcome = w->mover.run(&w->mover, (kvf_run){d, 0, bytes, 0}, op, &brake);
    kvf_done_finish(done, 0, done->sequence);
    return outcome;
}

static inline kvf_outcome move_one(kvf_wire *w, uint64_t from, uint64_t to, uint64_t length, kvf_op op,
                            kvf_done *done) {
    const kvf_descriptor d = {(uintptr_t)here + from, (uintptr_t)there + to, length};
    return move(w, &d, length, op, done);
}

#endif

/* serve.h: the target's half of wires: native threads that place and serve bytes, one a wire.
 *
 * The threads look into a table of spans (resolve.h) and need nothing of the interpreter: a peer's
 * transfer goes on while this process computes under the GIL.
 *
 *   wire  -> request -> admit: every piece lies in a region that offers this, to this visitor?
 *              yes: its gates are held, and its bytes go into place or out
 *              no:  its bytes are left out, and the peer is told which piece
 *         <- answer
 *
 * Bytes of regions that the processor does not reach pass through a buffer of the wire's own, whole
 * frames at a time: what belongs there is stored when all of the frame is here, and before its answer;
 * what comes from there is loaded before the answer begins.
 *
 *   frame    | host | device | device | host |
 *   buffer          | device | device |            KVF_FRAME_BYTES, once any is needed
 *
 * While a thread waits for its peer it holds the gates of one frame at most. When one of them is closed
 * the peer may complete the frame within KVF_GRACE_NS, and learns from the answer to its next that
 * the region is gone; after that the wire ends: whoever unregisters a region does not wait for a peer
 * that stands still.
 *
 * `lock` guards the lists, `closed`, and every wire's membership. A thread that has ended stands in
 * `ended` until somebody joins it. Descriptors are closed by who joins, so that shutdown never hits
 * a number used again.
 */
#ifndef KVF_SERVE_H
#define KVF_SERVE_H

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "frame.h"
#include "socket.h"

#define KVF_SERVED_MAX 1024u
#define KVF_GRACE_NS (2 * KVF_SLICE_NS)

typedef struct kvf_server kvf_server;

/* Memory that a piece of the buffer belongs to, or comes from. */
typedef struct kvf_crossing {
    kvf_reach *reach;
    uint64_t address, length;
} kvf_crossing;

typedef struct kvf_served {
    kvf_server *home;
    struct kvf_served *next; /* in live or ended */
    uint64_t owner;
    kvf_visitor visitor; /* on whose behalf */
    pthread_t thread;
    int fd;
    _Atomic bool ending;
    uint32_t refused; /* the run whose frames are dropped; runs count from 1 */
    uint32_t inside;  /* gates held */
    uint64_t until;   /* of who holds one that is closed; 0: none was seen */
    kvf_span *entered[KVF_FRAME_PIECES];
    kvf_request request;
    kvf_place place[KVF_FRAME_PIECES];
    kvf_answer answer;
    kvf_message message;
    uint8_t *buffer; /* or NULL */
    uint32_t crossings;
    kvf_crossing crossing[KVF_FRAME_PIECES]; /* in the order of the buffer, from its beginning on */
    uint64_t surplus; /* bytes of a frame that is not admitted */
    kvf_reader reader;
} kvf_served;

struct kvf_server {
    kvf_table *table;
    pthread_mutex_t lock;
    pthread_cond_t end; /* a wire went from live to ended */
    kvf_served *live, *ended;
    unsigned wires; /* live ones */
    bool closed;
};

/* ---- moving bytes ---- */

static inline bool kvf_holds_closed(const kvf_served *s) {
    for (uint32_t i = 0; i < s->inside; i++)
        if (kvf_gate_closed(&s->entered[i]->gate)) return true;
    return false;
}

static inline bool kvf_served_must_end(kvf_served *s) {
    if (atomic_load_explicit(&s->ending, memory_order_acquire)) return true;
    if (!s->until && !kvf_holds_closed(s)) return false;
    uint64_t now = kvf_now();
    if (!s->until) s->until = now + KVF_GRACE_NS;
    return now >= s->until;
}

/* Without a gate there is nothing to look after: whoever ends the wire shuts the socket down. */
static inline bool kvf_served_wait(kvf_served *s, short events) {
    if (kvf_served_must_end(s)) return false;
    kvf_await_socket(s->fd, events, s->inside ? KVF_SLICE_MS : INT_MAX);
    return true;
}

typedef kvf_io kvf_step(kvf_served *);

/* One step that moves something; false when the wire is over. */
static inline bool kvf_served_go(kvf_served *s, kvf_step *step, short events) {
    for (;;) {
        kvf_io io = step(s);
        if (io == KVF_IO_MOVED) return true;
        if (io != KVF_IO_WAIT) return false;
        if (!kvf_served_wait(s, events)) return false;
    }
}

static inline kvf_io kvf_step_fill(kvf_served *s) { return kvf_reader_fill(&s->reader, s->fd); }
static inline kvf_io kvf_step_place(kvf_served *s) { return kvf_receive_some(s->fd, &s->message); }
static inline kvf_io kvf_step_send(kvf_served *s) { return kvf_send_some(s->fd, &s->message); }
static inline kvf_io kvf_step_discard(kvf_served *s) {
    return kvf_reader_discard(&s->reader, s->fd, &s->surplus);
}

static inline bool kvf_hear(kvf_served *s, void *to, uint64_t n) {
    for (uint64_t have = 0;;) {
        have += kvf_reader_take(&s->reader, (char *)to + have, n - have);
        if (have == n) return true;
        if (!kvf_served_go(s, kvf_step_fill, POLLIN)) return false;
    }
}

static inline bool kvf_take_body(kvf_served *s) {
    kvf_reader_pour(&s->reader, &s->message);
    while (s->message.left)
        if (!kvf_served_go(s, kvf_step_place, POLLIN)) return false;
    return true;
}

static inline bool kvf_discard_body(kvf_served *s) {
    for (s->surplus = s->request.bytes; s->surplus;)
        if (!kvf_served_go(s, kvf_step_discard, POLLIN)) return false;
    return true;
}

static inline bool kvf_send_all(kvf_served *s) {
    while (s->message.left)
        if (!kvf_served_go(s, kvf_step_send, POLLOUT)) return false;
    return true;
}

/* ---- admission ---- */

static inline void kvf_leave_gates(kvf_served *s) {
    while (s->inside) kvf_gate_leave(&s->entered[--s->inside]->gate);
    s->until = 0;
}

/* Where the bytes of an admitted piece come from, or go to. */
static inline kvf_verdict kvf_lay_piece(kvf_served *s, kvf_reach *reach, uint64_t address,
                                        uint64_t length) {
    const void *at = (const void *)address;
    if (reach) {
        if (!s->buffer && !(s->buffer = malloc(KVF_FRAME_BYTES))) return KVF_NO_MEMORY;
        at = s->buffer + s->answer.staged;
        s->crossing[s->crossings++] = (kvf_crossing){reach, address, length};
        s->answer.staged += length;
    }
    kvf_message_add(&s->message, at, length);
    return KVF_RESOLVED;
}

/* The pieces of a frame mostly lie in one region, whose gate then is entered once. */
static inline kvf_verdict kvf_enter_piece(kvf_served *s, kvf_place p) {
    kvf_span *span = s->inside ? s->entered[s->inside - 1] : NULL;
    if (!span || p.address - span->base >= span->length) {
        bool write = s->request.op == KVF_WRITE;
        kvf_verdict verdict =
            kvf_table_enter(s->home->table, p.address, p.length, write, &s->visitor, &span);
        if (verdict) return verdict;
        s->entered[s->inside++] = span;
    } else if (p.length > span->length - (p.address - span->base)) {
        return KVF_LEAVES;
    }
    return kvf_lay_piece(s, span->reach, p.address + span->delta, p.length);
}

static inline void kvf_deny(kvf_served *s, kvf_verdict verdict, uint64_t address) {
    kvf_leave_gates(s);
    s->answer.status = KVF_DENIED;
    s->answer.verdict = verdict, s->answer.side = KVF_REMOTE, s->answer.address = address;
    s->refused = s->request.run;
}

/* May the frame be carried out? Then its gates are held and its places stand in `message`, behind
 * whatever stood there; else the answer says why not, and nothing is held. */
static inline bool kvf_admit(kvf_served *s) {
    const kvf_request *r = &s->request;
    if (r->run == s->refused) {
        s->answer.status = KVF_DROPPED;
        return false;
    }
    uint32_t excess = kvf_first_excess(s->place, r->pieces, r->bytes);
    for (uint32_t i = 0; i < r->pieces; i++) {
        kvf_verdict verdict = i == excess ? KVF_LEAVES : kvf_enter_piece(s, s->place[i]);
        if (!verdict) continue;
        kvf_deny(s, verdict, s->place[i].address);
        return false;
    }
    s->answer.bytes = r->bytes;
    return true;
}

/* ---- one frame ---- */

static inline void kvf_break(kvf_served *s, int code) {
    s->answer.status = KVF_BROKEN;
    s->answer.code = code, s->answer.bytes = 0;
    s->refused = s->request.run;
}

/* Between the buffer and what is reached from it; false: the answer says why not. */
static inline bool kvf_cross_frame(kvf_served *s) {
    uint8_t *at = s->buffer;
    for (uint32_t i = 0; i < s->crossings; at += s->crossing[i++].length) {
        const kvf_crossing *c = &s->crossing[i];
        int code = s->request.op == KVF_WRITE ? c->reach->store(c->reach, c->address, at, c->length)
                                              : c->reach->load(c->reach, at, c->address, c->length);
        if (!code) continue;
        kvf_break(s, code);
        return false;
    }
    return true;
}

static inline bool kvf_send_answer(kvf_served *s) {
    kvf_message_clear(&s->message);
    kvf_message_add(&s->message, &s->answer, sizeof s->answer);
    return kvf_send_all(s);
}

static inline bool kvf_serve_write(kvf_served *s) {
    kvf_message_clear(&s->message);
    bool admitted = kvf_admit(s), whole = admitted ? kvf_take_body(s) : kvf_discard_body(s);
    if (admitted && whole) kvf_cross_frame(s);
    kvf_leave_gates(s); /* before it is announced */
    return whole && kvf_send_answer(s);
}

static inline bool kvf_serve_read(kvf_served *s) {
    kvf_message_clear(&s->message);
    kvf_message_add(&s->message, &s->answer, sizeof s->answer);
    bool whole = kvf_admit(s) && kvf_cross_frame(s) ? kvf_send_all(s) : kvf_send_answer(s);
    kvf_leave_gates(s);
    return whole;
}

static inline bool kvf_serve_frame(kvf_served *s) {
    const kvf_request *r = &s->request;
    if (!kvf_hear(s, &s->request, sizeof s->request) || !kvf_request_fits(r)) return false;
    if (!kvf_hear(s, s->place, r->pieces * sizeof(kvf_place))) return false;
    s->answer = (kvf_answer){.magic = KVF_ANSWER_MAGIC, .tag = r->tag};
    s->crossings = 0;
    return r->op == KVF_WRITE ? kvf_serve_write(s) : kvf_serve_read(s);
}

/* ---- threads ---- */

static inline void kvf_unlink_served(kvf_served **list, kvf_served *s) {
    while (*list != s) list = &(*list)->next;
    *list = s->next;
}

static inline void *kvf_served_main(void *wire) {
    kvf_served *s = wire;
    kvf_server *home = s->home;
    while (!atomic_load_explicit(&s->ending, memory_order_acquire) && kvf_serve_frame(s)) continue;
    shutdown(s->fd, SHUT_RDWR);
    pthread_mutex_lock(&home->lock);
    kvf_unlink_served(&home->live, s);
    home->wires--;
    s->next = home->ended;
    home->ended = s;
    pthread_cond_broadcast(&home->end);
    pthread_mutex_unlock(&home->lock);
    return NULL;
}

/* Join the threads that have ended. With the lock held, which they do not need any more. */
static inline void kvf_server_reap(kvf_server *h) {
    while (h->ended) {
        kvf_served *s = h->ended;
        h->ended = s->next;
        pthread_join(s->thread, NULL);
        close(s->fd);
        free(s->buffer);
        free(s);
    }
}

static inline int kvf_server_start(kvf_server *h, kvf_served *s) {
    if (h->closed) return ESHUTDOWN;
    if (h->wires == KVF_SERVED_MAX) return EMFILE;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&s->thread, NULL, kvf_served_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code) return code;
    s->next = h->live;
    h->live = s;
    h->wires++;
    return 0;
}

/* Serve a connected socket of `visitor` until it ends; 0 or an errno. `owner` names all that are to be
 * dismissed together. The descriptor is taken over, also on failure. */
static inline int kvf_server_serve(kvf_server *h, int fd, uint64_t owner, kvf_visitor visitor) {
    kvf_served *s = calloc(1, sizeof *s);
    int code = ENOMEM;
    if (s) {
        s->home = h, s->fd = fd, s->owner = owner, s->visitor = visitor;
        kvf_socket_prepare(fd);
        pthread_mutex_lock(&h->lock);
        kvf_server_reap(h);
        code = kvf_server_start(h, s);
        pthread_mutex_unlock(&h->lock);
    }
    if (code) {
        close(fd);
        free(s);
    }
    return code;
}

/* With the lock held: tell the wires of `owner`, or all, to end; how many there are still. */
static inline unsigned kvf_server_shut(kvf_server *h, const uint64_t *owner) {
    unsigned n = 0;
    for (kvf_served *s = h->live; s; s = s->next) {
        if (owner && s->owner != *owner) continue;
        n++;
        if (atomic_exchange_explicit(&s->ending, true, memory_order_acq_rel)) continue;
        shutdown(s->fd, SHUT_RDWR);
    }
    return n;
}

/* End the wires of `owner`, or all. On return none of them touches memory any more. */
static inline void kvf_server_dismiss(kvf_server *h, const uint64_t *owner) {
    pthread_mutex_lock(&h->lock);
    if (!owner) h->closed = true;
    while (kvf_server_shut(h, owner)) pthread_cond_wait(&h->end, &h->lock);
    kvf_server_reap(h);
    pthread_mutex_unlock(&h->lock);
}

static inline unsigned kvf_server_wires(kvf_server *h) {
    pthread_mutex_lock(&h->lock);
    unsigned n = h->wires;
    pthread_mutex_unlock(&h->lock);
    return n;
}

/* In a forked child, where no thread serves: let go of what is the parent's. */
static inline void kvf_server_forked(kvf_server *h) {
    for (kvf_served *s = h->live; s; s = s->next) close(s->fd);
    for (kvf_served *s = h->ended; s; s = s->next) close(s->fd);
    h->live = h->ended = NULL;
}

static inline kvf_server *kvf_server_new(kvf_table *table) {
    kvf_server *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->table = table;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->end, NULL);
    return h;
}

/* After all were dismissed. */
static inline void kvf_server_free(kvf_server *h) {
    pthread_cond_destroy(&h->end);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

#endif

/* wire.h: the initiator's half of a wire: a mover that asks the peer to place or to serve bytes.
 *
 * A run goes out in frames (frame.h), several under way at once:
 *
 *   tags     | answered ..... begun |            at most KVF_WINDOW between them
 *            window[tag % KVF_WINDOW]            where the bytes of that frame lie here
 *
 * Sending never waits for receiving or the other way round, so that two ends which both have their
 * buffers full cannot stop each other.
 *
 * A run that shall stop begins no frame any more and waits for the answers to those that are under
 * way: the peer takes them in order, so with the last one nothing of the run is left there. A peer
 * that does not answer within KVF_PATIENCE_NS costs the wire. Only this thread writes local memory.
 *
 * Owned by one stream: one run at a time.
 */
#ifndef KVF_WIRE_H
#define KVF_WIRE_H

#include <stdlib.h>

#include "frame.h"
#include "mover.h"
#include "socket.h"

#define KVF_WINDOW 4u
#define KVF_PATIENCE_NS 1000000000ull

typedef struct kvf_wire {
    kvf_mover mover;
    int fd;
    bool open;
    _Atomic bool dead; /* every later run is lost */
    int (*interrupted)(void); /* asked when a wait was long or a signal came: shall the run stop? */
    uint32_t run;
    uint64_t answered, begun;
    kvf_run window[KVF_WINDOW];
    kvf_message out, in;
    struct {
        kvf_request head;
        kvf_place place[KVF_FRAME_PIECES];
    } request;
    kvf_reader reader;
} kvf_wire;

/* One run on its way. */
typedef struct kvf_voyage {
    kvf_run rest; /* what no frame was begun for */
    kvf_op op;
    const kvf_brake *brake;
    kvf_outcome stop;   /* why no frame is begun any more */
    uint64_t patience;  /* with a stop: until when answers are awaited */
    kvf_answer refusal; /* when it stops because the peer's end failed */
} kvf_voyage;

/* After such a stop the peer drops what it has yet to answer of the run. */
static inline bool kvf_voyage_failed_there(const kvf_voyage *v) {
    return v->stop == KVF_REFUSED || v->stop == KVF_DEVICE;
}

static inline bool kvf_wire_waits(const kvf_wire *w) { return w->answered != w->begun; }

/* ---- out ---- */

static inline void kvf_wire_begin(kvf_wire *w, kvf_voyage *v) {
    kvf_run frame = v->rest;
    uint32_t n = 0;
    uint64_t bytes = 0;
    kvf_message_clear(&w->out);
    kvf_message_add(&w->out, &w->request, 0); /* its length is not known yet */
    for (kvf_piece p; n < KVF_FRAME_PIECES && bytes < KVF_FRAME_BYTES &&
                      kvf_next_piece(&v->rest, KVF_FRAME_BYTES - bytes, &p);) {
        w->request.place[n++] = (kvf_place){p.remote, p.length};
        if (v->op == KVF_WRITE) kvf_message_add(&w->out, (const void *)p.local, p.length);
        bytes += p.length;
    }
    w->request.head = (kvf_request){KVF_REQUEST_MAGIC, v->op, w->begun, w->run, n, bytes};
    w->out.vector[0].iov_len = sizeof(kvf_request) + n * sizeof(kvf_place);
    w->out.left += w->out.vector[0].iov_len;
    frame.bytes = bytes;
    w->window[w->begun++ % KVF_WINDOW] = frame;
}

/* The first reason counts. */
static inline void kvf_voyage_stop(kvf_voyage *v, kvf_outcome why) {
    if (v->stop || !why) return;
    v->stop = why;
    v->patience = kvf_now() + KVF_PATIENCE_NS;
}

static inline void kvf_voyage_refuse(kvf_voyage *v, const kvf_answer *a) {
    kvf_outcome why = a->status == KVF_DENIED ? KVF_REFUSED : KVF_DEVICE;
    kvf_voyage_stop(v, why);
    v->stop = why; /* says more than that somebody gave up meanwhile */
    v->refusal = *a;
}

static inline void kvf_voyage_count(kvf_voyage *v, const kvf_answer *a) {
    kvf_done *done = v->brake->done;
    atomic_fetch_add_explicit(&done->served, a->bytes, memory_order_relaxed);
    if (a->status == KVF_DONE && a->staged)
        atomic_fetch_add_explicit(&done->staged, a->staged, memory_order_relaxed);
}

static inline kvf_io kvf_wire_send(kvf_wire *w, kvf_voyage *v) {
    if (!w->out.left && v->rest.bytes && !v->stop && w->begun - w->answered < KVF_WINDOW) {
        kvf_voyage_stop(v, kvf_brake_check(v->brake));
        if (!v->stop) kvf_wire_begin(w, v);
    }
    return w->out.left ? kvf_send_some(w->fd, &w->out) : KVF_IO_WAIT;
}

/* ---- in ---- */

static inline void kvf_lay_local(kvf_message *in, kvf_run frame) {
    kvf_message_clear(in);
    for (kvf_piece p; kvf_next_piece(&frame, KVF_FRAME_BYTES, &p);)
        kvf_message_add(in, (const void *)p.local, p.length);
}

static inline void kvf_wire_settle(kvf_wire *w) {
    if (!w->in.left) w->answered++;
}

static inline kvf_io kvf_wire_hear(kvf_wire *w, kvf_voyage *v) {
    if (kvf_reader_has(&w->reader) < sizeof(kvf_answer)) return kvf_reader_fill(&w->reader, w->fd);
    kvf_answer a;
    const kvf_run *frame = &w->window[w->answered % KVF_WINDOW];
    kvf_reader_take(&w->reader, &a, sizeof a);
    if (!kvf_answer_fits(&a, w->answered, frame->bytes)) return KVF_IO_BROKEN;
    if (a.status == KVF_DROPPED && !kvf_voyage_failed_there(v)) return KVF_IO_BROKEN;
    if (a.status == KVF_DENIED || a.status == KVF_BROKEN) kvf_voyage_refuse(v, &a);
    kvf_voyage_count(v, &a);
    if (a.status == KVF_DONE && v->op == KVF_READ) {
        kvf_lay_local(&w->in, *frame);
        kvf_reader_pour(&w->reader, &w->in);
    }
    kvf_wire_settle(w);
    return KVF_IO_MOVED;
}

static inline kvf_io kvf_wire_receive(kvf_wire *w, kvf_voyage *v) {
    if (!kvf_wire_waits(w)) return KVF_IO_WAIT;
    if (!w->in.left) return kvf_wire_hear(w, v);
    kvf_io io = kvf_receive_some(w->fd, &w->in);
    if (io == KVF_IO_MOVED) kvf_wire_settle(w);
    return io;
}

/* ---- a run ---- */

/* From now on it is nobody's: the peer ends it, too. */
static inline void kvf_wire_kill(kvf_wire *w) {
    atomic_store_explicit(&w->dead, true, memory_order_release);
    shutdown(w->fd, SHUT_RDWR);
}

static inline kvf_outcome kvf_wire_fail(kvf_wire *w, kvf_outcome outcome) {
    kvf_wire_kill(w);
    return outcome;
}

/* Both directions once: the first that is broken, else whether anything moved. */
static inline kvf_io kvf_wire_step(kvf_wire *w, kvf_voyage *v) {
    kvf_io sent = kvf_wire_send(w, v);
    if (sent > KVF_IO_WAIT) return sent;
    kvf_io heard = kvf_wire_receive(w, v);
    return sent == KVF_IO_MOVED && heard == KVF_IO_WAIT ? sent : heard;
}

static inline void kvf_wire_sleep(kvf_wire *w, kvf_voyage *v) {
    uint64_t now = kvf_now();
    uint64_t ns = kvf_slice(now, v->stop ? v->patience : v->brake->deadline);
    short events = w->out.left ? POLLIN | POLLOUT : POLLIN;
    bool whole = kvf_await_socket(w->fd, events, (int)((ns + 999999) / 1000000));
    bool long_ago = kvf_now() - now >= KVF_SLICE_NS / 2;
    if ((!whole || long_ago) && w->interrupted && w->interrupted()) kvf_voyage_stop(v, KVF_ABORTED);
}

/* Nothing can be moved now. False when the peer's time is up. */
static inline bool kvf_wire_idle(kvf_wire *w, kvf_voyage *v) {
    if (!v->stop) kvf_voyage_stop(v, kvf_brake_check(v->brake));
    if (v->stop && !w->out.left && !kvf_wire_waits(w)) return true; /* nothing is owed: it is over */
    if (v->stop && kvf_now() >= v->patience) return false;
    kvf_wire_sleep(w, v);
    return true;
}

/* The peer owes answers and will not be heard any more. It may place a WRITE yet; what a READ has
 * brought is here, and nothing follows. */
static inline kvf_outcome kvf_voyage_unanswered(const kvf_voyage *v) {
    return v->op == KVF_WRITE || kvf_voyage_failed_there(v) ? KVF_LOST : v->stop;
}

/* Memory here is not there. What was sent of a WRITE the peer may place yet. */
static inline kvf_outcome kvf_voyage_faulted(const kvf_wire *w, const kvf_voyage *v) {
    return v->op == KVF_WRITE && kvf_wire_waits(w) ? KVF_LOST : KVF_FAULT;
}

static inline kvf_outcome kvf_voyage_end(const kvf_voyage *v) {
    const kvf_answer *a = &v->refusal;
    if (v->stop == KVF_REFUSED) {
        kvf_done_refuse(v->brake->done, a->verdict, a->side, a->address);
    } else if (v->stop == KVF_DEVICE) {
        kvf_done_blame(v->brake->done, (int32_t)a->code);
    } else if (!v->rest.bytes) {
        return KVF_OK; /* it was asked to stop when all was under way, and all arrived */
    }
    return v->stop;
}

static inline kvf_outcome kvf_wire_run(kvf_mover *m, kvf_run r, kvf_op op, const kvf_brake *brake) {
    kvf_wire *w = (kvf_wire *)m;
    kvf_voyage v = {.rest = r, .op = op, .brake = brake};
    if (atomic_load_explicit(&w->dead, memory_order_acquire)) return KVF_LOST;
    if (!++w->run) w->run = 1;
    while ((v.rest.bytes && !v.stop) || w->out.left || kvf_wire_waits(w)) {
        switch (kvf_wire_step(w, &v)) {
        case KVF_IO_MOVED: break;
        case KVF_IO_WAIT:
            if (kvf_wire_idle(w, &v)) break;
            return kvf_wire_fail(w, kvf_voyage_unanswered(&v));
        case KVF_IO_BROKEN: return kvf_wire_fail(w, KVF_LOST);
        case KVF_IO_FAULT: return kvf_wire_fail(w, kvf_voyage_faulted(w, &v));
        }
    }
    return kvf_voyage_end(&v);
}

/* Takes the descriptor over; NULL without memory, and it is the caller's still. */
static inline kvf_wire *kvf_wire_new(int fd, int (*interrupted)(void)) {
    kvf_wire *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->mover.run = kvf_wire_run;
    w->fd = fd, w->open = true;
    w->interrupted = interrupted;
    kvf_socket_prepare(fd);
    return w;
}

/* Tells nobody: in a forked child the connection is the parent's. */
static inline void kvf_wire_close(kvf_wire *w) {
    atomic_store_explicit(&w->dead, true, memory_order_release);
    if (w->open) close(w->fd);
    w->open = false;
}

static inline void kvf_wire_free(kvf_wire *w) {
    kvf_wire_close(w);
    free(w);
}

#endif

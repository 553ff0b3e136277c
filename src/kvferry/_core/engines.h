/* engines.h: copy engines, the analogue of a DMA unit.
 *
 * A few native threads drain the rings of all streams. A stream's entries are carried out in order,
 * by one thread at a time; streams run in parallel. A thread that waits for a transfer takes streams
 * of it that no engine has begun: waking another one would take longer than many a copy.
 *
 *   doorbell ->  ready queue:  stream -> stream -> stream        each on it at most once
 *                                |         |
 *                             engine 0   engine 1                one entry, then back to the queue
 *
 * `lock` guards the ready queue, every stream's `busy`, and `stop`. It is held for a few
 * instructions, never while bytes move. An idle engine spins on `pending` before it sleeps.
 *
 * A stream is busy from its doorbell until an engine has found its ring empty; only a stream that is
 * not busy may be freed. A control stream (unfold.h) and its worker count as one in this: it is idle
 * when both are, and freed with it. Completion lines come from this arena and live as long as it does, since an
 * engine still looks at a line after completing it.
 *
 * Native locks are these. Nobody who holds one takes another or asks for the GIL, so who waits for
 * one, with the GIL or without, never waits for long; and no block is moved under any.
 *
 *   kvf_engines.lock  the ready queue (here)
 *   kvf_pool.lock     idle buffers (pool.h)
 *   kvf_table.lock    spans, against the threads of wires (resolve.h)
 *   kvf_server.lock   wires that are served, and those that have ended (serve.h)
 *   kvf_beats.lock    who is sent a beat (beat.h)
 */
#ifndef KVF_ENGINES_H
#define KVF_ENGINES_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "ring.h"

#define KVF_ENGINES_MAX 576 /* more than there are slots: each may wait for a peer */

typedef struct kvf_stream {
    kvf_ring ring;
    bool busy;
    bool orphaned; /* its owner let go of it while it was busy: who finds it idle frees it */
    struct kvf_stream *next; /* in the ready queue */
    struct kvf_stream *worker;  /* of a control stream */
    struct kvf_stream *control; /* of a worker */
    kvf_turn notified;          /* what the NOTIFY carried out last says */
} kvf_stream;

typedef struct kvf_engines {
    pthread_mutex_t lock;
    pthread_cond_t work; /* a stream became ready, or stop */
    pthread_cond_t idle; /* a stream is not busy any more */
    kvf_stream *first, *last;
    bool stop;
    unsigned sleepers;
    _Atomic uint32_t pending; /* streams in the ready queue, for spinners */
    kvf_hold hold;
    _Atomic uint64_t bytes;   /* moved so far */
    _Atomic uint64_t unfold_ns; /* processor time of threads that unfolded batches */
    uint64_t ended_cpu_ns;      /* of engines that have ended; under the lock */
    kvf_memory_mover memory; /* of runs that name no other */
    kvf_done *free_lines;
    unsigned threads;
    pthread_t thread[KVF_ENGINES_MAX];
} kvf_engines;

static inline void kvf_ready_push(kvf_engines *e, kvf_stream *s) {
    s->next = NULL;
    if (e->last) e->last->next = s;
    else e->first = s;
    e->last = s;
    atomic_fetch_add_explicit(&e->pending, 1, memory_order_release);
}

static inline kvf_stream *kvf_ready_pop(kvf_engines *e) {
    kvf_stream *s = e->first;
    if (!s) return NULL;
    e->first = s->next;
    if (!e->first) e->last = NULL;
    atomic_fetch_sub_explicit(&e->pending, 1, memory_order_relaxed);
    return s;
}

/* Out of the queue, wherever it stands in it; false when it is not there. */
static inline bool kvf_ready_take(kvf_engines *e, kvf_stream *s) {
    kvf_stream *before = NULL;
    for (kvf_stream *at = e->first; at; before = at, at = at->next) {
        if (at != s) continue;
        if (before) before->next = s->next;
        else e->first = s->next;
        if (e->last == s) e->last = before;
        atomic_fetch_sub_explicit(&e->pending, 1, memory_order_relaxed);
        return true;
    }
    return false;
}

static inline void kvf_move_run(kvf_engines *e, const kvf_entry *entry, uint64_t deadline,
                                kvf_hold *hold) {
    if (kvf_done_outcome(entry->done)) return; /* what failed is not worth going on with */
    kvf_brake brake = {entry->done, entry->sequence, deadline, hold};
    kvf_mover *mover = entry->mover ? entry->mover : &e->memory.mover;
    kvf_done_start(entry->done);
    kvf_outcome outcome = mover->run(mover, entry->run, (kvf_op)entry->op, &brake);
    if (outcome) kvf_done_fail(entry->done, outcome);
    else atomic_fetch_add_explicit(&e->bytes, entry->run.bytes, memory_order_relaxed);
}

static void kvf_unfold(kvf_engines *e, kvf_stream *control, const kvf_entry *entry); /* unfold.h */

static inline void kvf_carry_out(kvf_engines *e, kvf_stream *s, const kvf_entry *entry,
                                 uint64_t deadline, kvf_hold *hold) {
    switch ((kvf_entry_kind)entry->kind) {
    case KVF_ENTRY_COPY:
        kvf_move_run(e, entry, deadline, hold);
        break;
    case KVF_ENTRY_FLAG:
        kvf_done_finish(entry->done, (uint32_t)entry->word, entry->sequence);
        break;
    case KVF_ENTRY_NOTIFY:
        atomic_fetch_add_explicit(&entry->done->batches, 1, memory_order_relaxed);
        kvf_turn_pass(&s->notified, (uint32_t)entry->word);
        break;
    case KVF_ENTRY_BATCH:
        kvf_unfold(e, s, entry);
        break;
    }
}

static inline void kvf_spin_for_work(kvf_engines *e) {
    uint64_t until = kvf_now() + KVF_SPIN_NS;
    while (!atomic_load_explicit(&e->pending, memory_order_acquire) && kvf_now() < until)
        for (int i = 0; i < 32; i++) kvf_relax();
}

/* With the lock held: the next ready stream, or NULL when the engines stop. */
static inline kvf_stream *kvf_await_stream(kvf_engines *e) {
    for (bool spun = false;; spun = true) {
        kvf_stream *s = kvf_ready_pop(e);
        if (s || e->stop) return s;
        if (!spun) {
            pthread_mutex_unlock(&e->lock);
            kvf_spin_for_work(e);
            pthread_mutex_lock(&e->lock);
        } else {
            e->sleepers++;
            pthread_cond_wait(&e->work, &e->lock);
            e->sleepers--;
        }
    }
}

/* With the lock held: is nobody at the stream, nor at its other half? */
static inline bool kvf_idle(const kvf_stream *s) {
    const kvf_stream *other = s->worker ? s->worker : s->control;
    return !s->busy && !(other && other->busy);
}

static inline void kvf_stream_destroy(kvf_stream *s) {
    free(s->worker);
    free(s);
}

/* With the lock held, after some entries of a stream taken from the queue were carried out: it goes
 * back, or is not busy any more. A helper leaves what it puts back to others, who may sleep. */
static inline void kvf_put_back(kvf_engines *e, kvf_stream *s) {
    if (!kvf_ring_empty(&s->ring)) {
        kvf_ready_push(e, s);
        if (e->sleepers) pthread_cond_signal(&e->work);
    } else {
        s->busy = false;
        pthread_cond_broadcast(&e->idle);
        kvf_stream *whole = s->control ? s->control : s;
        if (whole->orphaned && kvf_idle(whole)) kvf_stream_destroy(whole);
    }
}

/* An engine takes this stream before those that are ready longer; false when it is not ready. */
static inline bool kvf_serve(kvf_engines *e, kvf_stream *s, kvf_hold *hold) {
    pthread_mutex_lock(&e->lock);
    bool ready = kvf_ready_take(e, s);
    pthread_mutex_unlock(&e->lock);
    if (!ready) return false;
    kvf_entry entry;
    while (kvf_ring_pop(&s->ring, &entry)) kvf_carry_out(e, s, &entry, KVF_FOREVER, hold);
    pthread_mutex_lock(&e->lock);
    kvf_put_back(e, s);
    pthread_mutex_unlock(&e->lock);
    return true;
}

static inline void *kvf_engine_main(void *arena) {
    kvf_engines *e = arena;
    pthread_mutex_lock(&e->lock);
    for (kvf_stream *s; (s = kvf_await_stream(e));) {
        pthread_mutex_unlock(&e->lock);
        kvf_entry entry;
        while (kvf_ring_pop(&s->ring, &entry)) {
            kvf_carry_out(e, s, &entry, KVF_FOREVER, &e->hold);
            if (atomic_load_explicit(&e->pending, memory_order_relaxed)) break;
        }
        pthread_mutex_lock(&e->lock);
        kvf_put_back(e, s);
    }
    e->ended_cpu_ns += kvf_thread_cpu();
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* The calling thread would wait for transfer `d`: it carries out what no engine has begun of it on
 * this stream, and nothing else: the stream may have been lent to another transfer meanwhile. */
static inline void kvf_help(kvf_engines *e, kvf_stream *s, const kvf_done *d, uint64_t deadline) {
    pthread_mutex_lock(&e->lock);
    if (s->busy && kvf_ring_serves(&s->ring, d) && kvf_ready_take(e, s)) {
        pthread_mutex_unlock(&e->lock);
        kvf_entry entry;
        while (kvf_ring_serves(&s->ring, d) && kvf_ring_pop(&s->ring, &entry))
            kvf_carry_out(e, s, &entry, deadline, NULL);
        pthread_mutex_lock(&e->lock);
        kvf_put_back(e, s);
    }
    pthread_mutex_unlock(&e->lock);
}

/* Wake as many engines as there are ready streams. */
static inline void kvf_wake_engines(kvf_engines *e) {
    pthread_mutex_lock(&e->lock);
    uint32_t ready = atomic_load_explicit(&e->pending, memory_order_relaxed);
    unsigned wanted = ready < e->sleepers ? ready : e->sleepers;
    pthread_mutex_unlock(&e->lock);
    while (wanted--) pthread_cond_signal(&e->work);
}

/* Hand the stream's new entries to the engines. `wake` one, unless the caller will help or wake them
 * in a moment: a wake costs a system call here, and takes effect after many a small copy. */
static inline void kvf_doorbell(kvf_engines *e, kvf_stream *s, bool wake) {
    pthread_mutex_lock(&e->lock);
    if (!s->busy) {
        s->busy = true;
        kvf_ready_push(e, s);
    }
    /* Nothing is ready: an engine is at this stream and will see what is new. */
    wake = wake && e->sleepers && e->first;
    pthread_mutex_unlock(&e->lock);
    if (wake) pthread_cond_signal(&e->work);
}

static inline kvf_stream *kvf_stream_new(void) {
    kvf_stream *s = aligned_alloc(64, (sizeof *s + 63) & ~(size_t)63);
    if (s) memset(s, 0, sizeof *s);
    return s;
}

/* Free it now, or when the entries it still has are carried out. */
static inline void kvf_stream_free(kvf_engines *e, kvf_stream *s) {
    pthread_mutex_lock(&e->lock);
    s->orphaned = true;
    if (kvf_idle(s)) kvf_stream_destroy(s);
    pthread_mutex_unlock(&e->lock);
}

static inline bool kvf_stream_busy(kvf_engines *e, kvf_stream *s) {
    pthread_mutex_lock(&e->lock);
    bool busy = !kvf_idle(s);
    pthread_mutex_unlock(&e->lock);
    return busy;
}

/* Block until no engine touches the stream, at most to `deadline`; true when it is idle. */
static inline bool kvf_stream_settle(kvf_engines *e, kvf_stream *s, uint64_t deadline) {
    struct timespec until = {(time_t)(deadline / 1000000000ull), (long)(deadline % 1000000000ull)};
    int code = 0;
    pthread_mutex_lock(&e->lock);
    while (!kvf_idle(s) && code != ETIMEDOUT) code = pthread_cond_timedwait(&e->idle, &e->lock, &until);
    bool idle = kvf_idle(s);
    pthread_mutex_unlock(&e->lock);
    return idle;
}

static inline kvf_engines *kvf_engines_new(const kvf_variant *nt) {
    kvf_engines *e = aligned_alloc(64, (sizeof *e + 63) & ~(size_t)63);
    if (!e) return NULL;
    memset(e, 0, sizeof *e);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, NULL);
    pthread_cond_init(&e->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    e->memory = (kvf_memory_mover){{kvf_move_in_memory}, nt};
    return e;
}

/* Start engines until there are `threads`; 0 or an errno. They take no signals. */
static inline int kvf_engines_start(kvf_engines *e, unsigned threads) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = 0;
    while (!code && e->threads < threads && e->threads < KVF_ENGINES_MAX) {
        code = pthread_create(&e->thread[e->threads], NULL, kvf_engine_main, e);
        if (!code) e->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* Ends the threads once every ready stream is drained. Blocks while a copy is under way. */
static inline void kvf_engines_stop(kvf_engines *e) {
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_broadcast(&e->work);
    pthread_mutex_unlock(&e->lock);
    for (unsigned i = 0; i < e->threads; i++) pthread_join(e->thread[i], NULL);
    e->threads = 0;
}

static inline void kvf_engines_hold(kvf_engines *e, bool held, int32_t passing) {
    atomic_store_explicit(&e->hold.passing, passing, memory_order_relaxed);
    atomic_store_explicit(&e->hold.held, held, memory_order_release);
    kvf_wake_all(&e->hold.held);
}

/* How many copies wait inside a chunk they have begun. */
static inline uint32_t kvf_engines_held(kvf_engines *e) {
    return atomic_load_explicit(&e->hold.inside, memory_order_acquire);
}

static inline uint64_t kvf_engines_bytes(kvf_engines *e) {
    return atomic_load_explicit(&e->bytes, memory_order_relaxed);
}

/* Processor time that the engines' threads have used. */
static inline uint64_t kvf_engines_cpu(kvf_engines *e) {
    pthread_mutex_lock(&e->lock);
    uint64_t ns = e->ended_cpu_ns;
    for (unsigned i = 0; !e->stop && i < e->threads; i++) {
        clockid_t clock;
        if (!pthread_getcpuclockid(e->thread[i], &clock)) ns += kvf_clock(clock);
    }
    pthread_mutex_unlock(&e->lock);
    return ns;
}

/* ---- completion lines; the caller serialises take and give ---- */

static inline kvf_done *kvf_line_take(kvf_engines *e) {
    kvf_done *d = e->free_lines;
    if (d) {
        e->free_lines = d->next;
        return d;
    }
    d = aligned_alloc(64, (sizeof *d + 63) & ~(size_t)63);
    if (d) memset(d, 0, sizeof *d);
    return d;
}

static inline void kvf_line_give(kvf_engines *e, kvf_done *d) {
    d->next = e->free_lines;
    e->free_lines = d;
}

/* Only after stop. */
static inline void kvf_engines_free(kvf_engines *e) {
    while (e->free_lines) {
        kvf_done *d = e->free_lines;
        e->free_lines = d->next;
        free(d);
    }
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->idle);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

#include "unfold.h"

#endif

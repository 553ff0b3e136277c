/* beat.h: a native thread of an engine that tells its peers "I live", and listens for the same.
 *
 *   peer   | socket |   a beat is one byte, 0x4B, in either direction; nothing else is ever said.
 *                       The side that was called begins when it has heard the first.
 *
 * The thread needs nothing of the interpreter and shares no lock with data, so beats go on while this
 * process computes under the GIL or registers memory. It looks at all sockets four times in a beat.
 *
 * Silence is the time since something was heard. One look adds no more than the time of two: a process
 * that stood still itself, stopped or starved, does not count that against its peers.
 *
 * Whoever looks after the bell, an eventfd, learns of a reading that has changed:
 *
 *   HEARD    lately
 *   SILENT   for longer than `suspect`
 *   LONG     silent for longer than `dead`
 *   ENDED    hung up, or said what is no beat; for good
 *
 * `lock` guards the list and everything in it. It is held for one look: no call under it blocks.
 */
#ifndef KVF_BEAT_H
#define KVF_BEAT_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "wait.h"

#define KVF_BEAT 0x4B
#define KVF_LOOKS_A_BEAT 4u
/* Bytes of one socket in one look: a flood costs no more. Who beats every 10 ms is kept up with by one
 * who looks every 40 s; what piles up would be heard long after its sender fell silent. */
#define KVF_BEATS_READ 4096u
#define KVF_BEAT_STACK (64u << 10)

enum { KVF_HEARD, KVF_SILENT, KVF_LONG_SILENT, KVF_BEAT_ENDED };

typedef struct kvf_beat {
    struct kvf_beat *next;
    uint64_t number;        /* names it to its owner */
    uint64_t suspect, dead; /* ns */
    uint64_t silence, due;  /* ns; when the next beat goes out, KVF_FOREVER: after the first heard */
    int fd;
    int reading, told;
} kvf_beat;

typedef struct kvf_beats {
    uint64_t every; /* ns between two beats */
    uint64_t looked;
    uint64_t last_number;
    pthread_mutex_t lock;
    kvf_beat *first;
    pthread_t thread;
    bool running;
    _Atomic uint32_t stopping; /* futex */
    _Atomic bool muted;        /* says nothing: what a test makes of a broken network */
    int bell;
} kvf_beats;

typedef struct kvf_news {
    uint64_t number;
    int reading;
} kvf_news;

static inline kvf_beats *kvf_beats_new(uint64_t every) {
    kvf_beats *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->every = every;
    b->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (b->bell < 0) {
        free(b);
        return NULL;
    }
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

/* ---- one look, under the lock ---- */

/* What the socket says: KVF_HEARD, KVF_SILENT (nothing) or KVF_BEAT_ENDED. */
static inline int kvf_beat_hear(int fd) {
    uint8_t said[KVF_BEATS_READ];
    ssize_t n = recv(fd, said, sizeof said, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? KVF_SILENT : KVF_BEAT_ENDED;
    for (ssize_t i = 0; i < n; i++)
        if (said[i] != KVF_BEAT) return KVF_BEAT_ENDED;
    return n ? KVF_HEARD : KVF_BEAT_ENDED;
}

/* False when nobody can hear it any more. A peer that does not read misses a beat. */
static inline bool kvf_beat_say(int fd) {
    const uint8_t beat = KVF_BEAT;
    ssize_t n = send(fd, &beat, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n >= 0 || errno == EAGAIN || errno == EINTR || errno == ENOBUFS;
}

static inline int kvf_beat_judge(kvf_beat *each, int said, uint64_t passed) {
    if (said == KVF_BEAT_ENDED) return KVF_BEAT_ENDED;
    each->silence = said == KVF_HEARD ? 0 : each->silence + passed;
    if (each->silence >= each->dead) return KVF_LONG_SILENT;
    return each->silence >= each->suspect ? KVF_SILENT : KVF_HEARD;
}

static inline void kvf_beat_look(kvf_beats *b, kvf_beat *each, uint64_t now, uint64_t passed) {
    int said = kvf_beat_hear(each->fd);
    bool mute = atomic_load_explicit(&b->muted, memory_order_relaxed);
    if (said == KVF_HEARD && each->due == KVF_FOREVER) each->due = now;
    if (now >= each->due && !mute) {
        each->due = now + b->every;
        if (!kvf_beat_say(each->fd)) said = KVF_BEAT_ENDED;
    }
    each->reading = kvf_beat_judge(each, said, passed);
}

static inline uint64_t kvf_beats_tick(const kvf_beats *b) { return b->every / KVF_LOOKS_A_BEAT; }

/* Look at every peer; true when there is news. */
static inline bool kvf_beats_look(kvf_beats *b, uint64_t now) {
    uint64_t most = 2 * kvf_beats_tick(b), passed = now - b->looked;
    bool news = false;
    if (passed > most) passed = most;
    b->looked = now;
    for (kvf_beat *each = b->first; each; each = each->next) {
        if (each->reading != KVF_BEAT_ENDED) kvf_beat_look(b, each, now, passed);
        news |= each->reading != each->told;
    }
    return news;
}

/* ---- the thread ---- */

static inline void *kvf_beats_main(void *argument) {
    kvf_beats *b = argument;
    while (!atomic_load_explicit(&b->stopping, memory_order_acquire)) {
        pthread_mutex_lock(&b->lock);
        bool news = kvf_beats_look(b, kvf_now());
        pthread_mutex_unlock(&b->lock);
        if (news) eventfd_write(b->bell, 1);
        kvf_sleep_while(&b->stopping, 0, kvf_beats_tick(b));
    }
    return NULL;
}

/* Under the lock. Returns 0, or the error with which no thread could be had. */
static inline int kvf_beats_start(kvf_beats *b) {
    if (b->running) return 0;
    sigset_t all, before;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, KVF_BEAT_STACK);
    b->looked = kvf_now();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&b->thread, &small, kvf_beats_main, b);
    if (code == EINVAL) /* the thread-local data of this process alone takes more */
        code = pthread_create(&b->thread, NULL, kvf_beats_main, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    b->running = !code;
    return code;
}

/* ---- for the owner; any thread ---- */

/* Beat over `fd`, which is taken over, also on failure. Returns an errno, and the number. */
static inline int kvf_beats_add(kvf_beats *b, int fd, bool called, uint64_t suspect, uint64_t dead,
                                uint64_t *number) {
    kvf_beat *each = calloc(1, sizeof *each);
    int code = each ? 0 : ENOMEM;
    pthread_mutex_lock(&b->lock);
    if (!code && atomic_load_explicit(&b->stopping, memory_order_acquire)) code = ESHUTDOWN;
    if (!code) code = kvf_beats_start(b);
    if (!code) {
        *number = ++b->last_number;
        *each = (kvf_beat){
            .next = b->first,
            .number = *number,
            .suspect = suspect,
            .dead = dead,
            .due = called ? KVF_FOREVER : 0,
            .fd = fd,
        };
        b->first = each;
    }
    pthread_mutex_unlock(&b->lock);
    if (code) {
        free(each);
        close(fd);
    }
    return code;
}

static inline void kvf_beats_remove(kvf_beats *b, uint64_t number) {
    kvf_beat *gone = NULL;
    pthread_mutex_lock(&b->lock);
    for (kvf_beat **at = &b->first; *at; at = &(*at)->next)
        if ((*at)->number == number) {
            gone = *at;
            *at = gone->next;
            break;
        }
    pthread_mutex_unlock(&b->lock);
    if (gone) close(gone->fd);
    free(gone);
}

/* What is told next: nobody hears of a long silence before he heard of silence, a look earlier. */
static inline int kvf_beat_tell(const kvf_beat *each) {
    bool sudden = each->reading == KVF_LONG_SILENT && each->told == KVF_HEARD;
    return sudden ? KVF_SILENT : each->reading;
}

/* Up to `most` readings that have changed since they were told; each is told once. */
static inline unsigned kvf_beats_news(kvf_beats *b, kvf_news *news, unsigned most) {
    unsigned found = 0;
    pthread_mutex_lock(&b->lock);
    for (kvf_beat *each = b->first; each && found < most; each = each->next)
        if (each->reading != each->told) {
            each->told = kvf_beat_tell(each);
            news[found++] = (kvf_news){each->number, each->told};
        }
    pthread_mutex_unlock(&b->lock);
    return found;
}

/* End the thread; the bell stays. Idempotent, for one caller at a time. */
static inline void kvf_beats_stop(kvf_beats *b) {
    pthread_mutex_lock(&b->lock);
    atomic_store_explicit(&b->stopping, 1, memory_order_release);
    bool running = b->running;
    b->running = false;
    pthread_mutex_unlock(&b->lock);
    kvf_wake_all(&b->stopping);
    if (running) pthread_join(b->thread, NULL);
}

/* Close every socket and the bell. In a forked child, too, where the thread and its lock are not. */
static inline void kvf_beats_drop(kvf_beats *b) {
    for (kvf_beat *each = b->first, *next; each; each = next) {
        next = each->next;
        close(each->fd);
        free(each);
    }
    b->first = NULL;
    if (b->bell >= 0) close(b->bell);
    b->bell = -1;
}

static inline void kvf_beats_free(kvf_beats *b) {
    kvf_beats_drop(b);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

#endif

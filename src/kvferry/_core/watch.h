/* watch.h: is the peer still there?
 *
 * By its pulse where that is mapped: two loads, and its owner's closing shows, too. Else by a
 * descriptor of its process and by its connection: one system call.
 */
#ifndef KVF_WATCH_H
#define KVF_WATCH_H

#include <poll.h>

#include "pulse.h"

typedef struct kvf_watch {
    const kvf_pulse_page *pulse; /* or NULL */
    uint64_t epoch;
    int pidfd, sock;   /* negative: there is none; poll passes it over */
    _Atomic bool lost; /* known to be gone: nothing else is looked at, it may be closed */
} kvf_watch;

static inline void kvf_watch_lose(kvf_watch *w, bool lost) {
    atomic_store_explicit(&w->lost, lost, memory_order_release);
}

static inline bool kvf_watch_lost(const kvf_watch *w) {
    return atomic_load_explicit(&w->lost, memory_order_acquire);
}

static inline bool kvf_watch_gone(const kvf_watch *w) {
    if (kvf_watch_lost(w)) return true;
    if (w->pulse) return !kvf_pulse_beats(w->pulse, w->epoch);
    struct pollfd p[2] = {{w->pidfd, POLLIN, 0}, {w->sock, POLLRDHUP, 0}};
    return poll(p, 2, 0) > 0;
}

#endif

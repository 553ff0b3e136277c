/* What is read from silence, by a clock made up; then the thread, with sockets that come and go. */
#include "beat.h"
#include "parallel.h"

#define SECOND 1000000000ull
#define ROUNDS 200

/* As some library has it: more than the stack that the thread asks for. */
static _Thread_local volatile char data[KVF_BEAT_STACK];

typedef struct line {
    int here, there;
    uint64_t number;
} line;

static line open_line(kvf_beats *b, bool called, uint64_t suspect, uint64_t dead) {
    int ends[2];
    line l;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CHECK(!kvf_beats_add(b, ends[0], called, suspect, dead, &l.number));
    l.here = ends[0];
    l.there = ends[1];
    return l;
}

/* No thread: this program looks, at times of its own. */
static kvf_beats *still(uint64_t every) {
    kvf_beats *b = kvf_beats_new(every);
    CHECK(b);
    b->running = true;
    return b;
}

static void let_go(kvf_beats *b) {
    b->running = false;
    kvf_beats_stop(b);
    kvf_beats_free(b);
}

static int reading(kvf_beats *b, line l) {
    for (kvf_beat *each = b->first; each; each = each->next)
        if (each->number == l.number) return each->reading;
    CHECK(!"there");
    return 0;
}

static unsigned said(int fd) {
    uint8_t buffer[64];
    ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    for (ssize_t i = 0; i < n; i++) CHECK(buffer[i] == KVF_BEAT);
    return n > 0 ? (unsigned)n : 0;
}

static void hear(line l) { CHECK(kvf_beat_say(l.there)); }

static void check_silence(void) {
    kvf_beats *b = still(SECOND);
    line l = open_line(b, false, 3 * SECOND, 12 * SECOND);
    uint64_t now = b->looked = SECOND, tick = kvf_beats_tick(b);
    unsigned beats = 0, changes = 0;
    int expected[] = {KVF_SILENT, KVF_LONG_SILENT};
    for (unsigned i = 0; i < 60; i++) {
        bool news = kvf_beats_look(b, now += tick);
        kvf_news what;
        beats += said(l.there);
        if (!news) continue;
        CHECK(kvf_beats_news(b, &what, 1) == 1 && what.number == l.number);
        CHECK(what.reading == expected[changes++]);
    }
    CHECK(changes == 2 && beats == 15);
    hear(l);
    CHECK(kvf_beats_look(b, now += tick) && reading(b, l) == KVF_HEARD);
    close(l.there);
    let_go(b);
}

/* Whoever stood still for an hour has heard nothing, and blames nobody for it. */
static void check_a_pause_of_our_own(void) {
    kvf_beats *b = still(SECOND);
    line l = open_line(b, false, 3 * SECOND, 12 * SECOND);
    uint64_t now = b->looked = SECOND;
    kvf_beats_look(b, now += kvf_beats_tick(b));
    CHECK(!kvf_beats_look(b, now += 3600 * SECOND));
    CHECK(reading(b, l) == KVF_HEARD);
    close(l.there);
    let_go(b);
}

static void check_nobody_is_told_of_a_long_silence_first(void) {
    kvf_beats *b = still(SECOND);
    line l = open_line(b, false, SECOND, 2 * SECOND);
    uint64_t now = b->looked = SECOND;
    for (unsigned i = 0; i < 40; i++) kvf_beats_look(b, now += kvf_beats_tick(b));
    kvf_news what[2];
    CHECK(kvf_beats_news(b, what, 2) == 1 && what[0].reading == KVF_SILENT);
    CHECK(kvf_beats_look(b, now += kvf_beats_tick(b)));
    CHECK(kvf_beats_news(b, what, 2) == 1 && what[0].reading == KVF_LONG_SILENT);
    CHECK(kvf_beats_news(b, what, 2) == 0);
    close(l.there);
    let_go(b);
}

static void check_who_was_called_begins_second(void) {
    kvf_beats *b = still(SECOND);
    line l = open_line(b, true, 3 * SECOND, 12 * SECOND);
    uint64_t now = b->looked = SECOND;
    kvf_beats_look(b, now += SECOND);
    CHECK(!said(l.there));
    hear(l);
    kvf_beats_look(b, now += SECOND);
    CHECK(said(l.there) == 1);
    close(l.there);
    let_go(b);
}

static void check_ends(void) {
    kvf_beats *b = still(SECOND);
    line gone = open_line(b, true, SECOND, 2 * SECOND), loud = open_line(b, true, SECOND, 2 * SECOND);
    line deaf = open_line(b, false, SECOND, 2 * SECOND);
    uint64_t now = b->looked = SECOND;
    close(gone.there);
    CHECK(send(loud.there, "KKx", 3, MSG_NOSIGNAL) == 3);
    shutdown(deaf.there, SHUT_RD);
    kvf_beats_look(b, now += SECOND);
    CHECK(reading(b, gone) == KVF_BEAT_ENDED && reading(b, loud) == KVF_BEAT_ENDED);
    CHECK(reading(b, deaf) == KVF_BEAT_ENDED);
    kvf_news what[2];
    CHECK(kvf_beats_news(b, what, 2) == 2 && kvf_beats_news(b, what, 2) == 1);
    kvf_beats_remove(b, gone.number);
    kvf_beats_remove(b, gone.number);
    close(loud.there);
    close(deaf.there);
    let_go(b);
}

/* A peer that never reads fills its socket and is beaten to all the same. */
static void check_a_peer_that_does_not_read(void) {
    kvf_beats *b = still(1);
    line l = open_line(b, false, SECOND, 2 * SECOND);
    uint64_t now = b->looked = SECOND;
    for (unsigned i = 0; i < 100000; i++) {
        if (i % 16 == 0) hear(l);
        kvf_beats_look(b, now += 2);
    }
    CHECK(reading(b, l) == KVF_HEARD);
    close(l.there);
    let_go(b);
}

/* Whoever beats a thousand times as often as we do is not heard long after it fell silent. */
static void check_many_beats_are_not_kept(void) {
    kvf_beats *b = still(SECOND);
    line l = open_line(b, false, 3 * SECOND, 12 * SECOND);
    uint64_t now = b->looked = SECOND;
    for (unsigned i = 0; i < 40; i++) {
        for (unsigned each = 0; each < 250; each++) hear(l);
        kvf_beats_look(b, now += kvf_beats_tick(b));
    }
    for (unsigned i = 0; i < 13; i++) kvf_beats_look(b, now += kvf_beats_tick(b));
    CHECK(reading(b, l) == KVF_SILENT);
    close(l.there);
    let_go(b);
}

/* Lines come and go, and news is taken, while the thread looks. */
static void body(void *arg, unsigned index) {
    kvf_beats *b = arg;
    kvf_news what[4];
    for (unsigned i = 0; i < ROUNDS; i++) {
        line l = open_line(b, index & 1, SECOND, 2 * SECOND);
        if (i & 1) hear(l);
        if (i & 2) close(l.there);
        kvf_beats_news(b, what, 4);
        kvf_beats_remove(b, l.number);
        if (!(i & 2)) close(l.there);
    }
}

static void check_comings_and_goings(void) {
    kvf_beats *b = kvf_beats_new(100000);
    CHECK(b);
    in_parallel(4, body, b, NULL);
    uint64_t number;
    kvf_beats_stop(b);
    kvf_beats_stop(b);
    CHECK(kvf_beats_add(b, dup(0), false, 1, 2, &number) == ESHUTDOWN);
    CHECK(!b->first);
    kvf_beats_free(b);
}

int main(void) {
    data[0] = 1;
    check_silence();
    check_a_pause_of_our_own();
    check_nobody_is_told_of_a_long_silence_first();
    check_who_was_called_begins_second();
    check_ends();
    check_a_peer_that_does_not_read();
    check_many_beats_are_not_kept();
    check_comings_and_goings();
    return 0;
}

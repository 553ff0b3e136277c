/* A desk step by step in one thread: what each side finds in every state the other may have left, and
 * many errands of several threads before a clerk that also owes answers. */
#include "office.h"
#include "parallel.h"

static kvf_errand errand_of(office *o, papers *p, size_t n) {
    return (kvf_errand){.desk = o->desks[0], .bell = o->bell, .commits = papers_columns(p), .n = n,
                        .answers = p->answers};
}

static bool ended(kvf_errand *e, kvf_desk_outcome outcome, size_t answered) {
    size_t n;
    return kvf_errand_end(e, &n) == outcome && n == answered;
}

/* One look of the clerk, as if its thread had run just now. */
static void look(office *o) { kvf_clerk_serve(&o->clerk, 0); }

static void check_sizes(void) {
    static const size_t sizes[] = {0, 1, 2, 127, 128, 129, 1000, 1024, 1025, PAPERS};
    office o;
    papers *p = malloc(sizeof *p);
    office_open(&o, 1);
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        papers_make(p, &o, 0, sizes[k], 1 + k * PAPERS);
        kvf_errand e = errand_of(&o, p, sizes[k]);
        while (!kvf_errand_run(&e, 0)) look(&o);
        CHECK(ended(&e, KVF_DESK_DONE, sizes[k]));
        papers_check_stored(p, &o, sizes[k]);
        office_read(&o);
    }
    office_close(&o);
    free(p);
}

/* Given up in every state: what it says is true, and the tray is of use again. */
static void check_given_up(void) {
    office o;
    papers *p = malloc(sizeof *p);
    office_open(&o, 1);
    kvf_tray *s = &o.desks[0]->trays[0];
    papers_make(p, &o, 0, 300, 1);
    kvf_errand e = errand_of(&o, p, 100);
    CHECK(!kvf_errand_run(&e, 0) && ended(&e, KVF_DESK_TIMED_OUT, 0)); /* POSTED */
    look(&o);
    CHECK(o.index.occupied == 0 && o.clerk.answered == 0);
    e = errand_of(&o, p, 100);
    CHECK(!kvf_errand_run(&e, 0) && kvf_tray_step(s, KVF_TRAY_POSTED, KVF_TRAY_TAKEN));
    CHECK(ended(&e, KVF_DESK_UNKNOWN, 0) && kvf_bell_heard(&s->state) == KVF_TRAY_ORPHAN); /* TAKEN */
    uint8_t answers[100] = {0};
    kvf_tray_answer(o.desks[0], s, answers, 100);
    CHECK(kvf_bell_heard(&s->state) == KVF_TRAY_FREE);
    e = errand_of(&o, p, 100);
    CHECK(!kvf_errand_run(&e, 0));
    look(&o);
    CHECK(ended(&e, KVF_DESK_DONE, 100)); /* ANSWERED */
    papers_check_stored(p, &o, 100);
    /* the first of two is not taken, the second is: nothing is known of either */
    papers_make(p, &o, 0, 300, 1000);
    e = errand_of(&o, p, 256);
    CHECK(!kvf_errand_run(&e, 0) && kvf_tray_step(s, KVF_TRAY_POSTED, KVF_TRAY_CLAIMED));
    look(&o);
    CHECK(kvf_tray_step(s, KVF_TRAY_CLAIMED, KVF_TRAY_POSTED));
    CHECK(!kvf_errand_run(&e, 0) && ended(&e, KVF_DESK_UNKNOWN, 0));
    /* the first is answered, the second withdrawn: the answers of the first are told */
    papers_make(p, &o, 0, 300, 2000);
    e = errand_of(&o, p, 300);
    CHECK(!kvf_errand_run(&e, 0));
    for (unsigned i = 1; i < 3; i++)
        CHECK(kvf_tray_step(&o.desks[0]->trays[i], KVF_TRAY_POSTED, KVF_TRAY_CLAIMED));
    look(&o);
    for (unsigned i = 1; i < 3; i++)
        CHECK(kvf_tray_step(&o.desks[0]->trays[i], KVF_TRAY_CLAIMED, KVF_TRAY_POSTED));
    CHECK(!kvf_errand_run(&e, 0) && ended(&e, KVF_DESK_TIMED_OUT, 128));
    papers_check_stored(p, &o, 128);
    office_close(&o);
    free(p);
}

static void check_busy(void) {
    office o;
    papers *p = malloc(sizeof *p);
    office_open(&o, 1);
    papers_make(p, &o, 0, PAPERS, 1);
    for (unsigned i = 0; i < KVF_TRAYS; i++) CHECK(kvf_desk_claim(o.desks[0]));
    CHECK(!kvf_desk_claim(o.desks[0]));
    kvf_errand e = errand_of(&o, p, 5);
    CHECK(!kvf_errand_run(&e, kvf_now() + 1000000) && ended(&e, KVF_DESK_BUSY, 0));
    office_close(&o);
    free(p);
}

/* What a hostile user does with a tray that is taken. */
static void repost(office *o) {
    kvf_desk *d = o->desks[0];
    CHECK(kvf_tray_step(&d->trays[0], KVF_TRAY_TAKEN, KVF_TRAY_POSTED));
    atomic_store(&d->posted, 1);
    look(o);
    CHECK(o->clerk.owing == 1 && kvf_tray_step(&d->trays[0], KVF_TRAY_POSTED, KVF_TRAY_TAKEN));
}

/* The ledger is full: the tray waits for the catalog, which decides some of its keys. */
static void check_owed(void) {
    office o;
    papers *p = malloc(sizeof *p);
    kvf_commit owed[KVF_TRAY_RECORDS];
    uint8_t answers[KVF_TRAY_RECORDS];
    office_open(&o, 1);
    for (unsigned round = 0; round < 3; round++) {
        papers_make(p, &o, 0, 100, 1 + 1000 * round);
        o.ledger.entries_high = o.index.occupied + 60;
        kvf_errand e = errand_of(&o, p, 100);
        CHECK(!kvf_errand_run(&e, 0));
        look(&o);
        kvf_owing owing[4];
        CHECK(kvf_clerk_owing(&o.clerk, owing, 4) == 1 && owing[0].user == 1 && owing[0].tray == 0);
        CHECK(kvf_clerk_records(&o.clerk, 1, 0, owed) == 40 && kvf_clerk_records(&o.clerk, 1, 8, owed) == 0);
        CHECK(!kvf_errand_run(&e, 0));
        repost(&o); /* nothing comes of it: the tray is not read again */
        for (unsigned i = 0; i < 40; i++) {
            CHECK(owed[i].attempt == p->attempts[60 + i] && owed[i].length == p->lengths[60 + i]);
            answers[i] = (uint8_t)(i + 20);
        }
        CHECK(kvf_clerk_settle(&o.clerk, 1, 0, answers, 39) == KVF_NOT_SO_MANY);
        if (round == 1) CHECK(ended(&e, KVF_DESK_UNKNOWN, 0));
        if (round == 2) CHECK(kvf_clerk_unseat(&o.clerk, 1));
        else CHECK(kvf_clerk_settle(&o.clerk, 1, 0, answers, 40) == KVF_PAID);
        CHECK(kvf_clerk_settle(&o.clerk, 1, 0, answers, 40) == KVF_NOT_OWED);
        CHECK(kvf_clerk_owing(&o.clerk, owing, 4) == 0 && o.clerk.owing == 0);
        if (round != 1) {
            CHECK(kvf_errand_run(&e, 0) && ended(&e, KVF_DESK_DONE, 100));
            for (unsigned i = 0; i < 40; i++)
                CHECK(p->answers[60 + i] == (round ? KVF_SAY_INDEX_FULL : i + 20));
        }
        for (unsigned i = 0; i < KVF_TRAYS; i++)
            CHECK(kvf_bell_heard(&o.desks[0]->trays[i].state) == KVF_TRAY_FREE);
    }
    office_close(&o);
    free(p);
}

static void check_seats(void) {
    office o;
    office_open(&o, DESKS);
    CHECK(!kvf_desk_at((uintptr_t)o.desks[0], sizeof(kvf_desk) - 1));
    CHECK(!kvf_desk_at((uintptr_t)o.desks[0] + 8, sizeof(kvf_desk) + 64));
    CHECK(!kvf_clerk_unseat(&o.clerk, 99) && kvf_clerk_unseat(&o.clerk, 1));
    CHECK(!kvf_clerk_seat_of(&o.clerk, 1) && kvf_clerk_seat_of(&o.clerk, DESKS));
    for (unsigned i = 0; i < 40; i++) CHECK(kvf_clerk_seat(&o.clerk, 100 + i, o.desks[0]));
    CHECK(kvf_clerk_seat_of(&o.clerk, 139)->user == 139 && o.clerk.n == DESKS + 39);
    office_close(&o);
}

/* ---- who sleeps is woken: nobody waits for the end of a slice ---- */

#define WAKES 6u

typedef struct bureau {
    office office;
    papers papers;
    _Atomic uint32_t round, over;
    uint64_t fastest[2]; /* of odd rounds, and of even ones */
} bureau;

static void commit_one(bureau *b) {
    for (uint32_t round = 1; round <= WAKES; round++) {
        while (atomic_load(&b->round) != round) usleep(100);
        kvf_errand e = errand_of(&b->office, &b->papers, 1);
        CHECK(kvf_errand_run(&e, KVF_FOREVER) && ended(&e, KVF_DESK_DONE, 1));
        atomic_store(&b->over, round);
    }
}

static void work(void *bureau_, unsigned index) {
    bureau *b = bureau_;
    if (index == 0) commit_one(b);
    while (index && atomic_load(&b->over) < WAKES) kvf_clerk_serve(&b->office.clerk, kvf_now() + KVF_SLICE_NS);
}

static void begin_round(bureau *b, uint32_t round) { atomic_store(&b->round, round); }

static void end_round(bureau *b, uint32_t round) {
    uint64_t begun = kvf_now();
    while (atomic_load(&b->over) != round) kvf_relax();
    uint64_t took = kvf_now() - begun, *fastest = &b->fastest[round % 2];
    if (!*fastest || took < *fastest) *fastest = took;
    usleep(1000); /* so that the clerk sleeps */
}

/* The clerk is kept from answering, or the user from posting, until both sleep. */
static void hinder(void *bureau_) {
    bureau *b = bureau_;
    kvf_desk *d = b->office.desks[0];
    for (uint32_t round = 1; round <= WAKES; round++) {
        if (round % 2) {
            kvf_lock_take(&b->office.clerk.lock);
            begin_round(b, round);
            while (!kvf_tray_lies(kvf_bell_heard(&d->trays[0].state))) usleep(100);
            usleep(2000);
            kvf_lock_drop(&b->office.clerk.lock);
            end_round(b, round);
            continue;
        }
        while (kvf_desk_claim(d)) {}
        begin_round(b, round);
        while (!atomic_load(&d->waiting)) usleep(100);
        usleep(2000);
        for (unsigned i = 0; i < KVF_TRAYS; i++) CHECK(kvf_tray_free(d, &d->trays[i], KVF_TRAY_CLAIMED));
        end_round(b, round);
    }
}

static void check_wakes(void) {
    bureau *b = calloc(1, sizeof *b);
    office_open(&b->office, 1);
    papers_make(&b->papers, &b->office, 0, 1, 1);
    in_parallel(2, work, b, hinder);
    CHECK(b->fastest[0] < KVF_SLICE_NS / 2 && b->fastest[1] < KVF_SLICE_NS / 2);
    office_close(&b->office);
    free(b);
}

/* ---- the lock: in turns, again by its holder, and not by others meanwhile ---- */

typedef struct counter {
    kvf_lock lock;
    uint64_t count; /* not atomic: the lock is what orders it */
} counter;

static void count_up(void *counter_, unsigned index) {
    counter *c = counter_;
    for (unsigned i = 0; i < 2000; i++) {
        if ((i + index) % 3 || !kvf_lock_try(&c->lock)) kvf_lock_take(&c->lock);
        CHECK(kvf_lock_mine(&c->lock) && kvf_lock_try(&c->lock));
        c->count++;
        kvf_lock_drop(&c->lock);
        c->count++;
        kvf_lock_drop(&c->lock);
        CHECK(!kvf_lock_mine(&c->lock));
    }
}

static void check_lock(void) {
    counter c = {.count = 0};
    kvf_lock_init(&c.lock);
    in_parallel(4, count_up, &c, NULL);
    CHECK(c.count == 4 * 2000 * 2);
}

/* ---- news: none is slept through, however it is committed ---- */

typedef struct press {
    office office;
    papers papers[2];
    _Atomic uint32_t over;
} press;

static void read_all(press *p) {
    kvf_clerk *c = &p->office.clerk;
    for (size_t read = 0; read < 2 * PAPERS;) {
        CHECK(kvf_clerk_await(c, kvf_now() + 20000000000ull));
        kvf_lock_take(&c->lock);
        CHECK(!c->awaited);
        read += p->office.ledger.arrivals_n;
        office_read(&p->office);
        kvf_clerk_drop(c);
    }
    atomic_store(&p->over, 1);
    kvf_clerk_wake(c);
}

static void commit_here(press *p) {
    kvf_commits columns = papers_columns(&p->papers[1]);
    for (size_t i = 0; i < PAPERS; i++) {
        kvf_commit one = kvf_commit_at(&columns, i);
        kvf_lock_take(&p->office.clerk.lock);
        CHECK(kvf_ledger_commit(&p->office.ledger, 2, &one) == KVF_SAY_STORED);
        kvf_clerk_drop(&p->office.clerk);
        if (i % 8 == 0) usleep(50); /* sometimes the reader sleeps, sometimes it is about to */
    }
}

static void commit_by_desk(press *p) {
    for (size_t i = 0; i < PAPERS; i++) {
        papers *all = &p->papers[0];
        kvf_errand e = errand_of(&p->office, all, 1);
        e.commits = (kvf_commits){.attempts = all->attempts + i, .digests = all->digests + i,
                                  .lengths = all->lengths + i};
        e.answers = all->answers + i;
        CHECK(kvf_errand_run(&e, kvf_now() + 20000000000ull) && ended(&e, KVF_DESK_DONE, 1));
    }
}

static void print(void *press_, unsigned index) {
    static void (*const does[])(press *) = {read_all, commit_here, commit_by_desk};
    does[index](press_);
}

static void serve_press(void *press_) {
    press *p = press_;
    while (!atomic_load(&p->over)) kvf_clerk_serve(&p->office.clerk, kvf_now() + 1000000000ull);
}

static void check_news(void) {
    press *p = calloc(1, sizeof *p);
    office_open(&p->office, 1);
    papers_make(&p->papers[0], &p->office, 0, PAPERS, 1);
    papers_make(&p->papers[1], &p->office, 1, PAPERS, 1 + PAPERS);
    in_parallel(3, print, p, serve_press);
    kvf_lock_take(&p->office.clerk.lock);
    p->office.clerk.news = true; /* told while nobody waited */
    kvf_clerk_drop(&p->office.clerk);
    CHECK(kvf_clerk_await(&p->office.clerk, 0) && !kvf_clerk_await(&p->office.clerk, 0));
    office_close(&p->office);
    free(p);
}

int main(void) {
    check_sizes();
    check_given_up();
    check_busy();
    check_owed();
    check_seats();
    check_wakes();
    check_lock();
    check_news();
    return 0;
}

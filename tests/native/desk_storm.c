/* Several users at once before one clerk, some of them other processes: threads that commit, threads
 * that give up, a catalog that pays what is owed, users that are killed, and one that scribbles over
 * its desk and the bell. What was answered STORED is in the index, whole. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "office.h"
#include "parallel.h"

#define COMMITTERS 3u /* threads of user 1; one more gives up all the time */
#define ROUNDS 20u
#define KEYS_EACH 300u
#define GIVEN_UP 120u
#define VICTIMS 8u
#define REPLACE_NS 2000000ull
#define MAY_TAKE_NS 10000000000ull

typedef struct storm {
    office office;
    kvf_bell *turn; /* which of the victims works; shared */
    pid_t victims[VICTIMS + 1];
    _Atomic uint64_t key;
    _Atomic uint32_t working, over, given_up[4];
} storm;

static uint64_t keys_from(storm *s, size_t n) { return atomic_fetch_add(&s->key, n); }

static void get_papers(storm *s, papers *p, size_t n) {
    kvf_lock_take(&s->office.clerk.lock);
    papers_make(p, &s->office, 0, n, keys_from(s, n));
    kvf_lock_drop(&s->office.clerk.lock);
}

static void check_papers(storm *s, papers *p, size_t n) {
    kvf_lock_take(&s->office.clerk.lock);
    papers_check_stored(p, &s->office, n);
    kvf_lock_drop(&s->office.clerk.lock);
}

static kvf_desk_outcome run_errand(storm *s, papers *p, size_t n, uint64_t ns, size_t *answered) {
    kvf_errand e = {.desk = s->office.desks[0], .bell = s->office.bell, .commits = papers_columns(p),
                    .n = n, .answers = p->answers};
    kvf_errand_run(&e, kvf_now() + ns);
    return kvf_errand_end(&e, answered);
}

static void commit_all(storm *s, unsigned index) {
    papers *p = malloc(sizeof *p);
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t n = 1 + (round * 37 + index * 101) % KEYS_EACH, answered;
        get_papers(s, p, n);
        CHECK(run_errand(s, p, n, MAY_TAKE_NS, &answered) == KVF_DESK_DONE && answered == n);
        check_papers(s, p, n);
    }
    free(p);
}

/* What was withdrawn is not there. */
static void check_rest(storm *s, papers *p, size_t n, size_t answered, kvf_desk_outcome outcome) {
    kvf_lock_take(&s->office.clerk.lock);
    for (size_t i = answered; i < n && outcome != KVF_DESK_UNKNOWN; i++)
        CHECK(kvf_index_find(&s->office.index, p->digests[i]) == KVF_NOWHERE);
    kvf_lock_drop(&s->office.clerk.lock);
}

static void give_up(storm *s) {
    papers *p = malloc(sizeof *p);
    uint64_t state = 5;
    for (unsigned round = 0; round < GIVEN_UP; round++) {
        size_t n = 1 + random_below(&state, 50), answered;
        uint64_t patience = round % 3 == 2 ? MAY_TAKE_NS : random_below(&state, 40000) * (round % 3);
        get_papers(s, p, n);
        kvf_desk_outcome outcome = run_errand(s, p, n, patience, &answered);
        atomic_fetch_add(&s->given_up[outcome], 1);
        check_papers(s, p, answered);
        check_rest(s, p, n, answered, outcome);
    }
    free(p);
}

static void body(void *storm_, unsigned index) {
    storm *s = storm_;
    if (index < COMMITTERS) commit_all(s, index);
    else give_up(s);
    if (atomic_fetch_sub(&s->working, 1) == 1) atomic_store(&s->over, 1);
}

/* ---- other processes, which know their desk and the bell alone ---- */

/* One after the other, at the desk of a user that was killed. */
static void commit_forever(storm *s, uint32_t number) {
    office *o = &s->office;
    papers *p = calloc(1, sizeof *p);
    uint64_t state = number;
    while (kvf_bell_heard(s->turn) != number) kvf_bell_sleep(s->turn, number - 1, KVF_FOREVER);
    for (;;) {
        size_t n = 1 + random_below(&state, PAPERS), answered;
        kvf_errand e = {.desk = o->desks[1], .bell = o->bell, .commits = papers_columns(p), .n = n,
                        .answers = p->answers};
        kvf_errand_run(&e, kvf_now() + random_below(&state, 200000));
        kvf_errand_end(&e, &answered);
        for (size_t i = 0; i < answered; i++) CHECK(p->answers[i] == KVF_SAY_UNKNOWN);
    }
}

/* Any bytes, and often such that the clerk takes the trays. */
static void scribble(storm *s, uint32_t seed) {
    kvf_desk *d = s->office.desks[2];
    _Atomic uint64_t *words = (_Atomic uint64_t *)d;
    uint64_t state = seed;
    for (;;) {
        for (int i = 0; i < 200; i++)
            atomic_store(&words[random_below(&state, sizeof *d / 8)], random_next(&state));
        kvf_tray *t = &d->trays[random_below(&state, KVF_TRAYS)];
        if (random_below(&state, 2)) atomic_store(&t->count, (uint32_t)random_below(&state, 200));
        atomic_store(&t->state, KVF_TRAY_POSTED);
        atomic_store(&d->posted, random_next(&state));
        atomic_store(s->office.bell, (uint32_t)random_next(&state));
        if (random_below(&state, 10) == 0) kvf_bell_wake(s->office.bell);
    }
}

static pid_t fork_user(storm *s, void (*user)(storm *, uint32_t), uint32_t number) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    user(s, number);
    _exit(0);
}

static void end_user(pid_t pid) {
    int status;
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* While the clerk serves: the one at the second desk is killed, and another begins there. */
static void replace(storm *s) {
    office *o = &s->office;
    uint32_t number = kvf_bell_heard(s->turn);
    if (number == VICTIMS) return;
    if (number) end_user(s->victims[number]);
    kvf_lock_take(&o->clerk.lock);
    CHECK(kvf_clerk_unseat(&o->clerk, 2 + 100 * number));
    memset((void *)o->desks[1], 0, sizeof(kvf_desk));
    CHECK(kvf_clerk_seat(&o->clerk, 2 + 100 * (number + 1), o->desks[1]));
    kvf_lock_drop(&o->clerk.lock);
    kvf_bell_ring(s->turn);
}

/* ---- the node ---- */

/* The catalog: takes in what arrived, so that what was refused may be committed again. */
static void pay(storm *s, kvf_owing owing) {
    office *o = &s->office;
    kvf_commit owed[KVF_TRAY_RECORDS];
    uint8_t answers[KVF_TRAY_RECORDS];
    kvf_lock_take(&o->clerk.lock);
    size_t n = kvf_clerk_records(&o->clerk, owing.user, owing.tray, owed);
    office_read(o);
    for (size_t i = 0; i < n; i++) answers[i] = kvf_ledger_commit(&o->ledger, owing.user, &owed[i]);
    kvf_clerk_settle(&o->clerk, owing.user, owing.tray, answers, n);
    kvf_lock_drop(&o->clerk.lock);
}

static void serve(void *storm_) {
    storm *s = storm_;
    office *o = &s->office;
    uint64_t next = 0;
    while (!atomic_load(&s->over)) {
        if (kvf_now() >= next) replace(s), next = kvf_now() + REPLACE_NS;
        kvf_clerk_serve(&o->clerk, next);
        kvf_owing owing[8];
        kvf_lock_take(&o->clerk.lock);
        size_t n = kvf_clerk_owing(&o->clerk, owing, 8);
        kvf_lock_drop(&o->clerk.lock);
        for (size_t i = 0; i < n; i++) pay(s, owing[i]);
    }
}

int main(void) {
    storm *s = calloc(1, sizeof *s);
    atomic_init(&s->key, 1);
    atomic_init(&s->working, COMMITTERS + 1);
    office_open(&s->office, DESKS);
    s->turn = s->office.bell + 1;
    for (uint32_t i = 1; i <= VICTIMS; i++) s->victims[i] = fork_user(s, commit_forever, i);
    pid_t scribbler = fork_user(s, scribble, 9);
    in_parallel(COMMITTERS + 1, body, s, serve);
    while (kvf_bell_heard(s->turn) < VICTIMS) replace(s);
    end_user(s->victims[VICTIMS]);
    end_user(scribbler);
    CHECK(s->given_up[KVF_DESK_TIMED_OUT] && s->given_up[KVF_DESK_DONE]);
    office_close(&s->office);
    free(s);
    return 0;
}

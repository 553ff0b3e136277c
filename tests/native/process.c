/* The mover between two processes: contents, pieces, abort, memory that is not there, death. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "parallel.h"
#include "process.h"

#define AREA (3 * KVF_CHUNK)
#define PAGE 4096u

static kvf_done line;

/* ---- the other process ---- */

typedef struct other {
    pid_t pid;
    int ask, answer; /* one byte each way */
} other;

static unsigned char *area; /* of the other process from the fork on; ours is a copy */

/* Says once whether its area is what `wanted` says, then waits to be killed. */
static void be_other(int ask, int answer, void (*before)(void), const unsigned char *wanted) {
    char word = 0;
    if (before) before();
    CHECK(write(answer, &word, 1) == 1);
    if (read(ask, &word, 1) == 1) {
        word = !wanted || memcmp(area, wanted, AREA) == 0;
        CHECK(write(answer, &word, 1) == 1);
    }
    while (read(ask, &word, 1) > 0) continue;
    _exit(0);
}

static other start(void (*before)(void), const unsigned char *wanted) {
    int ask[2], answer[2];
    char word;
    CHECK(pipe(ask) == 0 && pipe(answer) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        close(ask[1]);
        be_other(ask[0], answer[1], before, wanted);
    }
    close(ask[0]);
    close(answer[1]);
    CHECK(read(answer[0], &word, 1) == 1);
    return (other){pid, ask[1], answer[0]};
}

static bool agrees(other o) {
    char word = 1;
    CHECK(write(o.ask, &word, 1) == 1 && read(o.answer, &word, 1) == 1);
    return word;
}

static void reap(other o) {
    close(o.ask);
    close(o.answer);
    kill(o.pid, SIGKILL);
    CHECK(waitpid(o.pid, NULL, 0) == o.pid);
}

/* ---- one move ---- */

static kvf_outcome move(pid_t pid, const kvf_watch *watch, kvf_run run, kvf_op op) {
    kvf_process_mover mover;
    kvf_process_mover_init(&mover, pid, watch);
    kvf_brake brake = {&line, line.sequence, KVF_FOREVER, NULL};
    return mover.mover.run(&mover.mover, run, op, &brake);
}

static const kvf_watch nobody_looks = {.pidfd = -1, .sock = -1};

static kvf_run whole(kvf_descriptor *d, const void *here) {
    *d = (kvf_descriptor){(uintptr_t)here, (uintptr_t)area, AREA};
    return (kvf_run){d, 0, AREA, 0};
}

/* ---- contents ---- */

/* Pieces of `length`, permuted, out and back. */
static void check_pieces(size_t length) {
    size_t n = AREA / length;
    kvf_descriptor *d = calloc(n, sizeof *d);
    unsigned char *here = malloc(AREA), *wanted = malloc(AREA), *kept = malloc(AREA);
    uint64_t random = length;
    CHECK(d && here && wanted && kept);
    random_bytes(&random, here, AREA);
    memcpy(kept, here, AREA);
    memset(area, 0, AREA);
    memset(wanted, 0, AREA);
    for (size_t i = 0; i < n; i++) {
        size_t to = (i * 7919 + 13) % n * length; /* prime, and n is no multiple of it */
        d[i] = (kvf_descriptor){(uintptr_t)(here + i * length), (uintptr_t)(area + to), length};
        memcpy(wanted + to, here + i * length, length);
    }
    other o = start(NULL, wanted);
    kvf_run run = {d, 0, n * length, 0};
    CHECK(move(o.pid, &nobody_looks, run, KVF_WRITE) == KVF_OK);
    CHECK(agrees(o));
    memset(here, 0, AREA);
    CHECK(move(o.pid, &nobody_looks, run, KVF_READ) == KVF_OK);
    CHECK(memcmp(here, kept, n * length) == 0);
    reap(o);
    free(d), free(here), free(wanted), free(kept);
}

/* ---- memory that is not there ---- */

static void lose_the_middle(void) {
    memset(area, 6, AREA);
    CHECK(munmap(area + KVF_CHUNK + PAGE, PAGE) == 0);
}

static void check_fault(void) {
    static unsigned char here[AREA];
    kvf_descriptor d;
    other o = start(lose_the_middle, NULL);
    CHECK(move(o.pid, &nobody_looks, whole(&d, here), KVF_READ) == KVF_FAULT);
    for (size_t i = 0; i < KVF_CHUNK; i++) CHECK(here[i] == 6);
    for (size_t i = KVF_CHUNK + PAGE; i < AREA; i++) CHECK(here[i] == 0);
    CHECK(move(o.pid, &nobody_looks, whole(&d, here), KVF_WRITE) == KVF_FAULT);
    CHECK(move(o.pid, &nobody_looks, whole(&d, NULL), KVF_READ) == KVF_FAULT);
    uint64_t word;
    CHECK(kvf_process_read(o.pid, (uintptr_t)area, &word, 8) == 0 && word == 0x0606060606060606u);
    CHECK(kvf_process_read(o.pid, (uintptr_t)area + KVF_CHUNK + PAGE - 4, &word, 8) == EFAULT);
    reap(o);
}

/* ---- abort, death ---- */

static void check_abort(void) {
    static unsigned char here[AREA];
    kvf_descriptor d;
    other o = start(NULL, NULL);
    kvf_done_begin(&line);
    kvf_done_abort(&line);
    CHECK(move(o.pid, &nobody_looks, whole(&d, here), KVF_READ) == KVF_ABORTED);
    kvf_done_begin(&line);
    CHECK(move(o.pid, &nobody_looks, whole(&d, here), KVF_READ) == KVF_OK);
    reap(o);
}

static void check_death(void) {
    static unsigned char here[AREA];
    kvf_descriptor d;
    other o = start(NULL, NULL);
    int pidfd = (int)syscall(SYS_pidfd_open, o.pid, 0);
    kvf_watch watch = {.pidfd = pidfd, .sock = -1};
    CHECK(move(o.pid, &watch, whole(&d, here), KVF_READ) == KVF_OK);
    CHECK(kill(o.pid, SIGKILL) == 0);
    siginfo_t how;
    CHECK(waitid(P_PID, (id_t)o.pid, &how, WEXITED | WNOWAIT) == 0); /* its number is still its own */
    CHECK(move(o.pid, &nobody_looks, whole(&d, here), KVF_READ) == KVF_LOST);
    if (pidfd >= 0) {
        /* As if its number had become ours: the watch knows better. */
        memset(area, 1, AREA);
        CHECK(move(getpid(), &watch, whole(&d, here), KVF_WRITE) == KVF_LOST && area[0] == 1);
        close(pidfd);
    }
    reap(o);
    CHECK(move(o.pid, &nobody_looks, whole(&d, here), KVF_READ) == KVF_LOST);
    kvf_watch lost = nobody_looks;
    kvf_watch_lose(&lost, true);
    CHECK(move(getpid(), &lost, whole(&d, here), KVF_WRITE) == KVF_LOST && area[0] == 1);
}

/* ---- several threads through one mover ---- */

#define CREW 4u
static unsigned char share[CREW][KVF_CHUNK / 2];

static void fetch(void *arg, unsigned index) {
    kvf_process_mover *mover = arg;
    kvf_brake brake = {&line, line.sequence, KVF_FOREVER, NULL};
    for (int i = 0; i < 10; i++) {
        uintptr_t there = (uintptr_t)area + index * sizeof *share;
        kvf_descriptor d = {(uintptr_t)share[index], there, sizeof *share};
        memset(share[index], 0, sizeof *share);
        CHECK(mover->mover.run(&mover->mover, (kvf_run){&d, 0, sizeof *share, 0}, KVF_READ,
                               &brake) == KVF_OK);
        CHECK(share[index][0] == 9 && memcmp(share[index], share[index] + 1, sizeof *share - 1) == 0);
    }
}

static void check_threads(void) {
    kvf_process_mover mover;
    memset(area, 9, AREA);
    other o = start(NULL, NULL);
    kvf_process_mover_init(&mover, o.pid, &nobody_looks);
    in_parallel(CREW, fetch, &mover, NULL);
    reap(o);
}

int main(void) {
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    kvf_done_begin(&line);
    check_pieces(1000);
    check_pieces(PAGE);
    check_pieces(300000);
    check_pieces(KVF_CHUNK);
    check_fault();
    check_abort();
    check_death();
    check_threads();
    munmap(area, AREA);
    return 0;
}

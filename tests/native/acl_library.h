/* acl_library.h: functions of ACL over one stream, which does what its script says.
 *
 *   address        memory                                    who may look there
 *   near + x       own memory, as the processor sees it      anybody
 *   far  + x       all memory, as the device sees it         copies of the device alone: PROT_NONE
 *   seen + x       the same, for the checks of a program
 *
 *   far   | own: third C | third B | third A | a peer's memory (AREA) | 1 (PAGE) |
 *   near  | own: third A | third B | third C |
 *
 * Copies are carried out in their order, by a thread or when somebody queries.
 */
#ifndef KVF_TEST_ACL_LIBRARY_H
#define KVF_TEST_ACL_LIBRARY_H

#include <string.h>
#include <sys/mman.h>

#include "acl.h"
#include "check.h"

#define PAGE 4096u
#define AREA (24u << 10)
#define THIRD (AREA / 3)
#define ALL (2 * AREA + PAGE)
#define TASKS 4096u
#define ROUNDS_MOST 16u

enum { NO_CONTEXT = 107002, OTHER_CONTEXT = 107003, NO_SUCH_CONTEXT = 107000, REFUSED = 207001,
       BROKEN = 507053 };

typedef struct task {
    void *to;
    const void *from;
    size_t n;
} task;

/* Counts begin with 1; 0: never. */
typedef struct script {
    bool by_query;          /* carry out when queried, not by the thread */
    bool stands_still;      /* carry out nothing */
    bool silent;            /* a stream that failed says that all is over, and no code */
    uint64_t refuse_copy;   /* this submission, flags not counted */
    uint64_t refuse_flag;   /* this flag's */
    uint64_t break_task;    /* the stream fails at this task, and stops */
    uint64_t refuse_aborts; /* so many; then they work */
    bool refuse_context;
    uint64_t at_copy;       /* when this copy is submitted, call `then` */
    uint64_t at_query;      /* at this query */
    void (*then)(void);
} script;

typedef struct library {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char *near, *far, *seen;
    _Atomic uint64_t flag;
    script script;
    task queue[TASKS];
    uint64_t first, queued;
    bool broken, stop;
    /* what was seen since `follow` */
    uint64_t copies, flags, tasks, queries, aborts, kinds[4];
    uint64_t since_flag, rounds[ROUNDS_MOST];
} library;

static library lib = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static int of_stream, of_caller, a_stream; /* their addresses are contexts, and the stream */
static _Thread_local void *current;

static inline void open_library(void) {
    int fd = memfd_create("acl", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, ALL) == 0);
    lib.near = mmap(NULL, AREA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(lib.near != MAP_FAILED);
    for (unsigned i = 0; i < 3; i++)
        CHECK(mmap(lib.near + i * THIRD, THIRD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                   (2 - i) * THIRD) == lib.near + i * THIRD);
    lib.far = mmap(NULL, ALL, PROT_NONE, MAP_SHARED, fd, 0);
    lib.seen = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(lib.far != MAP_FAILED && lib.seen != MAP_FAILED);
    close(fd);
    lib.seen[2 * AREA] = 1;
}

static inline void close_library(void) {
    CHECK(munmap(lib.near, AREA) == 0 && munmap(lib.far, ALL) == 0 && munmap(lib.seen, ALL) == 0);
}

static inline void *one_of_device(void) { return lib.far + 2 * AREA; }

/* A new stream, a new script, and nothing seen. */
static inline void follow(script s) {
    pthread_mutex_lock(&lib.lock);
    CHECK(lib.queued == 0);
    lib.script = s;
    lib.broken = false;
    lib.copies = lib.flags = lib.tasks = lib.queries = lib.aborts = lib.since_flag = 0;
    memset(lib.kinds, 0, sizeof lib.kinds);
    pthread_mutex_unlock(&lib.lock);
}

static inline bool is_far(const void *address, size_t n) {
    size_t offset = (size_t)((const unsigned char *)address - lib.far);
    return offset < ALL && n <= ALL - offset;
}

static inline void *reached(const void *address) {
    return is_far(address, 0) ? lib.seen + ((const unsigned char *)address - lib.far) : (void *)address;
}

static inline void check_kind(const void *to, const void *from, size_t n, int kind) {
    CHECK(is_far(to, n) == (kind != KVF_ACL_DEVICE_TO_HOST));
    CHECK(is_far(from, n) == (kind != KVF_ACL_HOST_TO_DEVICE));
}

/* ---- the device, with the lock held ---- */

static inline void carry_out(task t) {
    if (t.to != (void *)&lib.flag) memmove(reached(t.to), reached(t.from), t.n);
    else atomic_store_explicit(&lib.flag, *(uint64_t *)reached(t.from), memory_order_release);
}

static inline bool one_task(void) {
    if (!lib.queued || lib.script.stands_still) return false;
    task t = lib.queue[lib.first++ % TASKS];
    lib.queued--;
    lib.broken |= ++lib.tasks == lib.script.break_task;
    if (!lib.broken) carry_out(t);
    return true;
}

static inline void *work_of_device(void *unused) {
    pthread_mutex_lock(&lib.lock);
    while (!lib.stop)
        if (lib.script.by_query || !one_task()) pthread_cond_wait(&lib.changed, &lib.lock);
    pthread_mutex_unlock(&lib.lock);
    return unused;
}

static inline void stop_device(pthread_t worker) {
    pthread_mutex_lock(&lib.lock);
    lib.stop = true;
    pthread_cond_signal(&lib.changed);
    pthread_mutex_unlock(&lib.lock);
    pthread_join(worker, NULL);
}

/* ---- its functions ---- */

static inline int in_context(void) {
    if (!current) return NO_CONTEXT;
    return current == &of_stream ? 0 : OTHER_CONTEXT;
}

static inline int get_context(void **context) {
    *context = current;
    return current ? 0 : NO_CONTEXT;
}

static inline int set_context(void *context) {
    if (!context || (lib.script.refuse_context && context == &of_stream)) return NO_SUCH_CONTEXT;
    current = context;
    return 0;
}

/* The flag is the end of a round: what comes next finds the stream empty. */
static inline int take_note(bool flag, int kind) {
    if (flag) {
        if (++lib.flags == lib.script.refuse_flag) return REFUSED;
        if (lib.flags <= ROUNDS_MOST) lib.rounds[lib.flags - 1] = lib.since_flag;
        lib.since_flag = 0;
        return 0;
    }
    if (lib.since_flag++ == 0) CHECK(lib.queued == 0 && !atomic_load(&lib.flag));
    if (++lib.copies == lib.script.at_copy) lib.script.then();
    if (lib.copies == lib.script.refuse_copy) return REFUSED;
    lib.kinds[kind]++;
    return 0;
}

static inline int memcpy_async(void *to, size_t room, const void *from, size_t n, int kind, void *stream) {
    CHECK(stream == &a_stream && room == n && n);
    if (in_context()) return in_context();
    check_kind(to, from, n, kind);
    pthread_mutex_lock(&lib.lock);
    int code = take_note(to == (void *)&lib.flag, kind);
    CHECK(lib.queued < TASKS);
    if (!code) lib.queue[(lib.first + lib.queued++) % TASKS] = (task){to, from, n};
    pthread_cond_signal(&lib.changed);
    pthread_mutex_unlock(&lib.lock);
    return code;
}

static inline int query(void *stream, int *status) {
    CHECK(stream == &a_stream);
    if (in_context()) return in_context();
    pthread_mutex_lock(&lib.lock);
    if (++lib.queries == lib.script.at_query) lib.script.then();
    while (lib.script.by_query && one_task()) continue;
    int code = lib.broken && !lib.script.silent ? BROKEN : 0;
    *status = lib.queued ? KVF_ACL_NOT_READY : KVF_ACL_COMPLETE;
    pthread_mutex_unlock(&lib.lock);
    return code;
}

static inline int abort_stream(void *stream) {
    CHECK(stream == &a_stream);
    if (in_context()) return in_context();
    pthread_mutex_lock(&lib.lock);
    bool refused = ++lib.aborts <= lib.script.refuse_aborts;
    if (!refused) lib.queued = 0;
    pthread_mutex_unlock(&lib.lock);
    return refused ? BROKEN : 0;
}

static inline int copy_now(void *to, size_t room, const void *from, size_t n, int kind) {
    CHECK(room == n);
    if (in_context()) return in_context();
    check_kind(to, from, n, kind);
    if (lib.script.refuse_copy) return REFUSED;
    memcpy(reached(to), reached(from), n);
    return 0;
}

static kvf_acl calls = {copy_now, memcpy_async, query, abort_stream, get_context, set_context, false};

#endif

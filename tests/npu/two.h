/* two.h: this program as two processes, exporter and importer, that pass bytes and take turns.
 *
 * They part before anything else happens: a process with threads or devices is not to be forked.
 */
#ifndef NPU_TWO_H
#define NPU_TWO_H

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "npu_check.h"

static int to_other;

static inline void tell(const void *bytes, size_t count) {
    CHECK(write(to_other, bytes, count) == (ssize_t)count);
}

static inline void hear(void *bytes, size_t count) {
    CHECK(recv(to_other, bytes, count, MSG_WAITALL) == (ssize_t)count);
}

static inline void your_turn(void) { tell("t", 1); }
static inline void my_turn(void) {
    char turn;
    hear(&turn, 1);
}

static inline int run_two(void (*exporter)(void), void (*importer)(void)) {
    int ends[2], status;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = fork();
    CHECK(child >= 0);
    to_other = ends[child == 0];
    close(ends[child != 0]);
    if (child) exporter();
    else importer();
    close(to_other);
    if (!child) exit(0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    return 0;
}

#endif

/* wire.h: what an importer asks the exporter, and what it is told.
 *
 *   importer                                  exporter, on its abstract socket "npu-PID"
 *   npu_request                          -->  who is it? is it on the list?
 *                                        <--  npu_answer, and the memory file when the code is 0
 *
 * Both sides ask the kernel who the other is; another user is refused by both.
 */
#ifndef NPU_WIRE_H
#define NPU_WIRE_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "share.h"

typedef struct npu_request {
    npu_ticket ticket;
    uint32_t server; /* the importer's */
    uint32_t device; /* to import to */
} npu_request;

typedef struct npu_answer {
    aclError code;
    int32_t device; /* that the memory lies in */
    uint64_t size;
    aclrtPhysicalMemProp prop;
} npu_answer;

/* The abstract address of a process's socket; its length. */
static inline socklen_t npu_socket_of(uint32_t pid, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "npu-%u", pid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static inline bool npu_peer_of(int fd, struct ucred *peer) {
    socklen_t length = sizeof *peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length);
}

/* Room for one descriptor beside a message. */
typedef union npu_cargo {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
} npu_cargo;

/* Ask the exporter that a ticket names. `*fd` is the caller's when 0 is returned. Blocks, seconds at
 * most; not under the lock. */
aclError npu_ask(const npu_request *request, npu_answer *answer, int *fd);

#endif

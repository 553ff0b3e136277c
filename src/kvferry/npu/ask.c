/* ask.c: the importer's side of wire.h. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "block.h"
#include "call.h"
#include "device.h"
#include "page.h"
#include "wire.h"

#define SECONDS 5

static int call_on(uint32_t pid) {
    struct sockaddr_un address;
    socklen_t length = npu_socket_of(pid, &address);
    struct ucred peer;
    struct timeval patience = {SECONDS, 0};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return fd;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!connect(fd, (struct sockaddr *)&address, length) && npu_peer_of(fd, &peer) &&
        peer.uid == geteuid())
        return fd;
    close(fd);
    return -1;
}

static int take_descriptor(struct msghdr *message) {
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    int fd = -1;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

static bool receive(int socket, npu_answer *answer, int *fd) {
    npu_cargo cargo = {0};
    struct iovec body = {answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = cargo.bytes,
                             .msg_controllen = sizeof cargo.bytes};
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    *fd = got < 0 ? -1 : take_descriptor(&message);
    return got == sizeof *answer;
}

/* Memory that cannot be cut short under us, and is as large as was said. */
static bool is_sound(const npu_answer *answer, int fd) {
    struct stat file;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &file) && answer->size &&
           answer->size % NPU_NORMAL == 0 && (uint64_t)file.st_size == answer->size &&
           npu_is_attribute(answer->prop.memAttr) && NPU_HOST <= answer->device &&
           answer->device < NPU_DEVICES_MAX;
}

static aclError exchange(int socket, const npu_request *request, npu_answer *answer, int *fd) {
    if (send(socket, request, sizeof *request, MSG_NOSIGNAL) != sizeof *request ||
        !receive(socket, answer, fd))
        return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    if (answer->code) return answer->code;
    return is_sound(answer, *fd) ? 0 : ACL_ERROR_RT_DRV_INTERNAL_ERROR;
}

aclError npu_ask(const npu_request *request, npu_answer *answer, int *fd) {
    *fd = -1;
    int socket = call_on(request->ticket.pid);
    if (socket < 0)
        return npu_refuse(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "the exporting process does not answer");
    aclError failed = exchange(socket, request, answer, fd);
    close(socket);
    if (!failed) return 0;
    if (*fd >= 0) close(*fd);
    return npu_refuse(failed, "the exporting process refused the import");
}

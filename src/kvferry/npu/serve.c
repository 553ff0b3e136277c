#include "serve.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "call.h"

#define BACKLOG 64

/* How long one importer may keep the others waiting. */
#define SECONDS 1

static pthread_t thread;
static int listener = -1;

static void reply(int socket, npu_answer *answer, int fd) {
    npu_cargo cargo = {0};
    struct iovec body = {answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = cargo.bytes;
        message.msg_controllen = sizeof cargo.bytes;
        cargo.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&cargo.head), &fd, sizeof fd);
    }
    sendmsg(socket, &message, MSG_NOSIGNAL);
}

static void answer_one(int socket) {
    struct timeval patience = {SECONDS, 0};
    struct ucred peer;
    npu_request request;
    npu_answer answer;
    int fd = -1;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!npu_peer_of(socket, &peer) || peer.uid != geteuid()) return;
    if (recv(socket, &request, sizeof request, 0) != sizeof request) return;
    {
        NPU_HOLD_LOCK;
        answer = npu_grant(&request, peer.pid, &fd);
    }
    reply(socket, &answer, fd);
    if (fd >= 0) close(fd);
}

static void *serve(void *argument) {
    int listening = (int)(intptr_t)argument, socket;
    while ((socket = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == ECONNABORTED ||
           errno == EINTR) {
        if (socket < 0) continue;
        answer_one(socket);
        close(socket);
    }
    return NULL;
}

static int listen_as_myself(void) {
    struct sockaddr_un address;
    socklen_t length = npu_socket_of((uint32_t)getpid(), &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return fd;
    if (!bind(fd, (struct sockaddr *)&address, length) && !listen(fd, BACKLOG)) return fd;
    close(fd);
    return -1;
}

/* Signals are for the threads of the program. */
static bool start_thread(int fd) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

aclError npu_start_serving(void) {
    if (listener >= 0) return 0;
    int fd = listen_as_myself();
    if (fd >= 0 && !start_thread(fd)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) return npu_refuse(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "cannot serve importers");
    listener = fd;
    return 0;
}

static int take_listener(pthread_t *serving) {
    NPU_HOLD_LOCK;
    int fd = listener;
    *serving = thread;
    listener = -1;
    return fd;
}

void npu_stop_serving(void) {
    pthread_t serving;
    int fd = take_listener(&serving);
    if (fd < 0) return;
    shutdown(fd, SHUT_RDWR); /* wakes accept */
    pthread_join(serving, NULL);
    close(fd);
}

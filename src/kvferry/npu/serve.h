/* serve.h: the thread that answers those who import from this process. */
#ifndef NPU_SERVE_H
#define NPU_SERVE_H

#include "wire.h"

/* Serve, unless it does already. Under the lock. */
aclError npu_start_serving(void);

/* Not under the lock: the thread may need it to end. */
void npu_stop_serving(void);

/* What a process is answered; `*fd` is a fresh descriptor when the code is 0. Under the lock. */
npu_answer npu_grant(const npu_request *request, pid_t pid, int *fd);

#endif

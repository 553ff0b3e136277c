/* device.h: devices, and the contexts through which threads use them. */
#ifndef NPU_DEVICE_H
#define NPU_DEVICE_H

#include <stdbool.h>

#include "books.h"
#include "settings.h"

/* The place of memory that lies in no device. */
#define NPU_HOST (-1)

/* A context lives until it is destroyed and its last stream is too. */
typedef struct npu_context {
    npu_entry entry;
    int32_t device;
    unsigned refs;
    bool stops;       /* a stream asked for STOP_ON_FAILURE, which goes for all of it */
    aclError failure; /* the failure it stopped at; no task is accepted any more */
} npu_context;

bool npu_initialised(void);

/* The context of this thread, or NULL. */
npu_context *npu_current(void);

void npu_make_current(npu_context *context);

/* A context with one reference, which npu_destroy_context drops; NULL: no memory. */
npu_context *npu_make_context(int32_t device);
void npu_destroy_context(npu_context *context);
void npu_drop_context(npu_context *context);

/* Did aclrtSetDevice make it? */
bool npu_is_primary(const npu_context *context);

bool npu_is_device(int64_t device);

void npu_make_peer(int32_t device, int32_t other);

/* May `device` reach memory of `other`? */
bool npu_peers(int32_t device, int32_t other);

/* Take `size` bytes off the capacity of a device; false: it has not so many. */
bool npu_take_capacity(int32_t device, size_t size);
void npu_give_capacity(int32_t device, size_t size);

#endif

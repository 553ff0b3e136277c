/* span.h: addresses with memory behind them, who may use them, and where their bytes are. */
#ifndef NPU_SPAN_H
#define NPU_SPAN_H

#include "block.h"
#include "device.h"

typedef struct npu_span {
    npu_entry entry;
    char *alias;      /* where this library reaches the bytes */
    npu_block *block; /* NULL: the memory is the caller's own */
    bool on_host;     /* the processor may use these addresses */
    int32_t device;   /* that the memory lies in, NPU_HOST: in none */
    int32_t home;     /* of its block: another device needs to be its peer */
    uint8_t access[NPU_DEVICES_MAX]; /* aclrtMemAccessFlags granted beyond its own device */
} npu_span;

/* The span that holds an address, of whatever kind; NULL: none. Under the lock, as all here. */
npu_span *npu_span_at(const void *address);

/* May `device` do with the span what `need` says? */
bool npu_allows(const npu_span *span, int32_t device, aclrtMemAccessFlags need);

/* `size` bytes of addresses at a multiple of `alignment`, PROT_NONE; exactly `at` unless it is NULL.
 * NULL: not to be had. */
void *npu_take_addresses(size_t size, size_t alignment, void *at);

/* Put the memory of a block at addresses that are ours: for the processor, or PROT_NONE. */
bool npu_show(void *at, const npu_block *block, bool on_host);

/* Make addresses that are ours empty again. */
void npu_hide(void *at, size_t size);

#endif

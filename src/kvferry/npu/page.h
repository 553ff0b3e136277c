/* page.h: the sizes of pages, in bytes. */
#ifndef NPU_PAGE_H
#define NPU_PAGE_H

#include <stddef.h>

#define NPU_NORMAL ((size_t)4 << 10)
#define NPU_HUGE ((size_t)2 << 20)
#define NPU_HUGE1G ((size_t)1 << 30)

static inline size_t npu_round_up(size_t size, size_t page) { return (size + page - 1) / page * page; }

#endif

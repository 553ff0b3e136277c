/* allocator.h: device memory for torch_npu's pluggable allocator.
 *
 * Each allocation is a physical allocation of its own, mapped at an address of its own, so that whoever
 * has the address can retain the handle and share it (aclrtMemRetainAllocationHandle):
 *
 *   address  |<-------- size, rounded up to the granularity -------->|   reserved and mapped here
 *   handle   |<------------ huge pages of the device --------------->|   shareable as a whole
 *
 * All functions may be called from any thread. They print nothing. ACL is looked for at the first call:
 * libascendcl.so, libacl_rt.so and libacl_rt_impl.so, or what KVFERRY_ACL_LIBRARY names instead.
 */
#ifndef KVFERRY_ALLOCATOR_H
#define KVFERRY_ALLOCATOR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* At least `size` bytes of `device`, aligned to its huge pages; the caller's until kvferry_free. NULL
 * for no bytes, and when it cannot be had: then nothing is left allocated. `stream` (an aclrtStream) is
 * not used. A thread without a context keeps the primary context of `device`; any other gets its own
 * context back. */
void *kvferry_malloc(size_t size, int device, void *stream);

/* Give back what kvferry_malloc returned. Waits until `stream`, unless it is NULL, has done all that was
 * submitted to it. `size` and `device` are not used: both are known. NULL is ignored, and so is an
 * address that is not in use, but kvferry_last_error tells of that. When the memory cannot be unmapped
 * it stays, and may be freed again. Handles that others have retained keep the pages alive. */
void kvferry_free(void *address, size_t size, int device, void *stream);

/* 1: memory of `device` can be allocated here and its handle retained, so that an engine can share it;
 * 0: not, for the reason that kvferry_last_error tells. Tries it with the smallest allocation. */
int kvferry_probe(int device);

/* Why the last call of this thread that failed did; "" when none has. Stays until the next that fails. */
const char *kvferry_last_error(void);

/* The same functions under the names of Mooncake's allocator. */
void *mc_allocator_malloc(size_t size, int device, void *stream);
void mc_allocator_free(void *address, size_t size, int device, void *stream);
int mc_allocator_probe(int device);

#ifdef __cplusplus
}
#endif

#endif

/* device.h: memory that faults when it is touched, and the reach that copies there all the same.
 *
 *   face    |.... PROT_NONE ....|== host ==|   what descriptors name; the host's part follows at once
 *   alias   |####################|             what the reach touches in the place of the face
 */
#ifndef KVF_DEVICE_H
#define KVF_DEVICE_H

#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "done.h"
#include "resolve.h"

#define DEVICE_CODE (-507899)

typedef struct device {
    kvf_reach reach;
    unsigned char *face, *alias;
    size_t length, behind;
    uint64_t calls;
    uint64_t fails_at;     /* this call copies half of its bytes and fails; 0: none does */
    _Atomic bool *waiting; /* or NULL: a call raises it, and waits until it is taken down */
} device;

static inline int device_copy(device *d, void *to, const void *from, uint64_t n) {
    bool fails = ++d->calls == d->fails_at;
    memcpy(to, from, fails ? n / 2 : n);
    if (d->waiting) {
        atomic_store(d->waiting, true);
        while (atomic_load(d->waiting)) kvf_relax();
    }
    return fails ? DEVICE_CODE : 0;
}

static inline unsigned char *device_at(device *d, uint64_t address, uint64_t n) {
    uint64_t offset = address - (uintptr_t)d->face;
    CHECK(offset < d->length && n <= d->length - offset);
    return d->alias + offset;
}

static inline int device_load(kvf_reach *r, void *to, uint64_t from, uint64_t n) {
    return device_copy((device *)r, to, device_at((device *)r, from, n), n);
}

static inline int device_store(kvf_reach *r, uint64_t to, const void *from, uint64_t n) {
    return device_copy((device *)r, device_at((device *)r, to, n), from, n);
}

/* Both lengths in whole pages. */
static inline device device_new(size_t length, size_t behind) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    device d = {.reach = {device_load, device_store}, .length = length, .behind = behind};
    d.face = mmap(NULL, length + behind, PROT_NONE, flags, -1, 0);
    d.alias = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(d.face != MAP_FAILED && d.alias != MAP_FAILED);
    if (behind) CHECK(mprotect(d.face + length, behind, PROT_READ | PROT_WRITE) == 0);
    return d;
}

static inline void device_free(device *d) {
    munmap(d->face, d->length + d->behind);
    munmap(d->alias, d->length);
}

/* Where the bytes of the face, or behind it, really are. */
static inline unsigned char *device_real(device *d, uint64_t offset) {
    return offset < d->length ? d->alias + offset : d->face + offset;
}

static inline kvf_span device_span(device *d) {
    kvf_span s = {.base = (uintptr_t)d->face, .length = d->length, .writable = true,
                  .offer = KVF_OFFER_WRITE, .reach = &d->reach};
    kvf_gate_init(&s.gate);
    return s;
}

#endif

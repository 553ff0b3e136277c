/* vm.h: address ranges, what is mapped into them, and seals of memory files.
 *
 *   reserve    |......... PROT_NONE .........|        ours, nothing behind it
 *   map        |== memory file ==|...........|        a file's bytes behind its head
 *   unmap      |......... PROT_NONE .........|        still ours
 *   release                                           the kernel's again
 *
 * Every function returns 0 or an errno. Addresses and lengths are multiples of the page size, and of
 * the huge page size where the file has huge pages. Neither a reservation nor a mapping is inherited
 * by a forked child: there the addresses are empty, until the child maps something else to them.
 * A child forked between the two system calls that make a range keeps it.
 */
#ifndef KVF_VM_H
#define KVF_VM_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Younger than some libc headers; values from the kernel's. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MFD_HUGETLB
#define MFD_HUGETLB 0x0004U
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif

#define KVF_VM_HUGE ((size_t)2 << 20)
#define KVF_VM_THREADS_MAX 64

static inline int kvf_vm_checked(int result) { return result == 0 ? 0 : errno; }

static inline int kvf_vm_release(uintptr_t address, size_t length) {
    return kvf_vm_checked(munmap((void *)address, length));
}

static inline int kvf_vm_put_reservation(uintptr_t address, size_t length, int fixed,
                                         uintptr_t *got) {
    void *p = mmap((void *)address, length, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
    if (p == MAP_FAILED) return errno;
    *got = (uintptr_t)p;
    return kvf_vm_checked(madvise(p, length, MADV_DONTFORK));
}

/* Exactly at `at`, or EEXIST. A kernel without MAP_FIXED_NOREPLACE takes it for a wish. */
static inline int kvf_vm_reserve_at(size_t size, uintptr_t at, uintptr_t *address) {
    int code = kvf_vm_put_reservation(at, size, MAP_FIXED_NOREPLACE, address);
    if (code || *address == at) return code;
    code = kvf_vm_release(*address, size);
    return code ? code : EEXIST;
}

/* Anywhere at a multiple of `align`, a power of two: too much is taken, and both ends given back. */
static inline int kvf_vm_reserve(size_t size, size_t align, uintptr_t *address) {
    if (size > SIZE_MAX - align) return ENOMEM;
    uintptr_t low = 0;
    int code = kvf_vm_put_reservation(0, size + align, 0, &low);
    if (code) return code;
    uintptr_t start = (low + align - 1) & ~((uintptr_t)align - 1), high = low + size + align;
    if (start > low) code = kvf_vm_release(low, start - low);
    if (!code && high > start + size) code = kvf_vm_release(start + size, high - start - size);
    if (code) kvf_vm_release(start, size);
    *address = start;
    return code;
}

/* `length` bytes of `fd` from `offset` on, into a reservation. */
static inline int kvf_vm_map(int fd, off_t offset, size_t length, uintptr_t address,
                             bool writable) {
    int rights = PROT_READ | (writable ? PROT_WRITE : 0);
    void *p = mmap((void *)address, length, rights, MAP_SHARED | MAP_FIXED, fd, offset);
    if (p == MAP_FAILED) return errno;
    return kvf_vm_checked(madvise(p, length, MADV_DONTFORK));
}

/* Nothing behind the range any more; harmless where nothing was. */
static inline int kvf_vm_unmap(uintptr_t address, size_t length) {
    uintptr_t same;
    return kvf_vm_put_reservation(address, length, MAP_FIXED, &same);
}

/* Ask for huge pages where none are behind the range yet. */
static inline int kvf_vm_hugepage(uintptr_t address, size_t length) {
    return kvf_vm_checked(madvise((void *)address, length, MADV_HUGEPAGE));
}

/* What is done to every page of a range: brought in readable, writable, or writable on a kernel that
 * cannot be asked for it; or copied together with its neighbours into a huge page, contents kept. */
typedef enum {
    KVF_POPULATE_READ,
    KVF_POPULATE_WRITE,
    KVF_POPULATE_TOUCH,
    KVF_COLLAPSE
} kvf_vm_work;

typedef struct kvf_vm_piece {
    uintptr_t address;
    size_t length;
    kvf_vm_work work;
    int code;
} kvf_vm_piece;

/* One write a page that changes no byte, even where another process writes at the same time. */
static inline void kvf_vm_touch(uintptr_t address, size_t length) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < length; at += page)
        __atomic_fetch_or((unsigned char *)(address + at), 0, __ATOMIC_RELAXED);
}

static inline void *kvf_vm_work_piece(void *argument) {
    static const int advice[] = {
        [KVF_POPULATE_READ] = MADV_POPULATE_READ,
        [KVF_POPULATE_WRITE] = MADV_POPULATE_WRITE,
        [KVF_COLLAPSE] = MADV_COLLAPSE,
    };
    kvf_vm_piece *p = argument;
    if (p->work == KVF_POPULATE_TOUCH)
        kvf_vm_touch(p->address, p->length);
    else
        p->code = kvf_vm_checked(madvise((void *)p->address, p->length, advice[p->work]));
    return NULL;
}

/* Work on a mapped range, cut over at most `threads` threads at huge page boundaries, so that no two
 * of them want one page. Every piece is tried; the first error is returned. */
static inline int kvf_vm_work_on(uintptr_t address, size_t length, kvf_vm_work work,
                                 unsigned threads) {
    if (threads < 1) threads = 1;
    if (threads > KVF_VM_THREADS_MAX) threads = KVF_VM_THREADS_MAX;
    size_t huge = length / KVF_VM_HUGE + 1, step = (huge + threads - 1) / threads * KVF_VM_HUGE;
    kvf_vm_piece piece[KVF_VM_THREADS_MAX];
    pthread_t thread[KVF_VM_THREADS_MAX];
    unsigned n = 0, started = 0;
    for (size_t at = 0; at < length; at += step, n++)
        piece[n] = (kvf_vm_piece){address + at, length - at < step ? length - at : step, work, 0};
    /* Signals are for the interpreter's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started + 1 < n &&
           !pthread_create(&thread[started], NULL, kvf_vm_work_piece, &piece[started]))
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (unsigned i = started; i < n; i++) kvf_vm_work_piece(&piece[i]);
    for (unsigned i = 0; i < started; i++) pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < n; i++)
        if (piece[i].code) return piece[i].code;
    return 0;
}

static inline int kvf_vm_seals(int fd, int *seals) {
    int got = fcntl(fd, F_GET_SEALS);
    if (got < 0) return errno;
    *seals = got;
    return 0;
}

/* All of them or none. */
static inline int kvf_vm_add_seals(int fd, int seals) {
    return kvf_vm_checked(fcntl(fd, F_ADD_SEALS, seals));
}

#endif

/* disk.h: checksums of what lies on a disk, and reading it past the page cache.
 *
 *   record    | ............ value ............ |         at a multiple of 64, as long as it is
 *   cover   |    4096    |    4096    |    4096    |      what O_DIRECT reads, into a window
 *
 * Records of a batch that follow each other closely share a window; one longer than the window passes
 * through it in parts. Each byte is looked at once: a part is summed up and copied while it is in cache.
 *
 * CRC-32C (Castagnoli; RFC 3720, B.4): the processor has an instruction for it, of which three run side
 * by side, each over a lane of its own; a table moves the sum of a lane past the next one.
 */
#ifndef KVF_DISK_H
#define KVF_DISK_H

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define KVF_CRC_TARGET __attribute__((target("sse4.2")))
#define KVF_CRC_WORD(state, word) ((uint32_t)_mm_crc32_u64(state, word))
#define KVF_CRC_BYTE(state, byte) _mm_crc32_u8(state, byte)
#define KVF_HAS_CRC() __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define KVF_CRC_TARGET __attribute__((target("+crc")))
#define KVF_CRC_WORD(state, word) __crc32cd(state, word)
#define KVF_CRC_BYTE(state, byte) __crc32cb(state, byte)
#define KVF_HAS_CRC() (getauxval(AT_HWCAP) & (1ul << 7)) /* HWCAP_CRC32 */
#endif

#define KVF_BLOCK 4096ull
#define KVF_CRC_POLYNOMIAL 0x82f63b78u
#define KVF_CRC_LANE 1024u
#define KVF_CRC_PART (12 * KVF_CRC_LANE) /* stays in the first cache while it is summed up and copied */
/* Between two records; to read it along is cheaper than another request. */
#define KVF_DISK_GAP (64ull << 10)

typedef uint32_t kvf_crc_function(uint32_t state, const void *bytes, size_t n);

/* Constant after the program was loaded. */
static struct {
    kvf_crc_function *best;
    const kvf_variant *nt;
    uint32_t byte[8][256]; /* [k][b]: byte b, followed by k zero bytes */
    uint32_t lane[4][256]; /* [k][b]: byte k of a state is b, and a lane of zero bytes follows */
} kvf_crc;

static inline uint64_t kvf_crc_load(const char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return le64toh(word);
}

static inline uint32_t kvf_crc_step(uint32_t state, uint8_t byte) {
    return kvf_crc.byte[0][(state ^ byte) & 255] ^ state >> 8;
}

static inline uint32_t kvf_crc_portable(uint32_t state, const void *bytes, size_t n) {
    const char *at = bytes;
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word = kvf_crc_load(at) ^ state;
        state = 0;
        for (int k = 0; k < 8; k++) state ^= kvf_crc.byte[7 - k][word >> 8 * k & 255];
    }
    while (n--) state = kvf_crc_step(state, (uint8_t)*at++);
    return state;
}

#if defined(KVF_CRC_TARGET)
static inline uint32_t kvf_crc_past_lane(uint32_t state) {
    return kvf_crc.lane[0][state & 255] ^ kvf_crc.lane[1][state >> 8 & 255] ^
           kvf_crc.lane[2][state >> 16 & 255] ^ kvf_crc.lane[3][state >> 24];
}

KVF_CRC_TARGET static inline uint32_t kvf_crc_hardware(uint32_t state, const void *bytes, size_t n) {
    const char *at = bytes;
    for (; n >= 3 * KVF_CRC_LANE; n -= 3 * KVF_CRC_LANE, at += 3 * KVF_CRC_LANE) {
        uint32_t second = 0, third = 0;
        for (size_t i = 0; i < KVF_CRC_LANE; i += 8) {
            state = KVF_CRC_WORD(state, kvf_crc_load(at + i));
            second = KVF_CRC_WORD(second, kvf_crc_load(at + KVF_CRC_LANE + i));
            third = KVF_CRC_WORD(third, kvf_crc_load(at + 2 * KVF_CRC_LANE + i));
        }
        state = kvf_crc_past_lane(kvf_crc_past_lane(state) ^ second) ^ third;
    }
    for (; n >= 8; n -= 8, at += 8) state = KVF_CRC_WORD(state, kvf_crc_load(at));
    while (n--) state = KVF_CRC_BYTE(state, (uint8_t)*at++);
    return state;
}
#endif

/* Sums are linear: what one bit becomes behind a lane tells what every byte becomes. */
static inline void kvf_crc_make_lane(void) {
    for (int bit = 0; bit < 32; bit++) {
        uint32_t state = 1u << bit;
        for (uint32_t i = 0; i < KVF_CRC_LANE; i++) state = kvf_crc_step(state, 0);
        for (int b = 0; b < 256; b++)
            if (b >> bit % 8 & 1) kvf_crc.lane[bit / 8][b] ^= state;
    }
}

__attribute__((constructor)) static void kvf_crc_make(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t state = b;
        for (int i = 0; i < 8; i++) state = state >> 1 ^ (state & 1 ? KVF_CRC_POLYNOMIAL : 0);
        kvf_crc.byte[0][b] = state;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++) kvf_crc.byte[k][b] = kvf_crc_step(kvf_crc.byte[k - 1][b], 0);
    kvf_crc_make_lane();
    kvf_crc.nt = kvf_best_nt();
    kvf_crc.best = kvf_crc_portable;
#if defined(KVF_CRC_TARGET)
    if (KVF_HAS_CRC()) kvf_crc.best = kvf_crc_hardware;
#endif
}

/* Of bytes that follow others, whose sum is `before`; 0 for none. */
static inline uint32_t kvf_crc32c(uint32_t before, const void *bytes, size_t n) {
    return ~kvf_crc.best(~before, bytes, n);
}

/* Past the cache where there is much: whoever reads it is another thread, or the disk. */
static inline uint32_t kvf_crc_copy(uint32_t before, void *to, const void *from, size_t n) {
    const kvf_variant *v = n >= KVF_NT_RUN ? kvf_crc.nt : kvf_variants;
    for (size_t at = 0, part; at < n; at += part) {
        part = n - at < KVF_CRC_PART ? n - at : KVF_CRC_PART;
        before = kvf_crc32c(before, (const char *)from + at, part);
        v->copy((char *)to + at, (const char *)from + at, part);
    }
    return before;
}

static inline void kvf_crc_all(const uint64_t *addresses, const uint64_t *lengths, size_t n, uint32_t *crcs) {
    for (size_t i = 0; i < n; i++) crcs[i] = kvf_crc32c(0, (const void *)addresses[i], lengths[i]);
}

/* ---- staging: values at addresses, to their places in a run ---- */

/* In ascending order, apart, and within `room` bytes. */
static inline bool kvf_stage_fits(const uint64_t *ats, const uint64_t *lengths, size_t n, uint64_t from,
                                  uint64_t room) {
    for (size_t i = 0; i < n; i++) {
        if (ats[i] < from || ats[i] > room || lengths[i] > room - ats[i]) return false;
        from = ats[i] + lengths[i];
    }
    return from <= room;
}

/* What lies between values, from byte `from` on and up to `room`, becomes zeros. */
static inline void kvf_stage(char *run, uint64_t from, uint64_t room, const uint64_t *ats,
                             const uint64_t *lengths, const uint64_t *addresses, size_t n, uint32_t *crcs) {
    for (size_t i = 0; i < n; i++) {
        memset(run + from, 0, ats[i] - from);
        crcs[i] = kvf_crc_copy(0, run + ats[i], (const void *)addresses[i], lengths[i]);
        from = ats[i] + lengths[i];
    }
    memset(run + from, 0, room - from);
}

/* ---- reading ---- */

typedef enum {
    KVF_DISK_OK,
    KVF_DISK_CORRUPT, /* other bytes than were summed up, or not so many */
    KVF_DISK_MISSING, /* there is no file */
    KVF_DISK_FAILED   /* the system refused to read */
} kvf_disk_verdict;

/* Record i: lengths[i] bytes from offsets[i] of the file fds[i], below 0: none; go to addresses[i]. */
typedef struct kvf_records {
    const int32_t *fds;
    const uint64_t *offsets, *lengths, *addresses;
    const uint32_t *crcs;
    size_t n;
} kvf_records;

/* bytes: `room`, of whole blocks, at a multiple of a block; they hold [begin, end) of the file fd. */
typedef struct kvf_window {
    char *bytes;
    uint64_t room, begin, end;
    int32_t fd;
} kvf_window;

/* Up to the end of the file. False: the system refused. */
static inline bool kvf_window_read(kvf_window *w, int32_t fd, uint64_t begin, uint64_t end) {
    w->fd = fd, w->begin = w->end = begin;
    while (w->end < end) {
        ssize_t got = pread(fd, w->bytes + (w->end - begin), end - w->end, (off_t)w->end);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        w->end += (uint64_t)got;
        if (got % (ssize_t)KVF_BLOCK || !got) break; /* the file ends here */
    }
    return true;
}

static inline bool kvf_can_be(const kvf_records *r, size_t i) {
    return r->offsets[i] <= INT64_MAX - KVF_BLOCK && r->lengths[i] <= INT64_MAX - KVF_BLOCK - r->offsets[i];
}

static inline uint64_t kvf_block_up(uint64_t at) { return (at + KVF_BLOCK - 1) & ~(KVF_BLOCK - 1); }

/* How far to read from `begin` on: record i, and what of the next ones fits whole. */
static inline uint64_t kvf_window_wanted(const kvf_window *w, const kvf_records *r, size_t i, uint64_t begin) {
    uint64_t end = kvf_block_up(r->offsets[i] + r->lengths[i]);
    if (end - begin > w->room) return begin + w->room;
    for (size_t j = i + 1; j < r->n && r->fds[j] == r->fds[i] && kvf_can_be(r, j); j++) {
        uint64_t next = kvf_block_up(r->offsets[j] + r->lengths[j]);
        if (r->offsets[j] < begin || r->offsets[j] > end + KVF_DISK_GAP || next - begin > w->room) break;
        if (next > end) end = next;
    }
    return end;
}

static inline kvf_disk_verdict kvf_disk_read_one(kvf_window *w, const kvf_records *r, size_t i) {
    if (r->fds[i] < 0) return KVF_DISK_MISSING;
    if (!kvf_can_be(r, i)) return KVF_DISK_CORRUPT;
    uint64_t at = r->offsets[i], end = at + r->lengths[i];
    char *to = (char *)r->addresses[i];
    uint32_t crc = 0;
    for (uint64_t part; at < end; at += part, to += part) {
        if (w->fd != r->fds[i] || at < w->begin || at >= w->end) {
            uint64_t begin = at & ~(KVF_BLOCK - 1);
            if (!kvf_window_read(w, r->fds[i], begin, kvf_window_wanted(w, r, i, begin))) return KVF_DISK_FAILED;
            if (at >= w->end) return KVF_DISK_CORRUPT;
        }
        part = (end < w->end ? end : w->end) - at;
        crc = kvf_crc_copy(crc, to, w->bytes + (at - w->begin), part);
    }
    return crc == r->crcs[i] ? KVF_DISK_OK : KVF_DISK_CORRUPT;
}

static inline void kvf_disk_read(const kvf_records *r, void *scratch, uint64_t room, uint8_t *verdicts) {
    kvf_window w = {.bytes = scratch, .room = room, .fd = -1};
    for (size_t i = 0; i < r->n; i++) verdicts[i] = (uint8_t)kvf_disk_read_one(&w, r, i);
}

#endif

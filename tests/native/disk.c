/* Sums by every way, a bit at a time included; staging; records of a file in memory, whole and not. */
#include <sys/mman.h>

#include "check.h"
#include "disk.h"

#define SIZE (40 * KVF_BLOCK)

static char any[SIZE], got[SIZE];

static void fill(void) {
    uint64_t x = 88172645463325252ull;
    for (size_t i = 0; i < SIZE; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        any[i] = (char)x;
    }
}

static uint32_t bit_by_bit(const char *bytes, size_t n) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= (uint8_t)bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? KVF_CRC_POLYNOMIAL : 0);
    }
    return ~crc;
}

static void check_sums(void) {
    CHECK(kvf_crc32c(0, "123456789", 9) == 0xe3069283u);
    CHECK(~kvf_crc_portable(~0u, "123456789", 9) == 0xe3069283u);
    for (size_t n = 0; n < 20000; n += n < 100 ? 1 : 769)
        for (size_t start = 0; start < 9; start += 4) {
            uint32_t crc = bit_by_bit(any + start, n);
            CHECK(kvf_crc32c(0, any + start, n) == crc);
            CHECK(~kvf_crc_portable(~0u, any + start, n) == crc);
            CHECK(kvf_crc32c(kvf_crc32c(0, any + start, n / 3), any + start + n / 3, n - n / 3) == crc);
            CHECK(kvf_crc_copy(0, got, any + start, n) == crc && !memcmp(got, any + start, n));
        }
}

static void check_staging(void) {
    enum { ROOM = 8192 };
    char *run = malloc(ROOM); /* so that a byte too far is found */
    CHECK(run);
    memset(run, 9, ROOM);
    uint64_t ats[] = {128, 4096, 8000}, lengths[] = {100, 0, 192}, from[] = {(uint64_t)any, 0, (uint64_t)any + 64};
    uint32_t crcs[3];
    CHECK(kvf_stage_fits(ats, lengths, 3, 128, ROOM) && !kvf_stage_fits(ats, lengths, 3, 129, ROOM));
    CHECK(!kvf_stage_fits(ats, lengths, 3, 128, ROOM - 1) && !kvf_stage_fits(ats, lengths, 0, 2, 1));
    kvf_stage(run, 96, ROOM, ats, lengths, from, 3, crcs);
    CHECK(!memcmp(run + 128, any, 100) && !memcmp(run + 8000, any + 64, 192));
    CHECK(crcs[0] == bit_by_bit(any, 100) && !crcs[1] && crcs[2] == bit_by_bit(any + 64, 192));
    for (size_t i = 0; i < 8000; i++) CHECK(run[i] == (i < 96 ? 9 : i < 128 || i >= 228 ? 0 : any[i - 128]));
    free(run);
}

static kvf_disk_verdict read_one(int32_t fd, uint64_t offset, uint64_t length, uint32_t crc, void *scratch,
                                 uint64_t room) {
    uint64_t to = (uint64_t)got;
    kvf_records r = {&fd, &offset, &length, &to, &crc, 1};
    uint8_t verdict;
    kvf_disk_read(&r, scratch, room, &verdict);
    return verdict;
}

static void check_reads(int fd, uint64_t room) {
    void *scratch = aligned_alloc(KVF_BLOCK, room);
    CHECK(scratch);
    for (uint64_t offset = 0; offset < SIZE; offset += 64 * 131)
        for (uint64_t length = 0; length <= SIZE - offset; length += length < 100 ? 33 : 9973) {
            uint32_t crc = kvf_crc32c(0, any + offset, length);
            CHECK(read_one(fd, offset, length, crc, scratch, room) == KVF_DISK_OK);
            CHECK(!memcmp(got, any + offset, length));
            CHECK(read_one(fd, offset, length, ~crc, scratch, room) == KVF_DISK_CORRUPT);
        }
    CHECK(read_one(fd, SIZE - 64, 65, 0, scratch, room) == KVF_DISK_CORRUPT);
    CHECK(read_one(fd, SIZE, 1, 0, scratch, room) == KVF_DISK_CORRUPT);
    CHECK(read_one(fd, 0, UINT64_MAX, 0, scratch, room) == KVF_DISK_CORRUPT);
    CHECK(read_one(fd, UINT64_MAX, 1, 0, scratch, room) == KVF_DISK_CORRUPT);
    CHECK(read_one(-1, 0, 1, 0, scratch, room) == KVF_DISK_MISSING);
    CHECK(read_one(1 << 20, 0, 1, 0, scratch, room) == KVF_DISK_FAILED);
    free(scratch);
}

/* Neighbours share a window, whatever their order and however they overlap. */
static void check_batch(int fd) {
    enum { N = 64, ROOM = 8 * 4096 };
    static int32_t fds[N];
    static uint64_t offsets[N], lengths[N], to[N];
    static uint32_t crcs[N];
    static uint8_t verdicts[N];
    void *scratch = aligned_alloc(KVF_BLOCK, ROOM);
    CHECK(scratch);
    for (uint32_t i = 0; i < N; i++) {
        fds[i] = i % 7 == 3 ? -1 : fd;
        offsets[i] = i % 5 ? i * 1984ull : (N - i) * 640ull;
        lengths[i] = i * 311 % 2560;
        to[i] = (uint64_t)got + i * 2560ull;
        crcs[i] = kvf_crc32c(0, any + offsets[i], lengths[i]) ^ (i % 11 == 4);
    }
    kvf_disk_read(&(kvf_records){fds, offsets, lengths, to, crcs, N}, scratch, ROOM, verdicts);
    for (uint32_t i = 0; i < N; i++) {
        CHECK(verdicts[i] == (i % 7 == 3 ? KVF_DISK_MISSING : i % 11 == 4 ? KVF_DISK_CORRUPT : KVF_DISK_OK));
        if (verdicts[i] == KVF_DISK_OK) CHECK(!memcmp((void *)to[i], any + offsets[i], lengths[i]));
    }
    free(scratch);
}

int main(void) {
    fill();
    check_sums();
    check_staging();
    int fd = memfd_create("disk", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, any, SIZE) == (ssize_t)SIZE);
    check_reads(fd, 2 * KVF_BLOCK);
    check_reads(fd, 64 * KVF_BLOCK);
    check_batch(fd);
    close(fd);
    return 0;
}

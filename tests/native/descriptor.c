/* Measuring and cutting against naive models: wide arithmetic, and a list of single bytes. */
#include <string.h>

#include "check.h"
#include "descriptor.h"
#include "parallel.h"

#define PIECES 16
#define LONGEST 40
#define BYTES (PIECES * LONGEST)

typedef unsigned __int128 wide;
static const wide SPACE = (wide)1 << 64;

/* ---- measure ---- */

static uint64_t edgy(uint64_t *random) {
    uint64_t near = random_below(random, 4);
    switch (random_below(random, 6)) {
        case 0: return near;
        case 1: return UINT64_MAX - near;
        case 2: return (1ull << 63) - near;
        default: return random_next(random) >> random_below(random, 40);
    }
}

static kvf_misfit naive_measure(const kvf_descriptor *d, uint64_t n, kvf_bounds *b, uint64_t *index) {
    wide total = 0;
    *b = (kvf_bounds){UINT64_MAX, 0, UINT64_MAX, 0, 0, UINT64_MAX, 0};
    for (*index = 0; *index < n; ++*index) {
        const kvf_descriptor *p = &d[*index];
        if (!p->length) return KVF_EMPTY_PIECE;
        if ((wide)p->local + p->length >= SPACE || (wide)p->remote + p->length >= SPACE) return KVF_WRAPS;
        total += p->length;
        if (total >= SPACE) return KVF_TOO_MANY_BYTES;
#define LEAST(a, x) if ((x) < (a)) (a) = (x)
#define MOST(a, x) if ((x) > (a)) (a) = (x)
        LEAST(b->local_low, p->local);
        LEAST(b->remote_low, p->remote);
        LEAST(b->shortest, p->length);
        MOST(b->local_high, p->local + p->length);
        MOST(b->remote_high, p->remote + p->length);
        MOST(b->longest, p->length);
    }
    b->bytes = (uint64_t)total;
    return KVF_FIT;
}

static void check_measure(void) {
    uint64_t random = 3, seen[4] = {0};
    for (int round = 0; round < 50000; round++) {
        kvf_descriptor d[PIECES];
        uint64_t n = random_below(&random, PIECES + 1), index = 0, naive_index = 0;
        bool wild = round % 2;
        for (uint64_t i = 0; i < n; i++)
            d[i] = wild ? (kvf_descriptor){edgy(&random), edgy(&random), edgy(&random)}
                        : (kvf_descriptor){random_next(&random) >> 2, random_next(&random) >> 2,
                                           (random_next(&random) >> 3) + 1};
        kvf_bounds b, naive;
        kvf_misfit wanted = naive_measure(d, n, &naive, &naive_index);
        CHECK(kvf_measure(d, n, &b, &index) == wanted);
        if (wanted) CHECK(index == naive_index);
        else CHECK(memcmp(&b, &naive, sizeof b) == 0);
        seen[wanted]++;
    }
    for (int i = 0; i < 4; i++) CHECK(seen[i] > 100);
}

/* ---- cut ---- */

typedef struct pair {
    uint64_t local, remote;
} pair;

static uint64_t list_bytes(const kvf_descriptor *d, uint64_t n, uint64_t delta, pair *list) {
    uint64_t k = 0;
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t at = 0; at < d[i].length; at++)
            list[k++] = (pair){d[i].local + at, d[i].remote + at + delta};
    return k;
}

static bool adjacent(const pair *list, uint64_t k) {
    return list[k].local + 1 == list[k + 1].local && list[k].remote + 1 == list[k + 1].remote;
}

/* Walk a run in pieces of at most `most`: the bytes of the list from `first` on, each piece as long
 * as adjacency, the run and `most` allow. Returns how many bytes it walked. */
static uint64_t walk(kvf_run r, uint64_t most, const pair *list, uint64_t first) {
    uint64_t k = first, end = first + r.bytes;
    for (kvf_piece p; kvf_next_piece(&r, most, &p);) {
        CHECK(p.length >= 1 && p.length <= most && k + p.length <= end);
        for (uint64_t at = 0; at < p.length; at++, k++)
            CHECK(list[k].local == p.local + at && list[k].remote == p.remote + at);
        CHECK(k == end || p.length == most || !adjacent(list, k - 1));
    }
    CHECK(k == end && r.bytes == 0);
    return k - first;
}

static void check_cut(void) {
    uint64_t random = 5;
    for (int round = 0; round < 4000; round++) {
        kvf_descriptor d[PIECES];
        pair list[BYTES];
        uint64_t n = 1 + random_below(&random, PIECES), delta = random_next(&random);
        for (uint64_t i = 0; i < n; i++) {
            bool follows = i && random_below(&random, 2);
            d[i].local = follows ? d[i - 1].local + d[i - 1].length : random_next(&random) >> 1;
            d[i].remote = i && random_below(&random, 4) ? d[i - 1].remote + d[i - 1].length
                                                        : random_next(&random) >> 1;
            d[i].length = 1 + random_below(&random, LONGEST);
        }
        uint64_t bytes = list_bytes(d, n, delta, list), at = 0;
        kvf_run rest = {d, 0, bytes, delta};
        while (rest.bytes) {
            kvf_run run = rest;
            run.bytes = 1 + random_below(&random, rest.bytes);
            at += walk(run, 1 + random_below(&random, 2 * LONGEST), list, at);
            kvf_skip(&rest, run.bytes);
            CHECK(rest.bytes == bytes - at);
        }
        CHECK(at == bytes && rest.d == d + n && rest.skip == 0);
        kvf_piece none;
        CHECK(!kvf_next_piece(&rest, 1, &none));
    }
}

/* ---- ids ---- */

static void check_first_stray(void) {
    static const uint64_t limits[] = {0, 1, 2, 100, 1ull << 40, 1ull << 63, UINT64_MAX};
    uint64_t random = 9;
    for (int round = 0; round < 20000; round++) {
        int64_t ids[PIECES];
        uint64_t n = random_below(&random, PIECES + 1), wanted = 0;
        uint64_t limit = limits[random_below(&random, sizeof limits / sizeof *limits)];
        for (uint64_t i = 0; i < n; i++)
            ids[i] = random_below(&random, 8) && limit ? (int64_t)(random_next(&random) % limit)
                                                       : (int64_t)edgy(&random);
        while (wanted < n && (uint64_t)ids[wanted] < limit) wanted++;
        CHECK(kvf_first_stray(ids, n, limit) == wanted);
    }
}

static void check_fill(void) {
    const int64_t ours[] = {0, 3, 1, 1ll << 30}, theirs[] = {7, 0, 7, 2};
    kvf_descriptor d[4];
    kvf_fill_blocks(d, 4, 1000, ours, 1ull << 50, theirs, 1 << 16);
    for (int i = 0; i < 4; i++) {
        CHECK(d[i].local == 1000 + (uint64_t)ours[i] * 65536);
        CHECK(d[i].remote == (1ull << 50) + (uint64_t)theirs[i] * 65536 && d[i].length == 65536);
    }
}

int main(void) {
    check_measure();
    check_cut();
    check_first_stray();
    check_fill();
    return 0;
}

/* Tables of random regions against a naive loop over all of them. */
#include <string.h>

#include "check.h"
#include "parallel.h"
#include "resolve.h"

#define SPANS 12
#define PIECES 10

static kvf_span spans[SPANS];
static kvf_span *table[SPANS];

/* Sorted, apart or adjacent, sometimes up to the last byte of the address space but one. */
static uint64_t random_table(uint64_t *random) {
    uint64_t n = random_below(random, SPANS + 1), at = random_below(random, 50);
    bool high = random_below(random, 4) == 0;
    if (high) at = UINT64_MAX - 2000;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = 1 + random_below(random, 60);
        spans[i] = (kvf_span){.base = at,
                              .length = length,
                              .delta = random_next(random),
                              .writable = random_below(random, 3) != 0};
        table[i] = &spans[i];
        at += length + (random_below(random, 2) ? random_below(random, 40) : 0);
    }
    if (high && n) spans[n - 1].length = UINT64_MAX - spans[n - 1].base;
    return n;
}

static uint64_t random_address(uint64_t *random, uint64_t n) {
    if (!n || random_below(random, 20) == 0) return random_next(random);
    const kvf_span *s = &spans[random_below(random, n)];
    return s->base + random_below(random, s->length + 3) - 1;
}

static bool inside(const kvf_span *s, uint64_t address) {
    return address >= s->base && address - s->base < s->length;
}

static uint64_t naive_find(uint64_t n, uint64_t address) {
    uint64_t i = 0;
    while (i < n && !inside(&spans[i], address)) i++;
    return i;
}

static kvf_verdict naive_resolve(const kvf_descriptor *d, uint64_t n, kvf_side side, bool write,
                                 uint64_t count, uint8_t *hits, kvf_descriptor *out, uint64_t *index) {
    for (*index = 0; *index < n; ++*index) {
        uint64_t address = side == KVF_LOCAL ? d[*index].local : d[*index].remote;
        uint64_t found = naive_find(count, address);
        if (found == count) return KVF_UNKNOWN;
        if (write && !spans[found].writable) return KVF_READONLY;
        hits[found] = 1;
        if ((unsigned __int128)address + d[*index].length >
            (unsigned __int128)spans[found].base + spans[found].length)
            return KVF_LEAVES;
        *(side == KVF_LOCAL ? &out[*index].local : &out[*index].remote) = address + spans[found].delta;
    }
    return KVF_RESOLVED;
}

static void check_tables(void) {
    uint64_t random = 17, seen[4] = {0};
    for (int round = 0; round < 60000; round++) {
        kvf_descriptor d[PIECES], out[PIECES], wanted[PIECES];
        uint64_t count = random_table(&random), n = random_below(&random, PIECES + 1);
        bool short_pieces = random_below(&random, 2);
        for (uint64_t i = 0; i < n; i++)
            d[i] = (kvf_descriptor){random_address(&random, count), random_address(&random, count),
                                    1 + random_below(&random, short_pieces ? 3 : 80)};
        if (n && random_below(&random, 30) == 0) d[n - 1].length = UINT64_MAX - random_below(&random, 3);
        memcpy(out, d, sizeof out);
        memcpy(wanted, d, sizeof wanted);
        uint8_t hits[SPANS] = {0}, naive_hits[SPANS] = {0};
        kvf_side side = random_below(&random, 2) ? KVF_REMOTE : KVF_LOCAL;
        bool write = random_below(&random, 2);
        uint64_t index = 0, naive_index = 0;
        kvf_verdict verdict =
            naive_resolve(d, n, side, write, count, naive_hits, wanted, &naive_index);
        CHECK(kvf_resolve_side(d, n, side, write, table, count, hits, out, &index) == verdict);
        seen[verdict]++;
        if (verdict) {
            CHECK(index == naive_index);
        } else {
            CHECK(memcmp(out, wanted, n * sizeof *d) == 0);
            CHECK(memcmp(hits, naive_hits, sizeof hits) == 0);
            CHECK(kvf_resolve_side(d, n, side, write, table, count, hits, NULL, &index) == verdict);
        }
    }
    for (int i = 0; i < 4; i++) CHECK(seen[i] > 100);
}

static void check_find(void) {
    uint64_t random = 19;
    for (int round = 0; round < 20000; round++) {
        uint64_t count = random_table(&random), address = random_address(&random, count);
        CHECK(kvf_find_span(table, count, address) == naive_find(count, address));
    }
}

/* Small numbers, all of them: covering, and the first outside. */
static void check_extremes(void) {
    for (uint64_t base = 0; base < 5; base++)
        for (uint64_t length = 0; length < 5; length++)
            for (uint64_t low = 0; low < 9; low++)
                for (uint64_t size = 1; size < 9; size++) {
                    kvf_span s = {.base = base, .length = length};
                    bool covered = low >= base && low + size <= base + length;
                    CHECK(kvf_span_covers(&s, low, low + size) == covered);
                    const kvf_descriptor d[] = {{base, base, 0}, {low, low, size}};
                    CHECK(kvf_first_outside(d, 2, KVF_REMOTE, base, base + length) == (covered ? 2 : 1));
                    CHECK(kvf_first_outside(d, 2, KVF_LOCAL, base, base + length) == (covered ? 2 : 1));
                }
    kvf_span all = {.base = 1000, .length = UINT64_MAX - 1000};
    CHECK(!kvf_span_covers(&all, 2000, 1000)); /* a batch of nothing, or one that wraps */
    const kvf_descriptor wraps = {2000, 2000, UINT64_MAX};
    CHECK(kvf_first_outside(&wraps, 1, KVF_REMOTE, 1000, UINT64_MAX) == 0);
}

/* Every kind of visitor at every kind of region: what a peer may not reach is as if it were not there,
 * within its bounds and beyond them. */
static void check_audience(kvf_span *s, kvf_offer offer, kvf_audience audience, kvf_visitor who) {
    kvf_span *row[] = {s}, *entered = NULL;
    kvf_table t = {.row = row, .n = 1};
    bool ours = who.tenant == audience.one.tenant;
    if (audience.alone) ours = ours && who.epoch == audience.one.epoch && who.writes == audience.one.writes;
    bool there = ours && offer != KVF_OFFER_NONE;
    bool writes = there && offer == KVF_OFFER_WRITE && (who.writes || audience.alone);
    s->offer = offer, s->audience = audience;
    pthread_mutex_init(&t.lock, NULL);
    for (int write = 0; write < 2; write++) {
        kvf_verdict wanted = !there ? KVF_UNKNOWN : write && !writes ? KVF_READONLY : KVF_RESOLVED;
        CHECK(kvf_table_enter(&t, 4100, 60, write, &who, &entered) == wanted);
        if (!wanted) kvf_gate_leave(&entered->gate);
        wanted = there ? KVF_LEAVES : KVF_UNKNOWN;
        CHECK(kvf_table_enter(&t, 4100, 61, write, &who, &entered) == wanted);
        CHECK(kvf_table_enter(&t, 4095, 1, write, &who, &entered) == KVF_UNKNOWN);
    }
    CHECK(kvf_gate_inside(&s->gate) == 0);
    pthread_mutex_destroy(&t.lock);
}

static kvf_visitor visitor(unsigned i) {
    return (kvf_visitor){.epoch = 7 + i % 2, .tenant = i / 2 % 2, .writes = i / 4 % 2};
}

static void check_audiences(void) {
    kvf_span s = {.base = 4096, .length = 64};
    kvf_gate_init(&s.gate);
    for (unsigned i = 0; i < 8 * 8 * 2 * 3; i++)
        check_audience(&s, i % 3, (kvf_audience){i / 3 % 2, visitor(i / 6 % 8)}, visitor(i / 48));
}

int main(void) {
    check_audiences();
    check_tables();
    check_find();
    check_extremes();
    return 0;
}

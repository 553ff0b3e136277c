/* Which nodes have a key: every verb against a plain array, at limits, and with digests that meet. */
#include "parallel.h"
#include "places.h"

#define KEYS 400u
#define NODES 7u
#define STEPS 80000u

static bool model[KEYS][NODES + 1];
static uint8_t wanted[KEYS];

static kvf_digest key_of(uint64_t k) { return (kvf_digest){{k * 0x9E3779B97F4A7C15ull, k % 3}}; }

static unsigned count_of(unsigned k) {
    unsigned n = 0;
    for (unsigned i = 1; i <= NODES; i++) n += model[k][i];
    return n;
}

static void check_all(kvf_places *p) {
    uint64_t held[NODES + 1] = {0}, lacking = 0, there = 0;
    for (unsigned k = 0; k < KEYS; k++) {
        kvf_digest d = key_of(k);
        uint16_t place[KVF_PLACES];
        unsigned n = 0, count = count_of(k);
        kvf_places_find_all(p, &d, 1, place);
        for (unsigned i = 0; i < KVF_PLACES; i++) {
            CHECK(!place[i] || model[k][place[i]]);
            n += place[i] != 0;
        }
        for (unsigned i = 1; i <= NODES; i++) held[i] += model[k][i];
        CHECK(n == count);
        there += count != 0;
        lacking += count && count < wanted[k];
    }
    for (unsigned i = 1; i <= NODES; i++) CHECK(p->held[i] == held[i]);
    CHECK(kvf_places_lacking(p) == lacking && p->rows - kvf_places_idle(p) == there);
}

static void check_scan(kvf_places *p, bool lacking) {
    uint64_t seen = 0, wanted_ones = 0;
    for (unsigned shard = 0; shard < KVF_SHARDS; shard++) {
        kvf_placed told[3];
        uint64_t start = 0;
        for (size_t n; (n = kvf_shard_tell(p, shard, lacking, &start, 3, told)); seen += n)
            for (size_t i = 0; i < n; i++) CHECK(told[i].wanted >= 1 && told[i].wanted <= KVF_PLACES);
    }
    for (unsigned k = 0; k < KEYS; k++)
        wanted_ones += lacking ? count_of(k) && count_of(k) < wanted[k] : count_of(k) != 0;
    CHECK(seen == wanted_ones);
}

static void forget(kvf_places *p, uint16_t node) {
    uint64_t n = 0, had = p->held[node];
    for (unsigned shard = 0; shard < KVF_SHARDS; shard++) n += kvf_shard_forget(p, shard, node);
    CHECK(n == had && p->held[node] == 0);
    for (unsigned k = 0; k < KEYS; k++) model[k][node] = false;
}

static void check_verbs(void) {
    uint64_t state = 5;
    kvf_places p;
    CHECK(kvf_places_make(&p, 1 << 20, (kvf_secret){11, 12}));
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned k = (unsigned)random_below(&state, KEYS);
        uint16_t node = (uint16_t)(1 + random_below(&state, NODES));
        kvf_digest d = key_of(k);
        uint8_t copies = (uint8_t)(1 + random_below(&state, 6)), code;
        unsigned n = count_of(k);
        if (random_below(&state, 5) < 2) {
            copies = 0;
            kvf_places_tell_all(&p, node, &d, &copies, 1, &code);
            CHECK(code == (model[k][node] ? KVF_PLACE_DROPPED : KVF_PLACE_UNKNOWN));
            model[k][node] = false;
        } else {
            kvf_places_tell_all(&p, node, &d, &copies, 1, &code);
            copies = copies > KVF_PLACES ? KVF_PLACES : copies;
            CHECK(code == (model[k][node] ? KVF_PLACE_KNOWN : n == KVF_PLACES ? KVF_PLACE_CROWDED : KVF_PLACE_ADDED));
            if (code == KVF_PLACE_ADDED) model[k][node] = true;
            wanted[k] = n == 0 || copies > wanted[k] ? copies : wanted[k];
        }
        if (step % 20011 == 0) forget(&p, node);
        if (step % 4001 == 0) check_all(&p), check_scan(&p, false), check_scan(&p, true);
    }
    kvf_places_free(&p);
}

/* Never more rows than are allowed, and those of keys that are gone make way. */
static void check_limit(void) {
    enum { LIMIT = 30000, ASKED = 40000 };
    kvf_places p;
    uint64_t added = 0;
    CHECK(kvf_places_make(&p, LIMIT, (kvf_secret){3, 4}));
    for (uint64_t k = 0; k < ASKED; k++) added += kvf_place_add(&p, 1, key_of(k), 1) == KVF_PLACE_ADDED;
    CHECK(added == LIMIT && p.rows == LIMIT && p.held[1] == LIMIT);
    for (uint64_t k = 0; k < ASKED; k++) kvf_place_drop(&p, 1, key_of(k));
    CHECK(p.rows == LIMIT && kvf_places_idle(&p) == LIMIT && p.held[1] == 0);
    added = 0;
    for (uint64_t k = 0; k < ASKED; k++) added += kvf_place_add(&p, 2, key_of(k + ASKED), 1) == KVF_PLACE_ADDED;
    CHECK(added > LIMIT * 9 / 10 && p.rows <= LIMIT && p.held[2] == added);
    kvf_places_free(&p);
}

/* Rows that are dropped and added again and again do not make the table grow. */
static void check_churn(void) {
    kvf_places p;
    CHECK(kvf_places_make(&p, 1 << 20, (kvf_secret){5, 6}));
    for (uint64_t k = 0; k < 300000; k++) {
        CHECK(kvf_place_add(&p, 1, key_of(k), 1) == KVF_PLACE_ADDED);
        if (k >= 1000) CHECK(kvf_place_drop(&p, 1, key_of(k - 1000)));
    }
    CHECK(p.held[1] == 1000 && kvf_places_bytes(&p) < sizeof p + 64 * 256 * 25);
    kvf_places_free(&p);
}

int main(void) {
    check_verbs();
    check_limit();
    check_churn();
    return 0;
}

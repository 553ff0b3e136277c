/* Leases in shared memory: what one asks for and gets; and users that lease while a node lets leave
 * whatever it finds not to be leased, and one of them writes what it likes. */
#include "leases.h"
#include "parallel.h"
#include "table.h"

#define KEYS 4u
#define LEASERS 4u
#define LEAVES 30000u
#define ENOUGH 3000u /* leases before the node stops */
#define LONGEST 400000u /* ns; and as long as leases are taken for: */
#define SPAN 3000u

typedef struct storm {
    table table;
    kvf_leases leases;
    uint64_t state, generation;
    _Atomic uint32_t over, got, asked;
} storm;

static void storm_make(storm *s) {
    table_make(&s->table, KEYS, 1, 64);
    uint64_t slots = kvf_index_slots(&s->table.index);
    CHECK(!kvf_leases_at(&s->leases, 4, 8 * slots));
    CHECK(kvf_leases_at(&s->leases, (uintptr_t)zeroed(8 * slots), 8 * slots) && s->leases.n == slots);
}

static void storm_free(storm *s) {
    free(s->leases.words);
    table_free(&s->table);
}

static int64_t store(storm *s, uint64_t key, uint64_t expires) {
    kvf_object o = {.generation = ++s->generation, .digest = key_digest(key)};
    return kvf_index_insert(&s->table.index, &o, expires);
}

static kvf_read_code lease(storm *s, const kvf_index_reader *r, uint64_t key, uint64_t until) {
    kvf_digest d = key_digest(key);
    uint8_t code;
    kvf_lease_all(r, &s->leases, &d, 1, kvf_since_boot(), until, &code);
    return (kvf_read_code)code;
}

static bool held(storm *s, int64_t slot, uint64_t now) {
    uint8_t answer;
    kvf_leases_held(&s->leases, &slot, 1, now, LONGEST, &answer);
    return answer;
}

static void check_answers(void) {
    storm s = {0};
    storm_make(&s);
    kvf_index_reader r = table_reader(&s.table, 0, NULL);
    uint64_t now = kvf_since_boot(), until = now + 1000;
    int64_t slot = store(&s, 1, 0), mortal = store(&s, 2, now);
    CHECK(store(&s, 3, now + 60000000000ull) >= 0);
    CHECK(lease(&s, &r, 0, until) == KVF_ABSENT);
    CHECK(lease(&s, &r, 1, until) == KVF_HIT && lease(&s, &r, 1, until - 500) == KVF_HIT);
    CHECK(held(&s, slot, until - 1) && !held(&s, slot, until));
    CHECK(lease(&s, &r, 2, until) == KVF_CHANGING && !held(&s, mortal, now));
    CHECK(lease(&s, &r, 3, until) == KVF_HIT);
    kvf_sweep_begin(&s.table.index);
    CHECK(lease(&s, &r, 1, until + 1) == KVF_CHANGING);
    kvf_sweep_end(&s.table.index);
    CHECK(held(&s, slot, until)); /* although it was not told so */
    kvf_leases_clear(&s.leases, &slot, 1);
    CHECK(!held(&s, slot, now));
    uint64_t n = s.leases.n;
    s.leases.n = (uint64_t)slot;
    CHECK(lease(&s, &r, 1, until) == KVF_CHANGING);
    s.leases.n = n;
    r.index.epoch++;
    CHECK(lease(&s, &r, 1, until) == KVF_FOREIGN);
    storm_free(&s);
}

static void check_bounds(void) {
    storm s = {0};
    storm_make(&s);
    for (uint64_t word = UINT64_MAX; word > 1ull << 60; word -= 1ull << 59) {
        atomic_store(&s.leases.words[5], word);
        uint64_t before = kvf_since_boot();
        CHECK(held(&s, 5, before));
        uint64_t last = atomic_load(&s.leases.words[5]);
        CHECK(before + LONGEST <= last && last <= kvf_since_boot() + LONGEST);
        CHECK(held(&s, 5, last - 1) && !held(&s, 5, last));
    }
    storm_free(&s);
}

/* It leaves, and comes again, unless it is leased. */
static bool leaves(storm *s, uint64_t key) {
    kvf_index *x = &s->table.index;
    kvf_stay stay;
    CHECK(kvf_index_probe(x, key_digest(key), &stay));
    int64_t slot = (int64_t)stay.slot;
    kvf_sweep_begin(x);
    bool stays = held(s, slot, kvf_since_boot());
    if (!stays) {
        kvf_leases_clear(&s->leases, &slot, 1);
        CHECK(kvf_index_mark(x, slot, kvf_generation(stay.tag)));
    }
    kvf_sweep_end(x);
    if (stays) return false;
    CHECK(kvf_index_remove(x, slot, kvf_generation(stay.tag)));
    CHECK(store(s, key, 0) >= 0);
    return true;
}

static void node(void *storm_) {
    storm *s = storm_;
    for (uint32_t left = 0; left < LEAVES || atomic_load(&s->got) < ENOUGH;)
        left += leaves(s, random_below(&s->state, KEYS));
    atomic_store(&s->over, 1);
}

/* What it saw before the lease had ended was there. */
static void watch(const kvf_index_reader *r, kvf_digest d, uint64_t until) {
    kvf_stay first = {0};
    bool there = kvf_index_probe(&r->index, d, &first);
    while (kvf_since_boot() < until) {
        CHECK(there);
        there = kvf_index_recheck(&r->index, &first);
    }
}

static void leaser(void *storm_, unsigned index) {
    storm *s = storm_;
    kvf_index_reader r = table_reader(&s->table, 0, NULL);
    uint64_t state = index + 7;
    while (!atomic_load(&s->over)) {
        uint64_t key = random_below(&state, KEYS);
        uint64_t until = kvf_since_boot() + random_below(&state, SPAN);
        if (index == 0) atomic_store(&s->leases.words[random_below(&state, s->leases.n)], until << 20);
        kvf_read_code code = lease(s, &r, key, until);
        if (code == KVF_HIT) {
            atomic_fetch_add(&s->got, 1);
            watch(&r, key_digest(key), until);
        } else {
            CHECK(code == KVF_CHANGING || code == KVF_ABSENT);
            atomic_fetch_add(&s->asked, 1);
        }
    }
}

static void check_storm(void) {
    storm s = {.state = 1};
    storm_make(&s);
    for (uint64_t key = 0; key < KEYS; key++) CHECK(store(&s, key, 0) >= 0);
    in_parallel(LEASERS, leaser, &s, node);
    storm_free(&s);
}

int main(void) {
    check_answers();
    check_bounds();
    check_storm();
    return 0;
}

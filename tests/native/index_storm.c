/* Many readers, and an evictor that fills a tiny pool again and again: no reader ever gets bytes of
 * another stay, and what is held is not written over. */
#include "parallel.h"
#include "table.h"

#define KEYS 12u
#define EXTENTS 5u
#define ROOM 1024u
#define READERS 4u
#define HOLDERS 2u
#define STORES 1500u
#define ENOUGH 100u /* hits, and views, before the evictor stops */

typedef struct storm {
    table table;
    uint64_t state;
    kvf_object in[EXTENTS]; /* what is in each extent; generation 0: nothing */
    bool deferred[EXTENTS]; /* marked, and held when last looked at */
    uint64_t generation;
    _Atomic uint32_t over, hits, holds;
} storm;

static uint64_t length_of(uint64_t generation) { return OBJECT_HEAD + generation * 37 % (ROOM - OBJECT_HEAD); }

static bool held(storm *s, uint64_t generation) {
    uint8_t answer = 0;
    for (unsigned u = 0; u < USERS; u++) kvf_scan_hazards(&s->table.lines[u], &generation, 1, &answer);
    return answer;
}

/* True once the extent is free: garbage from then on. */
static bool vacate(storm *s, unsigned extent) {
    kvf_object *o = &s->in[extent];
    if (!o->generation) return true;
    if (!s->deferred[extent]) CHECK(kvf_index_mark(&s->table.index, o->slot, o->generation));
    s->deferred[extent] = held(s, o->generation);
    if (s->deferred[extent]) return false;
    CHECK(kvf_index_remove(&s->table.index, o->slot, o->generation));
    memset(s->table.pool + extent * ROOM, 0xA5, ROOM);
    o->generation = 0;
    return true;
}

static void store(storm *s, unsigned extent) {
    uint64_t key = random_below(&s->state, KEYS);
    kvf_object o = {.generation = s->generation + 1, .digest = key_digest(key), .offset = extent * ROOM,
                    .length = length_of(s->generation + 1), .room = ROOM};
    object_fill(s->table.pool + o.offset, key, o.generation, o.length);
    int64_t slot = kvf_index_insert(&s->table.index, &o, 0);
    if (slot == KVF_PRESENT) return;
    CHECK(slot >= 0);
    s->generation++;
    o.slot = (uint32_t)slot;
    s->in[extent] = o;
}

static void evict(void *storm_) {
    storm *s = storm_;
    while (s->generation < STORES || atomic_load(&s->hits) < ENOUGH || atomic_load(&s->holds) < ENOUGH) {
        unsigned extent = (unsigned)random_below(&s->state, EXTENTS);
        if (vacate(s, extent)) store(s, extent);
        else sched_yield();
    }
    atomic_store(&s->over, 1);
}

static void check_object(const unsigned char *at, uint64_t key, uint64_t length, uint64_t *last) {
    uint64_t generation = object_check(at, key, length);
    CHECK(length == length_of(generation));
    CHECK(generation >= last[key]); /* what left does not come back */
    last[key] = generation;
}

static void read_batches(storm *s, kvf_index_reader *r, unsigned index) {
    unsigned char out[KEYS][ROOM];
    kvf_digest d[KEYS];
    uint64_t to[KEYS], rooms[KEYS], lengths[KEYS], last[KEYS] = {0};
    uint8_t codes[KEYS];
    for (uint64_t k = 0; k < KEYS; k++) {
        d[k] = key_digest(k), to[k] = (uint64_t)out[k];
        rooms[k] = index % 2 ? ROOM : ROOM / 2;
    }
    while (!atomic_load(&s->over)) {
        kvf_read_all(r, d, to, rooms, KEYS, codes, lengths);
        for (uint64_t k = 0; k < KEYS; k++) {
            CHECK(codes[k] <= KVF_CHANGING);
            if (codes[k] != KVF_HIT) continue;
            check_object(out[k], k, lengths[k], last);
            atomic_fetch_add(&s->hits, 1);
        }
    }
}

static void hold_views(storm *s, kvf_index_reader *r, unsigned index) {
    uint64_t state = index, line = 0, last[KEYS] = {0};
    kvf_stay stay;
    while (!atomic_load(&s->over)) {
        uint64_t key = random_below(&state, KEYS);
        if (kvf_hold_one(r, key_digest(key), &stay, &line) != KVF_HIT) continue;
        for (int look = 0; look < 3; look++) {
            check_object(s->table.pool + stay.offset, key, stay.length, last);
            CHECK(last[key] == kvf_generation(stay.tag));
            sched_yield();
        }
        CHECK(kvf_let_go(r->lines, line, kvf_generation(stay.tag)));
        atomic_fetch_add(&s->holds, 1);
    }
}

static void body(void *storm_, unsigned index) {
    storm *s = storm_;
    kvf_index_reader r = table_reader(&s->table, index % USERS, NULL);
    if (index < READERS) read_batches(s, &r, index);
    else hold_views(s, &r, index);
}

static void check_storm(void) {
    storm s = {.state = 1};
    table_make(&s.table, KEYS, READERS + HOLDERS, EXTENTS * ROOM);
    in_parallel(READERS + HOLDERS, body, &s, evict);
    for (unsigned u = 0; u < USERS; u++) {
        kvf_claimed_line claimed[READERS + HOLDERS];
        CHECK(kvf_claimed(&s.table.lines[u], claimed) == 0);
    }
    table_free(&s.table);
}

/* ---- one reader stands still between its recheck and its copy ---- */

typedef struct standstill {
    storm storm;
    kvf_hold hold;
    uint64_t generation; /* what it reads */
} standstill;

static void read_slowly(void *standstill_, unsigned index) {
    standstill *s = standstill_;
    kvf_index_reader r = table_reader(&s->storm.table, index % USERS, &s->hold);
    unsigned char out[ROOM];
    kvf_digest d = key_digest(0);
    uint64_t to = (uint64_t)out, room = ROOM, length;
    uint8_t code;
    kvf_read_all(&r, &d, &to, &room, 1, &code, &length);
    CHECK(code == KVF_HIT && object_check(out, 0, length) == s->generation);
}

static void refill_meanwhile(void *standstill_) {
    standstill *s = standstill_;
    while (!atomic_load(&s->hold.inside)) sched_yield();
    CHECK(held(&s->storm, s->generation));
    for (unsigned round = 0; round < 50 * EXTENTS; round++) {
        unsigned extent = round % EXTENTS;
        CHECK(vacate(&s->storm, extent) == (extent != 0));
        if (extent) store(&s->storm, extent);
    }
    atomic_store(&s->hold.held, 0);
    kvf_wake_all(&s->hold.held);
}

static void check_standstill(void) {
    standstill s = {.storm.state = 2, .generation = 1};
    table_make(&s.storm.table, KEYS, 2, EXTENTS * ROOM);
    kvf_object o = {.generation = 1, .digest = key_digest(0), .length = ROOM};
    object_fill(s.storm.table.pool, 0, 1, ROOM);
    o.slot = (uint32_t)kvf_index_insert(&s.storm.table.index, &o, 0);
    s.storm.in[0] = o, s.storm.generation = 1;
    atomic_init(&s.hold.held, 1);
    in_parallel(1, read_slowly, &s, refill_meanwhile);
    CHECK(!held(&s.storm, 1) && vacate(&s.storm, 0));
    table_free(&s.storm.table);
}

int main(void) {
    check_standstill();
    check_storm();
    return 0;
}

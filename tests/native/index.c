/* The store's table, one thread: verbs, reads, lines, and an index that holds anything at all. */
#include "parallel.h"
#include "table.h"

#define KEYS 60u
#define ROOM 256u

static kvf_read_code read_key(kvf_index_reader *r, uint64_t key, void *to, uint64_t room, uint64_t *length) {
    kvf_digest d = key_digest(key);
    uint64_t address = (uint64_t)to;
    uint8_t code;
    kvf_read_all(r, &d, &address, &room, 1, &code, length);
    return code;
}

static int64_t put(table *t, uint64_t key, uint64_t generation, uint64_t offset, uint64_t length) {
    kvf_object o = {.generation = generation, .digest = key_digest(key), .offset = offset,
                    .length = length, .room = ROOM, .attrs = key};
    return kvf_index_insert(&t->index, &o, 0);
}

static void check_verbs(void) {
    table t;
    unsigned char out[ROOM];
    uint64_t length;
    table_make(&t, 8 * KEYS, 4, KEYS * ROOM);
    kvf_index_reader r = table_reader(&t, 0, NULL);
    for (uint64_t k = 0; k < KEYS; k++) {
        object_fill(t.pool + k * ROOM, k, k + 1, ROOM - k);
        CHECK(read_key(&r, k, out, ROOM, &length) == KVF_ABSENT && length == 0);
        int64_t slot = put(&t, k, k + 1, k * ROOM, ROOM - k);
        CHECK(slot >= 0 && kvf_index_find(&t.index, key_digest(k)) == slot);
        CHECK(put(&t, k, 1000 + k, 0, 0) == KVF_PRESENT);
        CHECK(read_key(&r, k, out, ROOM, &length) == KVF_HIT && length == ROOM - k);
        CHECK(object_check(out, k, length) == k + 1);
    }
    for (uint64_t k = 0; k < KEYS; k++) {
        int64_t slot = kvf_index_find(&t.index, key_digest(k));
        CHECK(!kvf_index_remove(&t.index, slot, k + 1)); /* not before it is marked */
        CHECK(!kvf_index_mark(&t.index, slot, k + 2) && !kvf_index_mark(&t.index, slot + 99999, k + 1));
        CHECK(kvf_index_mark(&t.index, slot, k + 1) && !kvf_index_mark(&t.index, slot, k + 1));
        CHECK(read_key(&r, k, out, ROOM, &length) == KVF_ABSENT);
        CHECK(put(&t, k, 500 + k, k * ROOM, 16) >= 0); /* beside the marked one */
        CHECK(!kvf_index_remove(&t.index, slot, k) && kvf_index_remove(&t.index, slot, k + 1));
        CHECK(kvf_index_object(&t.index, kvf_index_find(&t.index, key_digest(k))).generation == 500 + k);
    }
    CHECK(t.index.occupied == KEYS);
    kvf_index_retire(&t.index);
    CHECK(read_key(&r, 1, out, ROOM, &length) == KVF_FOREIGN);
    table_free(&t);
}

/* What is not in memory and lies on a disk is told as that, and counts as no miss. */
static void check_beside(void) {
    table t, disk;
    unsigned char out[ROOM];
    uint64_t length;
    uint8_t codes[2];
    table_make(&t, 64, 4, ROOM);
    table_make(&disk, 64, 4, ROOM);
    kvf_index_reader r = table_reader(&t, 0, NULL);
    r.beside = table_reader(&disk, 0, NULL).index;
    CHECK(put(&disk, 1, 7, 0, 0) >= 0);
    CHECK(read_key(&r, 1, out, ROOM, &length) == KVF_BESIDE && length == 0);
    CHECK(read_key(&r, 2, out, ROOM, &length) == KVF_ABSENT);
    CHECK(atomic_load(&t.lines[0].memory->counters[KVF_ABSENTS]) == 1);
    kvf_digest both[] = {key_digest(1), key_digest(2)};
    kvf_exists_all(&r, both, 2, codes);
    CHECK(codes[0] == KVF_HIT && codes[1] == KVF_ABSENT);
    CHECK(put(&t, 1, 9, 0, 0) >= 0 && read_key(&r, 1, out, ROOM, &length) == KVF_HIT);
    kvf_index_retire(&disk.index);
    CHECK(read_key(&r, 3, out, ROOM, &length) == KVF_ABSENT);
    table_free(&disk);
    table_free(&t);
}

/* What has no room, or is as long as the copies that pass the cache by. */
static void check_sizes(void) {
    static const uint64_t lengths[] = {0, 1, 63, 4096, KVF_NT_RUN - 1, KVF_NT_RUN, KVF_NT_RUN + 77};
    table t;
    table_make(&t, 64, 1, 2 * KVF_NT_RUN);
    kvf_index_reader r = table_reader(&t, 1, NULL);
    uint64_t state = 9, told;
    random_bytes(&state, t.pool, t.pool_length);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint64_t n = lengths[i];
        CHECK(put(&t, i, i + 1, t.pool_length - n, n) >= 0); /* up to the pool's last byte */
        unsigned char *exact = malloc(n ? n : 1);
        exact[0] = 0xEE;
        if (n) CHECK(read_key(&r, i, exact, n - 1, &told) == KVF_TOO_SMALL && told == n);
        CHECK(exact[0] == 0xEE);
        CHECK(read_key(&r, i, exact, n, &told) == KVF_HIT && told == n);
        CHECK(memcmp(exact, t.pool + t.pool_length - n, n) == 0);
        free(exact);
    }
    table_free(&t);
}

static void check_lines(void) {
    table t;
    unsigned char out[ROOM];
    uint64_t line[3], length;
    kvf_stay stay;
    table_make(&t, 64, 2, ROOM);
    kvf_index_reader r = table_reader(&t, 0, NULL);
    CHECK(put(&t, 1, 10, 0, ROOM) >= 0);
    CHECK(kvf_hold_one(&r, key_digest(2), &stay, &line[0]) == KVF_ABSENT);
    for (int round = 0; round < 5; round++) {
        uint64_t asked[] = {9, 10, 10, 11};
        uint8_t held[4] = {0};
        for (int i = 0; i < 2; i++) CHECK(kvf_hold_one(&r, key_digest(1), &stay, &line[i]) == KVF_HIT);
        CHECK(kvf_hold_one(&r, key_digest(1), &stay, &line[2]) == KVF_NO_LINE);
        CHECK(read_key(&r, 1, out, ROOM, &length) == KVF_NO_LINE);
        kvf_scan_hazards(&t.lines[0], asked, 4, held);
        CHECK(!held[0] && held[1] && held[2] && !held[3]);
        CHECK(!kvf_let_go(&t.lines[0], line[0], 11) && !kvf_let_go(&t.lines[0], 2, 10));
        CHECK(kvf_let_go(&t.lines[0], line[round % 2], 10) && !kvf_let_go(&t.lines[0], line[round % 2], 10));
        CHECK(read_key(&r, 1, out, ROOM, &length) == KVF_HIT);
        CHECK(kvf_let_go(&t.lines[0], line[!(round % 2)], 10));
        memset(held, 0, sizeof held);
        kvf_scan_hazards(&t.lines[0], asked, 4, held);
        CHECK(!held[1]);
    }
    table_free(&t);
}

/* Any bytes at all in the index, found ones made likely: no byte outside pool and room is touched. */
static void check_corrupt(void) {
    enum { ROUNDS = 300 };
    uint64_t state = 4, seen[KVF_CORRUPT + 1] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        table t;
        unsigned char out[ROOM];
        uint64_t length, key = random_next(&state);
        table_make(&t, 1, 1, ROOM);
        random_bytes(&state, t.pool, ROOM);
        kvf_index_reader r = table_reader(&t, 0, NULL);
        kvf_digest d = key_digest(key);
        for (uint64_t s = 0; s < kvf_index_slots(&t.index); s++) {
            random_bytes(&state, (unsigned char *)&t.index.entries[s], sizeof(kvf_index_entry));
            atomic_store(&t.index.prints[s / KVF_BUCKET][s % KVF_BUCKET], kvf_print(d));
            kvf_store(&t.index.entries[s].digest[0], d.half[0]);
            kvf_store(&t.index.entries[s].digest[1], d.half[1]);
            if (round % 3) kvf_store(&t.index.entries[s].offset, random_below(&state, 2 * ROOM));
            if (round % 3) kvf_store(&t.index.entries[s].length, random_below(&state, 2 * ROOM));
        }
        kvf_read_code code = read_key(&r, key, out, ROOM / 2, &length);
        seen[code]++;
        CHECK(code != KVF_HIT || length <= ROOM / 2);
        if (round % 50 == 0) {
            random_bytes(&state, t.memory[USERS], KVF_INDEX_PAGE);
            CHECK(read_key(&r, key, out, ROOM, &length) == KVF_FOREIGN);
        }
        table_free(&t);
    }
    CHECK(seen[KVF_HIT] && seen[KVF_TOO_SMALL] && seen[KVF_CORRUPT]);
}

int main(void) {
    check_verbs();
    check_sizes();
    check_beside();
    check_lines();
    check_corrupt();
    return 0;
}

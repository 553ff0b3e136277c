/* Where objects lie, with a cargo: columns that a node makes are sound and unload to the bytes that were
 * stored; columns of any kind touch nothing outside. One thread. */
#include "locate.h"
#include "parallel.h"
#include "table.h"

#define KEYS 120u
#define POOL (4u << 20)
#define SPOILED 0xEE

static const uint64_t sizes[] = {0,    16,        100,           KVF_BRIEF - 1,
                                 4096, KVF_BRIEF, KVF_BRIEF + 1, 40000};
static uint64_t length_of(uint64_t key) { return sizes[key % (sizeof sizes / sizeof *sizes)]; }

typedef struct answer {
    uint8_t answers[KEYS];
    uint64_t offsets[KEYS], lengths[KEYS], generations[KEYS];
    int64_t used[KEYS], left[KEYS];
    kvf_sites sites;
    kvf_finds finds;
    char *cargo;
    uint64_t bytes;
} answer;

/* Every third key is not there; of the others every seventh has expired. */
static bool stored(uint64_t key) { return key % 3 != 0; }
static bool lives(uint64_t key) { return stored(key) && key % 7 != 0; }

static void fill(table *t, uint64_t *moments) {
    uint64_t offset = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        if (!stored(key)) continue;
        kvf_object o = {.generation = key + 1, .digest = key_digest(key), .offset = offset,
                        .length = length_of(key), .room = length_of(key)};
        if (o.length) object_fill(t->pool + offset, key, key + 1, o.length);
        int64_t slot = kvf_index_insert(&t->index, &o, 0);
        CHECK(slot >= 0);
        moments[slot] = key % 7 == 0 ? 50 : key % 2 ? 0 : 51;
        offset += o.length;
    }
    CHECK(offset <= t->pool_length);
}

static void ask(table *t, const uint64_t *moments, answer *a) {
    kvf_digest d[KEYS];
    for (uint64_t key = 0; key < KEYS; key++) d[key] = key_digest(key);
    a->sites = (kvf_sites){a->answers, a->offsets, a->lengths, KEYS};
    a->finds = (kvf_finds){.used = a->used, .left = a->left, .generations = a->generations};
    a->bytes = kvf_locate_all(&t->index, d, moments, 50, &a->sites, &a->finds);
    a->cargo = malloc(a->bytes + 1);
    CHECK(a->cargo && a->bytes <= KVF_CARGO);
    kvf_load_cargo(&a->sites, (const char *)t->pool, a->cargo);
}

static void check_arrives(table *t, answer *a) {
    static unsigned char space[KEYS][40000];
    char *to[KEYS];
    uint64_t rooms[KEYS];
    int64_t left[KEYS];
    memset(space, SPOILED, sizeof space);
    for (uint64_t key = 0; key < KEYS; key++) {
        bool wanted = key % 5 != 0, small = key % 11 == 0 && length_of(key);
        to[key] = wanted ? (char *)space[key] : NULL;
        rooms[key] = length_of(key) - small;
    }
    CHECK(kvf_sites_sound(&a->sites, POOL, a->bytes) && !kvf_sites_sound(&a->sites, POOL, a->bytes + 1));
    size_t n = kvf_unload_cargo(&a->sites, a->cargo, to, rooms, left), at = 0, left_n = 0;
    CHECK(n <= a->finds.left_n && a->finds.left_n < a->finds.used_n);
    for (uint64_t key = 0; key < KEYS; key++) {
        bool goes = key % 5 != 0 && !(key % 11 == 0 && length_of(key));
        CHECK(a->answers[key] == (!lives(key) ? KVF_SAY_ABSENT : goes ? KVF_SAY_FOUND : KVF_SAY_TOO_SMALL));
        bool came = a->answers[key] == KVF_SAY_FOUND && !(at < n && left[at] == (int64_t)key);
        if (a->answers[key] == KVF_SAY_FOUND && !came) at++, left_n++;
        uint64_t end = came ? length_of(key) : 0;
        if (end) CHECK(object_check(space[key], key, end) == key + 1);
        for (uint64_t i = end; i < sizeof space[key]; i++) CHECK(space[key][i] == SPOILED);
        if (!came && a->answers[key] == KVF_SAY_FOUND && length_of(key) > KVF_BRIEF)
            CHECK(object_check(t->pool + a->offsets[key], key, length_of(key)) == key + 1);
    }
    CHECK(left_n == n);
}

/* What passes for sound is unloaded within cargo and room; the sanitizers watch. */
static void check_hostile(answer *a) {
    static const uint64_t odd[] = {0, 1, KVF_BRIEF, KVF_BRIEF + 1, KVF_CARGO, POOL, 1ull << 63, ~0ull};
    uint64_t seed = 5, passed = 0;
    char room[64];
    char *to[KEYS];
    uint64_t rooms[KEYS];
    int64_t left[KEYS];
    for (size_t i = 0; i < KEYS; i++) to[i] = room, rooms[i] = sizeof room;
    for (int round = 0; round < 20000; round++) {
        kvf_sites s = {a->answers, a->offsets, a->lengths, random_next(&seed) % 4};
        for (size_t i = 0; i < s.n; i++) {
            s.answers[i] = random_next(&seed) % 8 ? KVF_SAY_FOUND : (uint8_t)random_next(&seed);
            s.offsets[i] = odd[random_next(&seed) % 3 ? 0 : random_next(&seed) % 8];
            s.lengths[i] = odd[random_next(&seed) % 8];
        }
        uint64_t bytes = random_next(&seed) % 2 ? 1 : random_next(&seed) % a->bytes;
        if (!kvf_sites_sound(&s, POOL, bytes)) continue;
        char *cargo = malloc(bytes + 1);
        CHECK(cargo);
        memset(cargo, 7, bytes + 1);
        CHECK(kvf_unload_cargo(&s, cargo, to, rooms, left) <= s.n);
        free(cargo);
        passed++;
    }
    CHECK(passed);
}

int main(void) {
    table t;
    table_make(&t, 4 * KEYS, 1, POOL);
    uint64_t *moments = calloc(kvf_index_slots(&t.index), sizeof *moments);
    static answer a;
    CHECK(moments);
    fill(&t, moments);
    ask(&t, moments, &a);
    check_arrives(&t, &a);
    check_hostile(&a);
    free(a.cargo);
    free(moments);
    table_free(&t);
    return 0;
}

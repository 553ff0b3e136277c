/* table.h: an index, a pool and the lines of some users in plain memory, as a node and its users have
 * them, and objects whose bytes tell what they are. */
#ifndef KVF_TEST_TABLE_H
#define KVF_TEST_TABLE_H

#include <string.h>

#include "check.h"
#include "reader.h"
#include "verbs.h"

#define EPOCH 77u
#define USERS 2u

typedef struct table {
    kvf_index index;
    kvf_lines lines[USERS];
    unsigned char *pool;
    uint64_t pool_length;
    void *memory[USERS + 1];
} table;

static inline void *zeroed(uint64_t bytes) {
    uint64_t rounded = (bytes + 63) / 64 * 64;
    void *memory = aligned_alloc(64, rounded);
    CHECK(memory);
    return memset(memory, 0, rounded);
}

static inline void table_make(table *t, uint64_t capacity, uint64_t lines, uint64_t pool_length) {
    memset(t, 0, sizeof *t);
    uint64_t bytes = kvf_index_bytes(capacity);
    t->memory[USERS] = zeroed(bytes);
    CHECK(kvf_index_at(&t->index, (uintptr_t)t->memory[USERS], bytes, EPOCH));
    CHECK(kvf_index_slots(&t->index) >= capacity);
    kvf_index_format(&t->index);
    for (unsigned u = 0; u < USERS; u++) {
        t->memory[u] = zeroed(kvf_lines_bytes(lines));
        CHECK(kvf_lines_at(&t->lines[u], (uintptr_t)t->memory[u], kvf_lines_bytes(lines)));
        CHECK(t->lines[u].n == lines);
    }
    t->pool = malloc(pool_length);
    t->pool_length = pool_length;
    CHECK(t->pool);
}

static inline void table_free(table *t) {
    for (unsigned i = 0; i <= USERS; i++) free(t->memory[i]);
    free(t->pool);
}

static inline kvf_index_reader table_reader(table *t, unsigned user, kvf_hold *hold) {
    kvf_index_reader r = {.lines = &t->lines[user], .pool = (const char *)t->pool,
                          .pool_length = t->pool_length, .nt = kvf_best_nt(), .hold = hold};
    uint64_t bytes = kvf_index_bytes(kvf_index_slots(&t->index));
    CHECK(kvf_index_at(&r.index, (uintptr_t)t->memory[USERS], bytes, EPOCH));
    return r;
}

static inline kvf_digest key_digest(uint64_t key) {
    return kvf_hash((kvf_secret){3, 5}, (kvf_key){&key, sizeof key});
}

/* An object begins with its key and its generation; they make the rest of its bytes. */
#define OBJECT_HEAD 16u

static inline void object_fill(unsigned char *at, uint64_t key, uint64_t generation, uint64_t length) {
    memcpy(at, &key, 8);
    memcpy(at + 8, &generation, 8);
    for (uint64_t i = OBJECT_HEAD; i < length; i++) at[i] = (unsigned char)(key * 31 + generation * 7 + i);
}

/* Its generation; every byte is looked at. */
static inline uint64_t object_check(const unsigned char *at, uint64_t key, uint64_t length) {
    uint64_t found, generation;
    memcpy(&found, at, 8);
    memcpy(&generation, at + 8, 8);
    CHECK(found == key);
    for (uint64_t i = OBJECT_HEAD; i < length; i++)
        CHECK(at[i] == (unsigned char)(key * 31 + generation * 7 + i));
    return generation;
}

#endif

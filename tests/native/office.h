/* office.h: a clerk with its ledger and index, and desks before it, in memory that forked children share. */
#ifndef KVF_TEST_OFFICE_H
#define KVF_TEST_OFFICE_H

#include <sys/mman.h>

#include "check.h"
#include "clerk.h"
#include "errand.h"
#include "table.h"

#define DESKS 3u
#define PAPERS 1200u
#define ENTRIES 65536u

typedef struct office {
    kvf_desk *desks[DESKS]; /* of users 1, 2, ... */
    kvf_bell *bell;
    kvf_index index;
    kvf_ledger ledger;
    kvf_clerk clerk;
    void *table;
    unsigned char *shared;
} office;

/* Shared: | bell | desk, up to the end of its pages | a page nobody may touch | desk | ... */
#define PAGE 4096u
#define DESK_PAGES ((sizeof(kvf_desk) + PAGE - 1) / PAGE * PAGE)
#define SHARED_BYTES (PAGE + DESKS * (DESK_PAGES + PAGE))

static inline kvf_desk *office_desk(const office *o, unsigned i) {
    unsigned char *end = o->shared + PAGE + i * (DESK_PAGES + PAGE) + DESK_PAGES;
    CHECK(mprotect(end, PAGE, PROT_NONE) == 0);
    return kvf_desk_at((uintptr_t)(end - sizeof(kvf_desk)), sizeof(kvf_desk));
}

static inline void office_open(office *o, unsigned seats) {
    uint64_t bytes = kvf_index_bytes(ENTRIES);
    o->table = zeroed(bytes);
    CHECK(kvf_index_at(&o->index, (uintptr_t)o->table, bytes, EPOCH));
    kvf_index_format(&o->index);
    CHECK(kvf_ledger_make(&o->ledger, &o->index, ENTRIES / 2));
    o->shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(o->shared != MAP_FAILED);
    o->bell = (kvf_bell *)o->shared;
    kvf_clerk_init(&o->clerk, &o->ledger, o->bell);
    for (unsigned i = 0; i < DESKS; i++) {
        CHECK((o->desks[i] = office_desk(o, i)));
        if (i < seats) CHECK(kvf_clerk_seat(&o->clerk, i + 1, o->desks[i]));
    }
}

static inline void office_close(office *o) {
    kvf_clerk_free(&o->clerk);
    kvf_ledger_free(&o->ledger);
    munmap(o->shared, SHARED_BYTES);
    free(o->table);
}

/* As the catalog does from time to time; else the ledger has no room to tell. Under the lock. */
static inline void office_read(office *o) {
    o->ledger.arrivals_n = o->ledger.returned_n = o->ledger.refused_n = 0;
}

/* What is to be committed, column by column, and what was answered. */
typedef struct papers {
    uint64_t attempts[PAPERS], offsets[PAPERS], rooms[PAPERS], lengths[PAPERS];
    kvf_digest digests[PAPERS];
    uint8_t answers[PAPERS];
} papers;

/* Under the lock. Of keys first, first + 1, ...; the length of each follows from its key. */
static inline void papers_make(papers *p, office *o, unsigned desk, size_t n, uint64_t first) {
    for (size_t i = 0; i < n; i++) {
        p->offsets[i] = 4096 * (first + i), p->rooms[i] = 4096;
        p->lengths[i] = (first + i) % 4096;
        p->digests[i] = key_digest(first + i);
    }
    CHECK(kvf_attempts_open(&o->ledger.attempts, desk + 1, p->offsets, p->rooms, n, p->attempts));
}

static inline kvf_commits papers_columns(const papers *p) {
    return (kvf_commits){.attempts = p->attempts, .digests = p->digests, .lengths = p->lengths};
}

/* Under the lock: is what was written there, in its place? */
static inline void papers_check_stored(const papers *p, const office *o, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CHECK(p->answers[i] == KVF_SAY_STORED);
        int64_t slot = kvf_index_find(&o->index, p->digests[i]);
        CHECK(slot >= 0);
        kvf_object found = kvf_index_object(&o->index, slot);
        CHECK(found.offset == p->offsets[i] && found.length == p->lengths[i]);
    }
}

#endif

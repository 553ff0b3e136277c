/* The ledger, one thread: every path of an attempt, buffers that are full, and random verbs against
 * a plain model of who holds what. */
#include "ledger.h"
#include "parallel.h"
#include "table.h"

#define ROOM 64u

static kvf_ledger make(table *t, uint64_t entries_high) {
    kvf_ledger l;
    table_make(t, 64, 1, 64);
    CHECK(kvf_ledger_make(&l, &t->index, entries_high));
    return l;
}

static void drop(table *t, kvf_ledger *l) {
    kvf_ledger_free(l);
    table_free(t);
}

static uint64_t open_one(kvf_ledger *l, uint64_t user, uint64_t offset) {
    uint64_t room = ROOM, attempt;
    CHECK(kvf_attempts_open(&l->attempts, user, &offset, &room, 1, &attempt));
    return attempt;
}

static uint8_t commit(kvf_ledger *l, uint64_t user, uint64_t attempt, uint64_t key, uint64_t length) {
    kvf_commit c = {attempt, key_digest(key), length, key, key_digest(key / 2), key};
    return kvf_ledger_commit(l, user, &c);
}

static void check_paths(void) {
    table t;
    kvf_ledger l = make(&t, 48);
    uint64_t one = open_one(&l, 1, 0), other = open_one(&l, 1, ROOM), strange = open_one(&l, 2, 2 * ROOM);
    CHECK(commit(&l, 1, strange, 4, 0) == KVF_SAY_UNKNOWN && commit(&l, 1, 0, 4, 0) == KVF_SAY_UNKNOWN);
    CHECK(commit(&l, 1, one, 4, ROOM + 1) == KVF_SAY_TOO_LARGE);
    CHECK(commit(&l, 1, one, 4, ROOM) == KVF_SAY_STORED && commit(&l, 1, one, 5, ROOM) == KVF_SAY_LATE);
    CHECK(commit(&l, 1, other, 4, 0) == KVF_SAY_PRESENT);
    CHECK(commit(&l, 2, strange, 8, 0) == KVF_SAY_STORED);
    CHECK(l.arrivals_n == 2 && l.returned_n == 1 && l.refused_n == 4);
    const kvf_arrival *a = l.told->arrivals;
    CHECK(a[0].slot == a[0].parent && a[1].parent == a[0].slot && a[1].slot != a[0].slot);
    CHECK(a[0].generation == 1 && a[1].generation == 2 && a[1].expires == 8 && a[1].room == ROOM);
    CHECK(l.told->returned[0].offset == ROOM && l.told->returned[0].room == ROOM);
    CHECK(kvf_attempts_count(&l.attempts) == 0 && !kvf_account_of(&l.attempts, 1));
    drop(&t, &l);
}

/* What lies beside is present, and only the node itself brings it in. */
static void check_beside(void) {
    table t, other;
    kvf_ledger l = make(&t, 48), beside = make(&other, 48);
    CHECK(commit(&beside, 1, open_one(&beside, 1, 0), 4, 0) == KVF_SAY_STORED);
    l.beside = &other.index;
    CHECK(commit(&l, 1, open_one(&l, 1, 0), 4, 0) == KVF_SAY_PRESENT && l.returned_n == 1);
    CHECK(commit(&l, 1, open_one(&l, 1, 0), 5, 0) == KVF_SAY_STORED);
    CHECK(commit(&l, KVF_NODE, open_one(&l, KVF_NODE, ROOM), 4, 0) == KVF_SAY_STORED);
    kvf_ledger_free(&beside);
    table_free(&other);
    drop(&t, &l);
}

/* A row whose serials are used up is not used again. */
static void check_serials(void) {
    table t;
    kvf_ledger l = make(&t, 48);
    uint8_t said;
    uint64_t attempt = open_one(&l, 1, 0), offset, room;
    CHECK(kvf_ledger_abort_all(&l, 1, &attempt, 1, &said, &offset, &room) == 1);
    l.attempts.rows[0].serial = KVF_SERIALS - 2;
    attempt = open_one(&l, 1, 0);
    CHECK(attempt == (KVF_SERIALS - 1) << KVF_ROW_BITS);
    CHECK(kvf_ledger_abort_all(&l, 1, &attempt, 1, &said, &offset, &room) == 1 && said == KVF_SAY_ABORTED);
    CHECK(kvf_attempts_left(&l.attempts) == KVF_ROWS - 1);
    CHECK((open_one(&l, 1, 0) & (KVF_ROWS - 1)) == 1);
    CHECK(commit(&l, 1, attempt, 1, 0) == KVF_SAY_LATE);
    drop(&t, &l);
}

static void check_full(void) {
    table t;
    kvf_ledger l = make(&t, 2);
    for (uint64_t k = 0; k < 2; k++) CHECK(commit(&l, 1, open_one(&l, 1, 0), k, 0) == KVF_SAY_STORED);
    uint64_t attempt = open_one(&l, 1, 0);
    CHECK(commit(&l, 1, attempt, 2, 0) == KVF_SAY_INDEX_FULL && commit(&l, 1, attempt, 1, 0) == KVF_SAY_PRESENT);
    while (l.returned_n < KVF_ARRIVALS) CHECK(commit(&l, 1, open_one(&l, 1, 0), 1, 0) == KVF_SAY_PRESENT);
    attempt = open_one(&l, 1, 0);
    for (uint64_t i = 0; i < 3; i++) CHECK(commit(&l, 1, attempt, i, 0) == KVF_SAY_INDEX_FULL);
    for (uint64_t i = 0; i < KVF_ARRIVALS + 3; i++) CHECK(commit(&l, 2, attempt, 9, 0) == KVF_SAY_UNKNOWN);
    CHECK(l.refused_n == KVF_ARRIVALS);
    drop(&t, &l);
}

/* Random verbs of three users, against who holds each extent; an extent is named by its offset. */
static void check_random(void) {
    enum { USERS_N = 3, HELD = 200, STEPS = 20000 };
    table t;
    kvf_ledger l = make(&t, 48);
    uint64_t attempts[HELD], users[HELD] = {0}, state = 7, room = ROOM, out[HELD], rooms[HELD];
    uint8_t said;
    for (int step = 0; step < STEPS; step++) {
        uint64_t i = random_below(&state, HELD), user = 1 + random_below(&state, USERS_N), n = 0;
        if (users[i] == 0) {
            CHECK(kvf_attempts_open(&l.attempts, user, &i, &room, 1, &attempts[i]));
            users[i] = user;
        } else if (step % 3) {
            size_t freed = kvf_ledger_abort_all(&l, user, &attempts[i], 1, &said, out, rooms);
            CHECK(freed == (users[i] == user) && (!freed || out[0] == i));
            CHECK(said == (freed ? KVF_SAY_ABORTED : KVF_SAY_UNKNOWN));
            if (freed) users[i] = 0;
        } else if (step % 100 == 0) {
            kvf_attempts_gone(&l.attempts, user, out, rooms);
            for (int k = 0; k < HELD; k++)
                if (users[k] == user) {
                    CHECK(out[n] < HELD && users[out[n]] <= USERS_N && rooms[n] == ROOM);
                    users[k] = 0, n++;
                }
        }
        uint64_t held = 0;
        for (int k = 0; k < HELD; k++) held += users[k] == user;
        const kvf_account *account = kvf_account_of(&l.attempts, user);
        CHECK(account ? account->extents == held && account->bytes == held * ROOM : held == 0);
    }
    CHECK(l.attempts.rows_n <= HELD && l.attempts.accounts_n <= USERS_N);
    CHECK(l.attempts.bytes[KVF_RESERVED] == kvf_attempts_count(&l.attempts) * ROOM);
    CHECK(l.attempts.bytes[KVF_OVER] == 0);
    drop(&t, &l);
}

int main(void) {
    check_paths();
    check_beside();
    check_serials();
    check_full();
    check_random();
    return 0;
}

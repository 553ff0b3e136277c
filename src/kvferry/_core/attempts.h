/* attempts.h: extents that were given out to be written, until they are committed or surely left
 * alone. A row for each; one thread at a time.
 *
 *   attempt  | 63..24 serial of the row's use | 23..0 row |       never used again, never 0
 *
 *                 open       commit   quarantine    abort, gone
 *   OVER          RESERVED
 *   RESERVED                 OVER     QUARANTINED   OVER
 *   QUARANTINED                                     OVER           it waits for its writer
 *
 * Each user that has rows has an account of them. A row that is over is in a list of free ones, the
 * last one first, unless its serials are used up.
 */
#ifndef KVF_ATTEMPTS_H
#define KVF_ATTEMPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define KVF_ROW_BITS 24
#define KVF_ROWS (1u << KVF_ROW_BITS)
#define KVF_SERIALS (1ull << (64 - KVF_ROW_BITS))
#define KVF_NO_ROW UINT32_MAX

/* What an attempt is to a user; STRANGE: never given out, or another user's. */
typedef enum kvf_attempt_state { KVF_OVER, KVF_RESERVED, KVF_QUARANTINED, KVF_STRANGE } kvf_attempt_state;

typedef struct kvf_extent {
    uint64_t offset, room;
} kvf_extent;

typedef struct kvf_attempt_row {
    uint64_t serial;
    kvf_extent extent;
    uint32_t account;
    uint32_t state; /* below STRANGE */
    uint32_t next;  /* of the free rows, while OVER */
} kvf_attempt_row;

/* What one user holds, reserved or quarantined; extents 0: nobody's account. */
typedef struct kvf_account {
    uint64_t user, extents, bytes;
} kvf_account;

typedef struct kvf_attempts {
    kvf_attempt_row *rows;
    kvf_account *accounts;
    uint32_t rows_n, rows_room, accounts_n, accounts_room;
    uint32_t free, free_n; /* first of the list, and its length */
    uint64_t bytes[KVF_STRANGE]; /* by state; of OVER 0 */
} kvf_attempts;

static inline kvf_attempts kvf_attempts_none(void) { return (kvf_attempts){.free = KVF_NO_ROW}; }

static inline void kvf_attempts_free(kvf_attempts *a) {
    free(a->rows);
    free(a->accounts);
    *a = kvf_attempts_none();
}

/* False: no memory; nothing has changed. */
static inline bool kvf_grow(void **array, uint32_t *room, uint64_t wanted, size_t each) {
    if (wanted <= *room) return true;
    uint64_t more = wanted > 2ull * *room ? wanted : 2ull * *room;
    void *grown = realloc(*array, more * each);
    if (!grown) return false;
    *array = grown, *room = (uint32_t)more;
    return true;
}

/* The user's account; NULL: it holds nothing. */
static inline kvf_account *kvf_account_of(const kvf_attempts *a, uint64_t user) {
    for (uint32_t i = 0; i < a->accounts_n; i++)
        if (a->accounts[i].user == user && a->accounts[i].extents) return &a->accounts[i];
    return NULL;
}

/* An account for a user that has none, in the place of nobody's; there is room for one more. */
static inline kvf_account *kvf_account_open(kvf_attempts *a, uint64_t user) {
    uint32_t i = 0;
    while (i < a->accounts_n && a->accounts[i].extents) i++;
    a->accounts_n += i == a->accounts_n;
    a->accounts[i] = (kvf_account){.user = user};
    return &a->accounts[i];
}

/* How many there may be still. */
static inline uint64_t kvf_attempts_left(const kvf_attempts *a) { return KVF_ROWS - a->rows_n + a->free_n; }

/* How many are not over. */
static inline uint64_t kvf_attempts_count(const kvf_attempts *a) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < a->accounts_n; i++) count += a->accounts[i].extents;
    return count;
}

/* Memory for so many more. False: none, or more than there may be. */
static inline bool kvf_attempts_expect(kvf_attempts *a, uint64_t n) {
    uint64_t rows = n > a->free_n ? a->rows_n + (n - a->free_n) : a->rows_n;
    return n <= kvf_attempts_left(a) &&
           kvf_grow((void **)&a->rows, &a->rows_room, rows, sizeof *a->rows) &&
           kvf_grow((void **)&a->accounts, &a->accounts_room, a->accounts_n + 1ull, sizeof *a->accounts);
}

static inline uint32_t kvf_attempts_row(kvf_attempts *a) {
    if (a->free == KVF_NO_ROW) {
        a->rows[a->rows_n] = (kvf_attempt_row){0};
        return a->rows_n++;
    }
    uint32_t row = a->free;
    a->free = a->rows[row].next;
    a->free_n--;
    return row;
}

/* An attempt for each extent. False: nothing was opened (see kvf_attempts_expect). */
static inline bool kvf_attempts_open(kvf_attempts *a, uint64_t user, const uint64_t *offsets,
                                     const uint64_t *rooms, size_t n, uint64_t *attempts) {
    if (!kvf_attempts_expect(a, n)) return false;
    kvf_account *account = kvf_account_of(a, user);
    if (!account && n) account = kvf_account_open(a, user);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = kvf_attempts_row(a);
        uint64_t serial = a->rows[row].serial + 1;
        a->rows[row] = (kvf_attempt_row){serial, {offsets[i], rooms[i]},
                                         (uint32_t)(account - a->accounts), KVF_RESERVED, 0};
        account->extents++;
        account->bytes += rooms[i];
        a->bytes[KVF_RESERVED] += rooms[i];
        attempts[i] = serial << KVF_ROW_BITS | row;
    }
    return true;
}

/* Neither OVER nor STRANGE: `row` is the attempt's. */
static inline kvf_attempt_state kvf_attempt_find(const kvf_attempts *a, uint64_t user,
                                                 uint64_t attempt, uint32_t *row) {
    uint64_t serial = attempt >> KVF_ROW_BITS;
    *row = attempt & (KVF_ROWS - 1);
    if (*row >= a->rows_n || serial == 0 || serial > a->rows[*row].serial) return KVF_STRANGE;
    const kvf_attempt_row *r = &a->rows[*row];
    if (serial < r->serial || r->state == KVF_OVER) return KVF_OVER;
    return a->accounts[r->account].user == user ? (kvf_attempt_state)r->state : KVF_STRANGE;
}

/* A row that is not over is; its extent is the caller's. */
static inline kvf_extent kvf_attempt_close(kvf_attempts *a, uint32_t row) {
    kvf_attempt_row *r = &a->rows[row];
    kvf_account *account = &a->accounts[r->account];
    account->extents--;
    account->bytes -= r->extent.room;
    a->bytes[r->state] -= r->extent.room;
    r->state = KVF_OVER;
    if (r->serial < KVF_SERIALS - 1) r->next = a->free, a->free = row, a->free_n++;
    return r->extent;
}

static inline bool kvf_attempt_is_of(const kvf_attempts *a, uint32_t row, const kvf_account *account) {
    return a->rows[row].state != KVF_OVER && &a->accounts[a->rows[row].account] == account;
}

/* All of the user's: no longer to be committed, not yet to be used again. Its bytes. */
static inline uint64_t kvf_attempts_quarantine(kvf_attempts *a, uint64_t user) {
    const kvf_account *account = kvf_account_of(a, user);
    for (uint32_t row = 0; account && row < a->rows_n; row++) {
        kvf_attempt_row *r = &a->rows[row];
        if (!kvf_attempt_is_of(a, row, account) || r->state == KVF_QUARANTINED) continue;
        a->bytes[KVF_RESERVED] -= r->extent.room;
        a->bytes[KVF_QUARANTINED] += r->extent.room;
        r->state = KVF_QUARANTINED;
    }
    return account ? account->bytes : 0;
}

/* All of the user's are over; `offsets` and `rooms` hold as many as its account says. */
static inline void kvf_attempts_gone(kvf_attempts *a, uint64_t user, uint64_t *offsets, uint64_t *rooms) {
    const kvf_account *account = kvf_account_of(a, user);
    for (uint32_t row = 0; account && account->extents; row++) {
        if (!kvf_attempt_is_of(a, row, account)) continue;
        kvf_extent extent = kvf_attempt_close(a, row);
        *offsets++ = extent.offset, *rooms++ = extent.room;
    }
}

/* The extents of all that are not over, kvf_attempts_count of them. */
static inline void kvf_attempts_read(const kvf_attempts *a, uint64_t *offsets, uint64_t *rooms) {
    for (uint32_t row = 0; row < a->rows_n; row++)
        if (a->rows[row].state != KVF_OVER)
            *offsets++ = a->rows[row].extent.offset, *rooms++ = a->rows[row].extent.room;
}

#endif

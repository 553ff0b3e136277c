/* Ranges by address, what was written of a value, and values in pieces, each against bytes that are
 * looked at one by one; each piece is an allocation of its own, beside which nothing is touched. */
#include "cover.h"
#include "piecewise.h"
#include "spans.h"
#include "table.h"

#define SPACE 200u
#define ROWS 5u
#define MOST 6u /* pieces of a row */

static uint64_t seed = 88172645463325252ull;

static uint64_t any(uint64_t below) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed % below;
}

/* ---- spans ---- */

static bool in_one(const uint64_t (*ranges)[2], size_t n, uint64_t address, uint64_t length) {
    for (size_t i = 0; i < n; i++)
        if (ranges[i][0] <= address && address + length <= ranges[i][0] + ranges[i][1]) return true;
    return false;
}

/* A piece over two ranges that meet lies in neither. */
static void check_spans(void) {
    uint64_t ranges[40][2];
    size_t n = 0;
    kvf_spans s = {0};
    CHECK(!kvf_spans_hold(&s, 0, 0) && !kvf_spans_drop(&s, 0));
    for (int turn = 0; turn < 4000; turn++) {
        if (n < 40 && any(2)) {
            ranges[n][0] = any(SPACE), ranges[n][1] = 1 + any(50);
            CHECK(kvf_spans_add(&s, ranges[n][0], ranges[n][1]));
            n++;
        } else if (n) {
            uint64_t at = ranges[any(n)][0];
            size_t last = n;
            while (ranges[--last][0] != at);
            CHECK(kvf_spans_drop(&s, at));
            for (n--; last < n; last++) memcpy(ranges[last], ranges[last + 1], sizeof *ranges);
        }
        CHECK(s.n == n);
        uint64_t at[8], length[8];
        size_t stray = 8;
        for (size_t i = 0; i < 8; i++) at[i] = any(SPACE), length[i] = any(60);
        for (size_t i = 8; i--;)
            if (!in_one((const uint64_t(*)[2])ranges, n, at[i], length[i])) stray = i;
        CHECK(kvf_spans_stray(&s, at, length, 8) == stray);
    }
    CHECK(kvf_spans_add(&s, UINT64_MAX - 9, 9) && kvf_spans_hold(&s, UINT64_MAX - 9, 9));
    CHECK(!kvf_spans_hold(&s, UINT64_MAX - 9, 10) && !kvf_spans_hold(&s, UINT64_MAX, UINT64_MAX));
    free(s.rows);
}

/* ---- cover ---- */

static void check_cover(void) {
    for (int turn = 0; turn < 300; turn++) {
        kvf_cover c = {0};
        char written[SPACE] = {0};
        uint64_t size = any(SPACE);
        for (bool whole = !size; !whole;) {
            CHECK(!kvf_cover_whole(&c, size));
            uint64_t begin = any(size), end = begin + any(size - begin + 1);
            CHECK(kvf_cover_add(&c, begin, end));
            memset(written + begin, 1, end - begin);
            whole = !memchr(written, 0, size);
        }
        CHECK(kvf_cover_whole(&c, size));
        free(c.rows);
    }
}

/* ---- pieces ---- */

typedef struct value {
    uint64_t starts[ROWS + 1], addresses[ROWS * MOST], lengths[ROWS * MOST], offsets[ROWS * MOST];
    uint64_t sizes[ROWS];
    kvf_pieces pieces;
} value;

static void value_make(value *v) {
    uint64_t n = 0;
    for (size_t i = 0; i < ROWS; i++) {
        v->starts[i] = n;
        for (uint64_t more = any(MOST + 1); more--; n++) {
            v->lengths[n] = any(4) ? any(300) : any(3000);
            unsigned char *bytes = malloc(v->lengths[n]);
            for (uint64_t k = 0; k < v->lengths[n]; k++) bytes[k] = (unsigned char)any(256);
            v->addresses[n] = (uint64_t)bytes;
        }
    }
    v->starts[ROWS] = n;
    v->pieces = (kvf_pieces){v->starts, v->addresses, v->lengths, v->offsets, ROWS};
    CHECK(kvf_starts_sound(v->starts, ROWS, n) && !kvf_starts_sound(v->starts, ROWS, n + 1));
    CHECK(kvf_pieces_lay(&v->pieces, v->offsets, v->sizes) == ROWS);
}

static void value_free(value *v) {
    for (uint64_t j = 0; j < v->starts[ROWS]; j++) free((void *)v->addresses[j]);
}

/* Byte k of a row that is read in order; NULL: it has not so many. */
static unsigned char *byte_of(const value *v, size_t row, uint64_t k) {
    for (uint64_t j = v->starts[row]; j < v->starts[row + 1]; k -= v->lengths[j++])
        if (k < v->lengths[j]) return (unsigned char *)v->addresses[j] + k;
    return NULL;
}

static void check_bounds(void) {
    uint64_t starts[3] = {0, 1, 1}, address = UINT64_MAX - 4, length = 5, offset, sizes[2], rooms[2] = {5, 0};
    kvf_pieces p = {starts, &address, &length, &offset, 2};
    CHECK(kvf_pieces_lay(&p, &offset, sizes) == 0);
    address--;
    CHECK(kvf_pieces_lay(&p, &offset, sizes) == 2 && sizes[0] == 5 && !sizes[1] && !offset);
    CHECK(kvf_pieces_misfit(&p, rooms) == 2);
    rooms[0] = 4;
    CHECK(kvf_pieces_misfit(&p, rooms) == 0);
    offset = UINT64_MAX, rooms[0] = UINT64_MAX;
    CHECK(kvf_pieces_misfit(&p, rooms) == 0);
    uint64_t back[3] = {0, 2, 1}, late[3] = {1, 1, 1};
    CHECK(!kvf_starts_sound(back, 2, 1) && !kvf_starts_sound(late, 2, 1));
}

/* Rows to an extent each, which has no byte more than it needs, and back over rows of other pieces. */
static void check_gather(void) {
    for (int turn = 0; turn < 200; turn++) {
        value v;
        uint64_t to[ROWS];
        value_make(&v);
        for (size_t i = 0; i < ROWS; i++) to[i] = (uint64_t)malloc(v.sizes[i]);
        CHECK(kvf_pieces_misfit(&v.pieces, v.sizes) == ROWS);
        kvf_gather_all(kvf_best_nt(), &v.pieces, to, any(2) * KVF_NT_RUN);
        for (size_t i = 0; i < ROWS; i++) {
            for (uint64_t k = 0; k < v.sizes[i]; k++) CHECK(((unsigned char *)to[i])[k] == *byte_of(&v, i, k));
            free((void *)to[i]);
        }
        value_free(&v);
    }
}

/* ---- reads ---- */

#define OBJECT 1500u

static void put(table *t, uint64_t key, uint64_t length) {
    kvf_object o = {.generation = key + 1, .digest = key_digest(key), .offset = key * OBJECT,
                    .length = length, .room = OBJECT};
    for (uint64_t k = 0; k < OBJECT; k++) t->pool[key * OBJECT + k] = (unsigned char)any(256);
    CHECK(kvf_index_insert(&t->index, &o, 0) >= 0);
}

static void check_whole(const value *v, const value *before, size_t row, const unsigned char *object,
                        uint64_t length) {
    for (uint64_t k = 0; k < v->sizes[row]; k++)
        CHECK(*byte_of(v, row, k) == (k < length ? object[k] : *byte_of(before, row, k)));
}

static void check_part(const value *v, uint64_t j, const unsigned char *object, uint64_t length,
                       int64_t moved) {
    uint64_t offset = v->offsets[j], n = v->lengths[j];
    bool within = offset <= length && n <= length - offset;
    CHECK(moved == (within ? (int64_t)n : KVF_BEYOND));
    if (within && n) CHECK(!memcmp((void *)v->addresses[j], object + offset, n));
}

static void value_copy(value *to, const value *from) {
    *to = *from;
    for (uint64_t j = 0; j < from->starts[ROWS]; j++) {
        to->addresses[j] = (uint64_t)malloc(from->lengths[j]);
        if (from->lengths[j]) memcpy((void *)to->addresses[j], (void *)from->addresses[j], from->lengths[j]);
    }
}

/* Object i over row i, where the last is not there; and then parts of the same. */
static void check_reads(void) {
    for (int turn = 0; turn < 100; turn++) {
        table t;
        value v, before;
        kvf_digest d[ROWS];
        uint8_t codes[ROWS];
        uint64_t lengths[ROWS], expected[ROWS];
        int64_t moved[ROWS * MOST];
        table_make(&t, 64, 1, ROWS * OBJECT);
        value_make(&v);
        value_copy(&before, &v);
        for (uint64_t i = 0; i < ROWS; i++) {
            d[i] = key_digest(i), expected[i] = any(OBJECT + 1);
            if (i + 1 < ROWS) put(&t, i, expected[i]);
        }
        kvf_index_reader r = table_reader(&t, 0, NULL);
        kvf_scatter_all(&r, d, &v.pieces, v.sizes, any(2) * KVF_NT_RUN, codes, lengths);
        for (size_t i = 0; i < ROWS; i++) {
            bool there = i + 1 < ROWS, fits = expected[i] <= v.sizes[i];
            CHECK(codes[i] == (!there ? KVF_ABSENT : fits ? KVF_HIT : KVF_TOO_SMALL));
            CHECK(lengths[i] == (there ? expected[i] : 0));
            check_whole(&v, &before, i, t.pool + i * OBJECT, there && fits ? expected[i] : 0);
        }
        for (uint64_t j = 0; j < v.starts[ROWS]; j++) v.offsets[j] = any(4) ? any(OBJECT) : any(UINT64_MAX);
        memset(moved, 0xff, sizeof moved);
        kvf_pick_all(&r, d, &v.pieces, any(2) * KVF_NT_RUN, codes, lengths, moved);
        for (size_t i = 0; i + 1 < ROWS; i++)
            for (uint64_t j = v.starts[i]; j < v.starts[i + 1]; j++)
                check_part(&v, j, t.pool + i * OBJECT, expected[i], moved[j]);
        for (uint64_t j = v.starts[ROWS - 1]; j < v.starts[ROWS]; j++) CHECK(moved[j] == KVF_BEYOND);
        CHECK(codes[ROWS - 1] == KVF_ABSENT);
        for (uint64_t line = 0; line < t.lines[0].n; line++)
            CHECK(!atomic_load(&t.lines[0].memory->hazards[line].generation));
        value_free(&v), value_free(&before), table_free(&t);
    }
}

/* Objects that have come along in a cargo, but for one that is too long for that. */
static void check_cargo(void) {
    static unsigned char cargo[ROWS * OBJECT];
    for (int turn = 0; turn < 100; turn++) {
        value v, before;
        uint8_t answers[ROWS];
        uint64_t offsets[ROWS] = {0}, lengths[ROWS], at[ROWS], n = 0;
        int64_t moved[ROWS * MOST], left[ROWS];
        value_make(&v);
        value_copy(&before, &v);
        for (size_t i = 0; i < ROWS; i++) {
            answers[i] = any(4) ? KVF_SAY_FOUND : KVF_SAY_ABSENT;
            lengths[i] = answers[i] == KVF_SAY_ABSENT ? 0 : i == 2 ? KVF_BRIEF + 1 : any(OBJECT + 1);
            at[i] = n;
            if (lengths[i] <= KVF_BRIEF) n += lengths[i];
        }
        for (uint64_t k = 0; k < n; k++) cargo[k] = (unsigned char)any(256);
        kvf_sites s = {answers, offsets, lengths, ROWS};
        CHECK(kvf_sites_sound(&s, UINT64_MAX, n));
        bool long_one = answers[2] == KVF_SAY_FOUND, long_fits = v.sizes[2] > KVF_BRIEF;
        CHECK(kvf_unload_rows(&s, (char *)cargo, kvf_best_nt(), &v.pieces, v.sizes, left) ==
              (long_one && long_fits));
        for (size_t i = 0; i < ROWS; i++) {
            bool fits = lengths[i] <= v.sizes[i];
            CHECK(fits == (answers[i] != KVF_SAY_TOO_SMALL));
            check_whole(&v, &before, i, cargo + at[i], fits && i != 2 ? lengths[i] : 0);
            if (!fits) answers[i] = KVF_SAY_FOUND;
        }
        for (uint64_t j = 0; j < v.starts[ROWS]; j++) v.offsets[j] = any(OBJECT);
        memset(moved, 0xff, sizeof moved);
        CHECK(kvf_unload_parts(&s, (char *)cargo, kvf_best_nt(), &v.pieces, moved, left) == long_one);
        CHECK(!long_one || left[0] == 2);
        for (size_t i = 0; i < ROWS; i++)
            for (uint64_t j = v.starts[i]; j < v.starts[i + 1]; j++) {
                if (i == 2 || answers[i] == KVF_SAY_ABSENT) CHECK(moved[j] == KVF_BEYOND);
                else check_part(&v, j, cargo + at[i], lengths[i], moved[j]);
            }
        value_free(&v), value_free(&before);
    }
}

int main(void) {
    check_spans();
    check_cover();
    check_bounds();
    check_gather();
    check_reads();
    check_cargo();
    return 0;
}

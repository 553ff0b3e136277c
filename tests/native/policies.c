/* What eviction policies are made of, against models that look at everybody: lines, trees, ghosts. */
#include "ghosts.h"
#include "parallel.h"
#include "trees.h"

#define SLOTS 12u
#define STEPS 60000u

static int64_t some[SLOTS], others[SLOTS];

/* Slots of which each is there with a chance of one half, in any order. */
static size_t draw(uint64_t *state, const bool *there, bool wanted) {
    size_t n = 0;
    uint64_t turn = random_next(state);
    for (unsigned i = 0; i < SLOTS; i++) {
        unsigned slot = (unsigned)((turn + i * 5) % SLOTS);
        if (there[slot] == wanted && random_below(state, 2)) some[n++] = slot;
    }
    return n;
}

static unsigned line[SLOTS], in_line;

static void line_drop(unsigned slot) {
    unsigned n = 0;
    for (unsigned i = 0; i < in_line; i++)
        if (line[i] != slot) line[n++] = line[i];
    in_line = n;
}

static void line_push(unsigned slot) {
    line_drop(slot);
    line[in_line++] = slot;
}

static void check_line(const kvf_queue *q) {
    uint64_t from = q->head;
    CHECK(kvf_queue_peek(q, &from, SLOTS, others) == in_line);
    for (unsigned i = 0; i < in_line; i++) CHECK(others[i] == line[i]);
}

static void check_queue(void) {
    uint64_t state = 1;
    bool all[SLOTS] = {0};
    kvf_queue q;
    CHECK(kvf_queue_make(&q, SLOTS));
    for (unsigned step = 0; step < STEPS; step++) {
        size_t n = draw(&state, all, false), popped;
        switch (random_below(&state, 4)) {
        case 0:
            kvf_queue_push_all(&q, some, n);
            for (size_t i = 0; i < n; i++) line_push((unsigned)some[i]);
            break;
        case 1:
            kvf_queue_drop_all(&q, some, n);
            for (size_t i = 0; i < n; i++) line_drop((unsigned)some[i]);
            break;
        case 2:
            popped = kvf_queue_pop(&q, random_below(&state, SLOTS), some);
            CHECK(popped == 0 || !kvf_queue_holds(&q, (uint32_t)some[0]));
            n = popped ? random_below(&state, popped + 1) : 0;
            for (size_t i = 0; i < n; i++) {
                CHECK(line[0] == some[i]);
                line_drop(line[0]);
            }
            CHECK(kvf_queue_give_back(&q, some + n, popped - n));
            CHECK(!kvf_queue_give_back(&q, some, q.head + 1));
            break;
        default:
            popped = kvf_queue_first(&q, some, n);
            for (unsigned i = 0; popped < n && line[i] != some[popped]; i++)
                for (size_t k = 0; k < n; k++) CHECK(line[i] != some[k]);
            for (size_t i = 0; popped == n && i < n; i++) CHECK(!kvf_queue_holds(&q, (uint32_t)some[i]));
        }
        check_line(&q);
    }
    kvf_queue_free(&q);
}

/* A model of trees. */
static bool there[SLOTS], held[SLOTS], kept[SLOTS];
static unsigned parent[SLOTS];
static uint64_t used[SLOTS], clock_now;

static bool is_leaf(unsigned slot) {
    for (unsigned child = 0; child < SLOTS; child++)
        if (there[child] && child != slot && parent[child] == slot) return false;
    return true;
}

static void gone(unsigned slot) {
    there[slot] = false;
    for (unsigned child = 0; child < SLOTS; child++)
        if (parent[child] == slot) parent[child] = child;
}

static unsigned oldest_leaf(void) {
    unsigned oldest = SLOTS;
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (there[slot] && !kept[slot] && is_leaf(slot) &&
            (oldest == SLOTS || used[slot] < used[oldest]))
            oldest = slot;
    return oldest;
}

static void insert_some(kvf_trees *t, uint64_t *state) {
    size_t n = draw(state, there, false);
    for (size_t i = 0; i < n; i++) {
        unsigned slot = (unsigned)some[i], above = (unsigned)random_below(state, SLOTS);
        there[slot] = true;
        parent[slot] = there[above] && parent[above] != slot ? above : slot;
        others[i] = parent[slot];
        used[slot] = ++clock_now;
    }
    kvf_trees_insert(t, some, others, n);
}

static void remove_some(kvf_trees *t, uint64_t *state) {
    size_t n = draw(state, there, true);
    kvf_trees_remove(t, some, n);
    for (size_t i = 0; i < n; i++) gone((unsigned)some[i]);
}

static void touch_some(kvf_trees *t, uint64_t *state) {
    size_t n = draw(state, there, random_below(state, 4) != 0);
    kvf_trees_touch(t, some, n);
    for (size_t i = 0; i < n; i++) used[some[i]] = ++clock_now;
}

static void find_victims(kvf_trees *t, uint64_t *state) {
    int64_t sizes[SLOTS], asked[KVF_PATH], out[SLOTS], stay[SLOTS];
    int64_t needed = (int64_t)random_below(state, 3 * SLOTS);
    uint8_t stays[KVF_PATH];
    size_t n, left, stayed, all = 0;
    for (unsigned i = 0; i < SLOTS; i++) sizes[i] = 1 + i % 3, held[i] = random_below(state, 4) == 0;
    while (needed > 0 && (n = kvf_trees_ahead(t, 1 + random_below(state, 4), asked))) {
        for (size_t i = 0; i < n; i++) stays[i] = held[asked[i]];
        kvf_trees_tell(t, asked, stays, n);
        kvf_trees_leave(t, sizes, needed, out, &left, stay, &stayed);
        for (size_t i = 0, k = 0; i + k < left + stayed;) {
            unsigned slot = oldest_leaf();
            CHECK(slot < SLOTS);
            if (held[slot]) {
                CHECK(k < stayed && stay[k++] == slot);
                kept[slot] = true;
                others[all++] = slot;
                continue;
            }
            CHECK(i < left && out[i++] == slot);
            needed -= sizes[slot];
            gone(slot);
        }
    }
    CHECK(needed <= 0 || oldest_leaf() == SLOTS);
    for (unsigned i = 0; i < SLOTS; i++) some[i] = i;
    kvf_trees_forget(t, some, SLOTS);
    kvf_queue_push_all(&t->queue, others, all);
    for (size_t i = 0; i < all; i++) kept[others[i]] = false, used[others[i]] = ++clock_now;
}

static void check_first(kvf_trees *t) {
    for (unsigned i = 0; i < SLOTS; i++) some[i] = i;
    size_t first = kvf_trees_first(t, some, SLOTS);
    CHECK(first == oldest_leaf());
}

static void check_trees(void) {
    static void (*const does[])(kvf_trees *, uint64_t *) = {insert_some, remove_some, touch_some,
                                                           find_victims};
    uint64_t state = 2, renumbered = 0;
    kvf_trees t;
    CHECK(kvf_trees_make(&t, SLOTS));
    for (unsigned step = 0; step < STEPS; step++) {
        uint32_t before = t.numbers;
        does[random_below(&state, 4)](&t, &state);
        check_first(&t);
        renumbered += t.numbers < before;
        if (t.numbers > 500 && t.numbers < UINT32_MAX - 9) t.numbers = UINT32_MAX - 9;
    }
    CHECK(renumbered);
    kvf_trees_free(&t);
}

/* A parked parent whose children come and go while nobody is driven out. */
static void check_outdated(void) {
    int64_t slots[] = {0, 1, 2}, parents[] = {0, 0, 2}, sizes[SLOTS] = {0}, asked[KVF_PATH], out[3];
    uint8_t stays[] = {1, 1, 1};
    size_t left, stayed;
    kvf_trees t;
    CHECK(kvf_trees_make(&t, SLOTS));
    kvf_trees_insert(&t, slots, parents, 3);
    CHECK(kvf_trees_ahead(&t, 3, asked) == 3);
    kvf_trees_tell(&t, asked, stays, 3);
    kvf_trees_leave(&t, sizes, 1, out, &left, out, &stayed);
    CHECK(left == 0 && stayed == 2 && out[0] == 1 && out[1] == 2);
    kvf_trees_forget(&t, slots, 3);
    kvf_queue_push_all(&t.queue, out, 2);
    for (unsigned i = 0; i < 3 * SLOTS; i++) {
        CHECK(kvf_trees_first(&t, slots, 3) == 1);
        kvf_trees_remove(&t, slots + 1, 1);
        CHECK(t.waiting && t.waiting <= SLOTS && kvf_trees_first(&t, slots, 3) == 0);
        kvf_trees_insert(&t, slots + 1, parents + 1, 1);
        CHECK(kvf_trees_first(&t, slots, 3) == 2);
        kvf_trees_touch(&t, slots + 2, 1);
    }
    kvf_trees_free(&t);
}

static void check_ghosts(void) {
    kvf_ghost_bucket buckets[4] = {0};
    kvf_ghosts g = {buckets, kvf_ghost_buckets(25) - 1};
    CHECK(g.mask == 3 && kvf_ghost_buckets(0) == 1 && kvf_ghost_buckets(UINT64_MAX));
    for (uint64_t n = 1; n <= 20; n++) {
        uint64_t print = n << 33 | 2;
        uint32_t word = (uint32_t)n;
        kvf_ghosts_tell(&g, &print, &word, 1);
        for (uint64_t k = 0; k <= n; k++) {
            uint64_t asked = k << 33 | 2;
            bool known = k && n - k < KVF_WAYS;
            kvf_ghosts_recall(&g, &asked, 1, &word);
            CHECK(word == (known ? k : 0));
        }
    }
}

int main(void) {
    check_queue();
    check_trees();
    check_outdated();
    check_ghosts();
    CHECK(!kvf_are_slots((int64_t[]){1, -1}, 2, 5) && !kvf_are_slots((int64_t[]){5, 1}, 2, 5));
    return 0;
}

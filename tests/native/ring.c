/* One producer, one consumer: every entry arrives once, whole and in order, whatever the indexes. */
#include "parallel.h"
#include "ring.h"

#define ENTRIES 20000u

static kvf_ring ring;

/* Every field follows from the number, so a torn entry shows. */
static kvf_entry numbered(uint64_t n) {
    return (kvf_entry){
        .kind = (uint32_t)n,
        .op = ~(uint32_t)n,
        .done = (kvf_done *)(uintptr_t)(n * 64),
        .sequence = n * 3,
        .word = n * 5,
        .run = {(const kvf_descriptor *)(uintptr_t)(n * 24), n * 7, n * 11, n * 13},
    };
}

static void check_numbered(const kvf_entry *e, uint64_t n) {
    kvf_entry wanted = numbered(n);
    CHECK(memcmp(e, &wanted, sizeof wanted) == 0);
}

static void start_at(uint64_t index) {
    memset(&ring, 0, sizeof ring);
    atomic_init(&ring.head, index);
    atomic_init(&ring.tail, index);
}

static void check_full_and_empty(uint64_t index) {
    kvf_entry e;
    start_at(index);
    CHECK(kvf_ring_empty(&ring) && !kvf_ring_pop(&ring, &e));
    for (uint64_t n = 0; n < KVF_RING_ENTRIES; n++) {
        e = numbered(n);
        CHECK(kvf_ring_push(&ring, &e));
        CHECK(!kvf_ring_empty(&ring));
    }
    kvf_entry more = numbered(999);
    CHECK(!kvf_ring_push(&ring, &more));
    CHECK(kvf_ring_pop(&ring, &e));
    check_numbered(&e, 0);
    CHECK(kvf_ring_push(&ring, &more) && !kvf_ring_push(&ring, &more));
    for (uint64_t n = 1; n < KVF_RING_ENTRIES; n++) {
        CHECK(kvf_ring_pop(&ring, &e));
        check_numbered(&e, n);
    }
    CHECK(kvf_ring_pop(&ring, &e));
    check_numbered(&e, 999);
    CHECK(kvf_ring_empty(&ring) && !kvf_ring_pop(&ring, &e));
}

static void produce(void) {
    for (uint64_t n = 0; n < ENTRIES; n++) {
        kvf_entry e = numbered(n);
        while (!kvf_ring_push(&ring, &e)) sched_yield();
    }
}

static void consume(void) {
    for (uint64_t n = 0; n < ENTRIES; n++) {
        kvf_entry e;
        while (!kvf_ring_pop(&ring, &e)) sched_yield();
        check_numbered(&e, n);
    }
}

static void either(void *unused, unsigned index) {
    (void)unused;
    if (index) produce();
    else consume();
}

int main(void) {
    const uint64_t starts[] = {0, 63, UINT64_MAX - 40, UINT64_MAX - ENTRIES / 2};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        check_full_and_empty(starts[i]);
        start_at(starts[i]);
        in_parallel(2, either, NULL, NULL);
        CHECK(kvf_ring_empty(&ring));
    }
    return 0;
}

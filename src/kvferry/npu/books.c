#include "books.h"

#include "call.h"

pthread_mutex_t npu_lock = PTHREAD_MUTEX_INITIALIZER;

static npu_entry *alive[NPU_KINDS];

void npu_enter(npu_kind kind, npu_entry *entry) {
    entry->next = alive[kind];
    alive[kind] = entry;
}

void npu_leave(npu_kind kind, npu_entry *entry) {
    npu_entry **at = &alive[kind];
    while (*at != entry) at = &(*at)->next;
    *at = entry->next;
}

npu_entry *npu_first(npu_kind kind) { return alive[kind]; }

npu_entry *npu_holding(npu_kind kind, const void *address) {
    return npu_touching(kind, (uintptr_t)address, 1);
}

npu_entry *npu_beginning(npu_kind kind, const void *address) {
    npu_entry *entry = alive[kind];
    while (entry && entry->base != (uintptr_t)address) entry = entry->next;
    return entry;
}

npu_entry *npu_touching(npu_kind kind, uintptr_t base, size_t size) {
    npu_entry *entry = alive[kind];
    while (entry && !(base < entry->base + entry->size && entry->base < base + size))
        entry = entry->next;
    return entry;
}

static uint64_t count(npu_kind kind) {
    uint64_t n = 0;
    for (npu_entry *entry = alive[kind]; entry; entry = entry->next) n++;
    return n;
}

NPU_API void npu_books(npu_counts *counts) {
    NPU_HOLD_LOCK;
    *counts = (npu_counts){
        .allocations = count(NPU_ALLOCATION),
        .reservations = count(NPU_RESERVATION),
        .mappings = count(NPU_MAPPING),
        .handles = count(NPU_HANDLE),
        .streams = count(NPU_STREAM),
        .contexts = count(NPU_CONTEXT),
        .registrations = count(NPU_REGISTRATION),
        .imports = count(NPU_IMPORT),
    };
}

/* ticket.c: handles as bytes. */
#include <string.h>

#include "settings.h"
#include "share.h"

#define PID_BITS 22
#define ID_BITS 32

static void write_default(const npu_ticket *t, void *handle) {
    uint64_t word = (uint64_t)t->server << (PID_BITS + ID_BITS) | (uint64_t)t->pid << ID_BITS | t->id;
    memcpy(handle, &word, sizeof word);
}

static void read_default(const void *handle, npu_ticket *t) {
    uint64_t word;
    memcpy(&word, handle, sizeof word);
    t->server = (uint32_t)(word >> (PID_BITS + ID_BITS));
    t->pid = word >> ID_BITS & ((1u << PID_BITS) - 1);
    t->id = (uint32_t)word;
}

static void write_fabric(const npu_ticket *t, void *handle) {
    uint32_t words[sizeof(aclrtMemFabricHandle) / 4] = {(uint32_t)t->type, t->server, t->pid, t->id};
    memcpy(handle, words, sizeof words);
}

static bool read_fabric(const void *handle, npu_ticket *t) {
    uint32_t words[sizeof(aclrtMemFabricHandle) / 4];
    memcpy(words, handle, sizeof words);
    t->server = words[1];
    t->pid = words[2];
    t->id = words[3];
    for (size_t i = 4; i < sizeof words / sizeof *words; i++)
        if (words[i]) return false;
    return words[0] == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
}

void npu_write_ticket(const npu_ticket *ticket, void *handle) {
    if (ticket->type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
        write_fabric(ticket, handle);
    else
        write_default(ticket, handle);
}

bool npu_read_ticket(const void *handle, aclrtMemSharedHandleType type, npu_ticket *ticket) {
    bool whole = true;
    ticket->type = type;
    if (type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
        whole = read_fabric(handle, ticket);
    else
        read_default(handle, ticket);
    return whole && ticket->server < NPU_SERVERS_MAX && ticket->pid;
}

/* frame.h: what travels over a wire, and the checks of it that need no socket. Little endian.
 *
 *   request  | magic u32 | op u32 | tag u64 | run u32 | pieces u32 | bytes u64 |       32 bytes
 *            | address u64 | length u64 |   one for each piece
 *            the bytes of all pieces, one behind the other: behind a WRITE only
 *
 *   answer   | magic u32 | status u32 | tag u64 | verdict u32 | side u32 | about u64 | bytes u64 |
 *            the bytes of all pieces: behind a READ that is DONE                       40 bytes
 *
 * Addresses are those of the process that owns the memory. Frames are answered in order, a WRITE
 * after its bytes are in place. A tag names a frame, a run number (never 0) the frames that fail
 * together: of one that is DENIED nothing is moved, nor of those of its run behind it (DROPPED). One
 * is BROKEN when memory of a device was not reached: how much of it moved is unspecified, of those of
 * its run behind it nothing is.
 *
 * A received length is compared with what the receiver expects and bounds no allocation.
 */
#ifndef KVF_FRAME_H
#define KVF_FRAME_H

#include "resolve.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are the structures in memory");

#define KVF_REQUEST_MAGIC 0x5146564bu /* "KVFQ" */
#define KVF_ANSWER_MAGIC 0x4146564bu  /* "KVFA" */

/* Large enough that what a frame costs does not show, small enough to wait for one when aborted. */
#define KVF_FRAME_BYTES (1ull << 20)
#define KVF_FRAME_PIECES 1024u /* as many vectors as the kernel takes in one call */

typedef struct kvf_request {
    uint32_t magic, op;
    uint64_t tag;
    uint32_t run, pieces;
    uint64_t bytes;
} kvf_request;
_Static_assert(sizeof(kvf_request) == 32, "as drawn");

typedef struct kvf_place {
    uint64_t address, length;
} kvf_place;
_Static_assert(sizeof(kvf_place) == 16, "as drawn");

typedef enum { KVF_DONE, KVF_DENIED, KVF_DROPPED, KVF_BROKEN } kvf_status;

typedef struct kvf_answer {
    uint32_t magic, status;
    uint64_t tag;
    uint32_t verdict, side; /* of a DENIED frame, as resolve.h names them */
    union {
        uint64_t staged;    /* DONE: how many of its bytes passed through a buffer there */
        uint64_t address;   /* DENIED: where the offending piece begins */
        int64_t code;       /* BROKEN: what the device's library said, an int */
    };
    uint64_t bytes;         /* moved: all of the frame, or none */
} kvf_answer;
_Static_assert(sizeof(kvf_answer) == 40, "as drawn");

/* What does not fit ends the wire: nobody knows where the next frame begins. */
static inline bool kvf_request_fits(const kvf_request *r) {
    return r->magic == KVF_REQUEST_MAGIC && (r->op == KVF_WRITE || r->op == KVF_READ) && r->run &&
           r->pieces && r->pieces <= KVF_FRAME_PIECES && r->bytes && r->bytes <= KVF_FRAME_BYTES;
}

/* The first piece that is empty, wraps, or is more than the frame has left; the last one when they
 * are less than the frame; n when they are the frame exactly. */
static inline uint32_t kvf_first_excess(const kvf_place *p, uint32_t n, uint64_t bytes) {
    for (uint32_t i = 0; i < n; i++) {
        if (!p[i].length || p[i].length > bytes || p[i].address + p[i].length < p[i].address) return i;
        bytes -= p[i].length;
    }
    return bytes ? n - 1 : n;
}

/* Does it answer this frame, of `bytes`? */
static inline bool kvf_answer_fits(const kvf_answer *a, uint64_t tag, uint64_t bytes) {
    if (a->magic != KVF_ANSWER_MAGIC || a->tag != tag) return false;
    switch (a->status) {
    case KVF_DONE: return a->bytes == bytes && a->staged <= bytes;
    case KVF_DENIED:
        return !a->bytes && a->side == KVF_REMOTE && a->verdict > KVF_RESOLVED &&
               a->verdict <= KVF_NO_MEMORY && a->verdict != KVF_MIXED;
    case KVF_BROKEN: return !a->bytes && a->code && a->code == (int32_t)a->code;
    case KVF_DROPPED: return !a->bytes;
    default: return false;
    }
}

#endif

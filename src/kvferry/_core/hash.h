/* hash.h: SipHash-2-4 with 128 bits of output: a digest names a key, and whoever lacks the secret of
 * its tenant can neither compute one nor look for keys that meet.
 *
 *   secret  | k0 u64 | k1 u64 |      digest  | low u64 | high u64 |      little endian
 *
 * J.-P. Aumasson, D. J. Bernstein: SipHash: a fast short-input PRF (2012), and its 128-bit variant.
 */
#ifndef KVF_HASH_H
#define KVF_HASH_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct kvf_digest {
    uint64_t half[2];
} kvf_digest;

typedef struct kvf_secret {
    uint64_t k0, k1;
} kvf_secret;

typedef struct kvf_key {
    const void *bytes;
    size_t length;
} kvf_key;

typedef struct kvf_sip {
    uint64_t a, b, c, d;
} kvf_sip;

static inline uint64_t kvf_rotl(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline uint64_t kvf_le64(const void *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return le64toh(word);
}

static inline kvf_secret kvf_secret_of(const void *bytes16) {
    const char *bytes = bytes16;
    return (kvf_secret){kvf_le64(bytes), kvf_le64(bytes + 8)};
}

static inline void kvf_sip_rounds(kvf_sip *s, int rounds) {
    while (rounds--) {
        s->a += s->b, s->b = kvf_rotl(s->b, 13) ^ s->a, s->a = kvf_rotl(s->a, 32);
        s->c += s->d, s->d = kvf_rotl(s->d, 16) ^ s->c;
        s->a += s->d, s->d = kvf_rotl(s->d, 21) ^ s->a;
        s->c += s->b, s->b = kvf_rotl(s->b, 17) ^ s->c, s->c = kvf_rotl(s->c, 32);
    }
}

static inline void kvf_sip_take(kvf_sip *s, uint64_t word) {
    s->d ^= word;
    kvf_sip_rounds(s, 2);
    s->a ^= word;
}

/* The last word: what is left of the bytes, and the length, modulo 256, in its highest byte. */
static inline uint64_t kvf_sip_last(const char *rest, size_t length) {
    uint64_t word = 0;
    memcpy(&word, rest, length & 7);
    return le64toh(word) | (uint64_t)length << 56;
}

static inline uint64_t kvf_sip_give(kvf_sip *s) {
    kvf_sip_rounds(s, 4);
    return s->a ^ s->b ^ s->c ^ s->d;
}

static inline kvf_digest kvf_hash(kvf_secret secret, kvf_key key) {
    kvf_sip s = {
        secret.k0 ^ 0x736f6d6570736575ull,
        secret.k1 ^ 0x646f72616e646f6dull ^ 0xee,
        secret.k0 ^ 0x6c7967656e657261ull,
        secret.k1 ^ 0x7465646279746573ull,
    };
    const char *at = key.bytes, *rest = at + (key.length & ~(size_t)7);
    for (; at != rest; at += 8) kvf_sip_take(&s, kvf_le64(at));
    kvf_sip_take(&s, kvf_sip_last(rest, key.length));
    kvf_digest digest;
    s.c ^= 0xee;
    digest.half[0] = kvf_sip_give(&s);
    s.b ^= 0xdd;
    digest.half[1] = kvf_sip_give(&s);
    return digest;
}

static inline void kvf_hash_all(kvf_secret secret, const kvf_key *keys, size_t n, kvf_digest *out) {
    for (size_t i = 0; i < n; i++) out[i] = kvf_hash(secret, keys[i]);
}

#endif

/* element.h: numbers of 16 bits and fewer, as floats and back.
 *
 *   f16    sign 1 | exponent 5 | mantissa 10        f32    sign 1 | exponent 8 | mantissa 23
 *   bf16   sign 1 | exponent 8 | mantissa 7         fp8    sign 1 | exponent 4 | mantissa 3
 *
 * All without branches, so that compilers turn many at once, and all by integers, so that what a
 * thread has set of its floating point unit changes little. Only finite numbers mean anything here.
 */
#ifndef KVF_ELEMENT_H
#define KVF_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "copy.h"

KVF_INLINE uint32_t kvf_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

KVF_INLINE float kvf_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Without a branch, which would keep compilers from doing many at once. */
KVF_INLINE uint32_t kvf_choose(bool first, uint32_t one, uint32_t other) {
    uint32_t mask = 0u - first;
    return (one & mask) | (other & ~mask);
}

/* ---- small floats: `m` bits of mantissa, exponents that begin at 1 - bias ----
 *
 * Both ways a number below the least normal is a count of the least step, 2^(1 - bias - m): to add
 * the power of two whose last bit is that step rounds to it. */

#define KVF_STEP(m, bias) kvf_float((uint32_t)(128 - (bias) - (m)) << 23)
#define KVF_ROUNDER(m, bias) kvf_float((uint32_t)(151 - (bias) - (m)) << 23)
#define KVF_LEAST(bias) ((uint32_t)(128 - (bias)) << 23)

/* Of a magnitude, rounded to nearest, ties to even; both are bits without a sign. */
KVF_INLINE uint32_t kvf_narrow(uint32_t magnitude, int m, int bias) {
    int drop = 23 - m;
    uint32_t up = magnitude + (1u << (drop - 1)) - 1 + (magnitude >> drop & 1);
    uint32_t normal = (up >> drop) - ((uint32_t)(127 - bias) << m);
    uint32_t small = kvf_float_bits(kvf_float(magnitude) + KVF_ROUNDER(m, bias)) -
                     kvf_float_bits(KVF_ROUNDER(m, bias));
    return kvf_choose(magnitude < KVF_LEAST(bias), small, normal);
}

KVF_INLINE uint32_t kvf_widen(uint32_t code, int m, int bias) {
    uint32_t normal = (code << (23 - m)) + ((uint32_t)(127 - bias) << 23);
    uint32_t small = kvf_float_bits((float)(int32_t)code * KVF_STEP(m, bias));
    return kvf_choose(code >> m == 0, small, normal);
}

/* ---- elements, of any alignment ---- */

typedef enum kvf_element { KVF_F16, KVF_BF16, KVF_F32, KVF_ELEMENTS } kvf_element;

static inline size_t kvf_element_size(kvf_element e) { return e == KVF_F32 ? 4 : 2; }

KVF_INLINE uint32_t kvf_element_raw(kvf_element e, const char *from, size_t i) {
    uint32_t word;
    uint16_t half;
    if (e == KVF_F32) return memcpy(&word, from + 4 * i, 4), word;
    return memcpy(&half, from + 2 * i, 2), half;
}

KVF_INLINE float kvf_element_load(kvf_element e, const char *from, size_t i) {
    uint32_t raw = kvf_element_raw(e, from, i);
    if (e == KVF_F32) return kvf_float(raw);
    if (e == KVF_BF16) return kvf_float(raw << 16);
    return kvf_float(kvf_widen(raw & 0x7fff, 10, 15) | (raw & 0x8000) << 16);
}

KVF_INLINE void kvf_element_save(kvf_element e, char *to, size_t i, float x) {
    uint32_t bits = kvf_float_bits(x);
    uint16_t half;
    if (e == KVF_F32) {
        memcpy(to + 4 * i, &bits, 4);
        return;
    }
    if (e == KVF_BF16) half = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    else half = (uint16_t)(kvf_narrow(bits & 0x7fffffff, 10, 15) | (bits >> 16 & 0x8000));
    memcpy(to + 2 * i, &half, 2);
}

/* Bits of a magnitude are in the order of magnitudes. */
KVF_INLINE uint32_t kvf_element_magnitude(kvf_element e, const char *from, size_t i) {
    return kvf_element_raw(e, from, i) & (e == KVF_F32 ? 0x7fffffff : 0x7fff);
}

KVF_INLINE bool kvf_element_finite(kvf_element e, uint32_t magnitude) {
    return magnitude < (e == KVF_F32 ? 0x7f800000 : e == KVF_BF16 ? 0x7f80 : 0x7c00);
}

KVF_INLINE float kvf_element_number(kvf_element e, uint32_t magnitude) {
    return e == KVF_F16    ? kvf_float(kvf_widen(magnitude, 10, 15))
           : e == KVF_BF16 ? kvf_float(magnitude << 16)
                           : kvf_float(magnitude);
}

/* ---- halves: some processors turn many of them at once ---- */

#define KVF_TILE 256 /* floats, which stay in the first cache */

typedef struct kvf_halves {
    void (*load)(const char *restrict from, float *restrict to, size_t n);
    void (*save)(const float *restrict from, char *restrict to, size_t n);
} kvf_halves;

#define KVF_HALVES(NAME, TARGET, LOAD8, SAVE8)                                  \
    TARGET KVF_NOINLINE static void kvf_halves_load_##NAME(                     \
        const char *restrict from, float *restrict to, size_t n) {              \
        size_t i = 0;                                                           \
        LOAD8(from, to, i, n);                                                  \
        for (; i < n; i++) to[i] = kvf_element_load(KVF_F16, from, i);          \
    }                                                                           \
    TARGET KVF_NOINLINE static void kvf_halves_save_##NAME(                     \
        const float *restrict from, char *restrict to, size_t n) {              \
        size_t i = 0;                                                           \
        SAVE8(from, to, i, n);                                                  \
        for (; i < n; i++) kvf_element_save(KVF_F16, to, i, from[i]);           \
    }                                                                           \
    static const kvf_halves kvf_halves_##NAME = {kvf_halves_load_##NAME,        \
                                                 kvf_halves_save_##NAME};

#define KVF_ONE_BY_ONE(from, to, i, n)
KVF_HALVES(plain, KVF_PLAIN, KVF_ONE_BY_ONE, KVF_ONE_BY_ONE)
#if defined(__x86_64__)
#define KVF_F16C __attribute__((target("avx2,f16c")))
#define KVF_LOAD8(from, to, i, n)  \
    for (; i + 8 <= n; i += 8)     \
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + 2 * i))))
#define KVF_SAVE8(from, to, i, n)  \
    for (; i + 8 <= n; i += 8)     \
    _mm_storeu_si128((void *)(to + 2 * i), \
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT))
KVF_HALVES(f16c, KVF_F16C, KVF_LOAD8, KVF_SAVE8)
#endif

#endif

/* quant.h: elements of KV cache as codes of one byte, with a scale for each channel.
 *
 *   raw      | element x elements |                 f16, bf16 or f32, of any alignment
 *   encoded  | scale f32 x channels | code x elements |                  little endian
 *
 *   int8     code = x / scale, rounded to the nearest of -127 ... 127      scale = amax / 127
 *   fp8      code = x / scale, rounded to the nearest E4M3                 scale = amax / 448
 *
 * amax is the greatest magnitude of the channel. A scale is never below the least normal f32, so
 * that a channel of zeros needs no care, and never so great that its greatest code overflows.
 *
 * E4M3: P. Micikevicius et al., FP8 Formats for Deep Learning (2022): no infinities, 448 at most.
 */
#ifndef KVF_QUANT_H
#define KVF_QUANT_H

#include <float.h>

#include "element.h"

typedef enum kvf_code { KVF_INT8, KVF_FP8, KVF_CODES } kvf_code;
typedef enum kvf_quantised { KVF_QUANTISED, KVF_NOT_FINITE, KVF_BAD_SCALE } kvf_quantised;

/* Axes of the raw elements, the outermost first: how many there are, and how many channels one step
 * leads on. The innermost leads on by one channel, or by none: then a row shares one. */
#define KVF_AXES 8
typedef struct kvf_axes {
    size_t count;
    uint64_t extent[KVF_AXES];
    uint64_t stride[KVF_AXES];
} kvf_axes;

typedef struct kvf_quant_row {
    uint64_t channel;
    uint64_t at[KVF_AXES];
} kvf_quant_row;

/* The axes turn like the wheels of a counter. */
static inline void kvf_next_row(const kvf_axes *a, kvf_quant_row *r) {
    for (size_t i = a->count - 1; i--;) {
        r->channel += a->stride[i];
        if (++r->at[i] < a->extent[i]) return;
        r->channel -= a->stride[i] * a->extent[i];
        r->at[i] = 0;
    }
}

static inline uint64_t kvf_axes_rows(const kvf_axes *a) {
    uint64_t rows = 1;
    for (size_t i = 0; i + 1 < a->count; i++) rows *= a->extent[i];
    return rows;
}

/* The greatest channel that the axes lead to. */
static inline uint64_t kvf_last_channel(const kvf_axes *a) {
    uint64_t last = 0;
    for (size_t i = 0; i < a->count; i++) last += (a->extent[i] - 1) * a->stride[i];
    return last;
}

/* ---- codes ---- */

#define KVF_TO_INTEGER 12582912.0f /* 1.5 * 2^23: the last bit of a sum with it is worth one */

KVF_INLINE float kvf_code_most(kvf_code c) { return c == KVF_INT8 ? 127.0f : 448.0f; }

KVF_INLINE uint8_t kvf_code_of(kvf_code c, float x) {
    uint32_t bits = kvf_float_bits(x), sum = kvf_float_bits(x + KVF_TO_INTEGER);
    if (c == KVF_INT8) return (uint8_t)(sum - kvf_float_bits(KVF_TO_INTEGER));
    return (uint8_t)(kvf_narrow(bits & 0x7fffffff, 3, 7) | (bits >> 24 & 0x80));
}

KVF_INLINE float kvf_code_value(kvf_code c, uint8_t code) {
    if (c == KVF_INT8) return (float)(int8_t)code;
    return kvf_float(kvf_widen(code & 0x7f, 3, 7) | (uint32_t)(code & 0x80) << 24);
}

KVF_INLINE float kvf_scale_of(kvf_code c, float amax) {
    float scale = amax / kvf_code_most(c);
    if (!(scale * kvf_code_most(c) <= FLT_MAX)) scale = kvf_float(kvf_float_bits(scale) - 1);
    return scale > FLT_MIN ? scale : FLT_MIN;
}

/* ---- rows: the scales are f32, as bits; the greatest magnitudes, as bits of the element ---- */

KVF_INLINE void kvf_row_amax(kvf_element e, bool shared, const char *restrict from,
                             uint32_t *restrict amax, size_t n) {
    uint32_t all = amax[0];
    for (size_t i = 0; i < n; i++) {
        uint32_t here = kvf_element_magnitude(e, from, i), most = shared ? all : amax[i];
        most = here > most ? here : most;
        if (shared) all = most;
        else amax[i] = most;
    }
    if (shared) amax[0] = all;
}

KVF_INLINE void kvf_row_encode(kvf_element e, kvf_code c, bool shared, const kvf_halves *halves,
                               const char *restrict from, const uint32_t *restrict scale,
                               char *restrict to, size_t n) {
    float all = kvf_float(scale[0]), tile[KVF_TILE];
    for (size_t m; n; n -= m, from += m * kvf_element_size(e), scale += shared ? 0 : m, to += m) {
        m = n < KVF_TILE ? n : KVF_TILE;
        if (e == KVF_F16) halves->load(from, tile, m);
        for (size_t i = 0; i < m; i++) {
            float x = e == KVF_F16 ? tile[i] : kvf_element_load(e, from, i);
            to[i] = (char)kvf_code_of(c, x / (shared ? all : kvf_float(scale[i])));
        }
    }
}

KVF_INLINE void kvf_row_decode(kvf_element e, kvf_code c, bool shared, const kvf_halves *halves,
                               const char *restrict from, const uint32_t *restrict scale,
                               char *restrict to, size_t n) {
    float all = kvf_float(scale[0]), tile[KVF_TILE];
    for (size_t m; n; n -= m, from += m, scale += shared ? 0 : m, to += m * kvf_element_size(e)) {
        m = n < KVF_TILE ? n : KVF_TILE;
        for (size_t i = 0; i < m; i++) {
            float x = kvf_code_value(c, (uint8_t)from[i]) * (shared ? all : kvf_float(scale[i]));
            if (e == KVF_F16) tile[i] = x;
            else kvf_element_save(e, to, i, x);
        }
        if (e == KVF_F16) halves->save(tile, to, m);
    }
}

/* ---- whole values; `scratch` has a word for each channel ---- */

typedef struct kvf_quant {
    kvf_axes axes;
    uint64_t channels;
    uint32_t *scratch;
} kvf_quant;

/* Scales in the place of greatest magnitudes. False: one is not finite. */
KVF_INLINE bool kvf_scales(kvf_element e, kvf_code c, uint32_t *words, uint64_t n) {
    bool finite = true;
    for (uint64_t i = 0; i < n; i++) {
        finite &= kvf_element_finite(e, words[i]);
        words[i] = kvf_float_bits(kvf_scale_of(c, kvf_element_number(e, words[i])));
    }
    return finite;
}

KVF_INLINE bool kvf_are_scales(const uint32_t *words, uint64_t n) {
    bool good = true;
    for (uint64_t i = 0; i < n; i++)
        good &= words[i] >= kvf_float_bits(FLT_MIN) && words[i] < 0x7f800000;
    return good;
}

#define KVF_EACH_ROW(Q, ROW, N)                                                    \
    kvf_quant_row ROW = {0};                                                             \
    uint64_t rows_ = kvf_axes_rows(&(Q)->axes), N = (Q)->axes.extent[(Q)->axes.count - 1]; \
    for (; rows_--; kvf_next_row(&(Q)->axes, &ROW))

KVF_INLINE kvf_quantised kvf_value_encode(kvf_element e, kvf_code c, bool shared,
                                          const kvf_halves *halves, const kvf_quant *q,
                                          const char *raw, char *encoded) {
    const char *from = raw;
    memset(q->scratch, 0, q->channels * sizeof *q->scratch);
    {
        KVF_EACH_ROW(q, row, n) {
            kvf_row_amax(e, shared, from, q->scratch + row.channel, n);
            from += n * kvf_element_size(e);
        }
    }
    if (!kvf_scales(e, c, q->scratch, q->channels)) return KVF_NOT_FINITE;
    memcpy(encoded, q->scratch, q->channels * sizeof *q->scratch);
    encoded += q->channels * sizeof *q->scratch;
    KVF_EACH_ROW(q, row, n) {
        kvf_row_encode(e, c, shared, halves, raw, q->scratch + row.channel, encoded, n);
        raw += n * kvf_element_size(e), encoded += n;
    }
    return KVF_QUANTISED;
}

KVF_INLINE kvf_quantised kvf_value_decode(kvf_element e, kvf_code c, bool shared,
                                          const kvf_halves *halves, const kvf_quant *q,
                                          const char *encoded, char *raw) {
    memcpy(q->scratch, encoded, q->channels * sizeof *q->scratch);
    encoded += q->channels * sizeof *q->scratch;
    if (!kvf_are_scales(q->scratch, q->channels)) return KVF_BAD_SCALE;
    KVF_EACH_ROW(q, row, n) {
        kvf_row_decode(e, c, shared, halves, encoded, q->scratch + row.channel, raw, n);
        raw += n * kvf_element_size(e), encoded += n;
    }
    return KVF_QUANTISED;
}

/* ---- variants: each for one instruction set, element and code ---- */

typedef kvf_quantised (*kvf_quant_move)(const kvf_quant *q, const char *from, char *to);

#define KVF_QUANT_MOVE(NAME, TARGET, WAY, E, C, HALVES)                                   \
    TARGET KVF_NOINLINE static kvf_quantised NAME(const kvf_quant *q, const char *from,   \
                                                  char *to) {                             \
        return q->axes.stride[q->axes.count - 1] ? WAY(E, C, false, &HALVES, q, from, to) \
                                                 : WAY(E, C, true, &HALVES, q, from, to); \
    }
#define KVF_QUANT_PAIR(NAME, TARGET, E, C, HALVES)                            \
    KVF_QUANT_MOVE(kvf_encode_##NAME, TARGET, kvf_value_encode, E, C, HALVES) \
    KVF_QUANT_MOVE(kvf_decode_##NAME, TARGET, kvf_value_decode, E, C, HALVES)
#define KVF_QUANT_VARIANT(NAME, TARGET, HALVES)                          \
    KVF_QUANT_PAIR(NAME##_f16_int8, TARGET, KVF_F16, KVF_INT8, HALVES)   \
    KVF_QUANT_PAIR(NAME##_f16_fp8, TARGET, KVF_F16, KVF_FP8, HALVES)     \
    KVF_QUANT_PAIR(NAME##_bf16_int8, TARGET, KVF_BF16, KVF_INT8, HALVES) \
    KVF_QUANT_PAIR(NAME##_bf16_fp8, TARGET, KVF_BF16, KVF_FP8, HALVES)   \
    KVF_QUANT_PAIR(NAME##_f32_int8, TARGET, KVF_F32, KVF_INT8, HALVES)   \
    KVF_QUANT_PAIR(NAME##_f32_fp8, TARGET, KVF_F32, KVF_FP8, HALVES)
#define KVF_QUANT_TABLE(WAY)                                                     \
    {                                                                            \
        {WAY##_f16_int8, WAY##_f16_fp8}, {WAY##_bf16_int8, WAY##_bf16_fp8},      \
        {WAY##_f32_int8, WAY##_f32_fp8},                                         \
    }

typedef struct kvf_quant_variant {
    const char *name;
    kvf_quant_move encode[KVF_ELEMENTS][KVF_CODES];
    kvf_quant_move decode[KVF_ELEMENTS][KVF_CODES];
} kvf_quant_variant;

KVF_QUANT_VARIANT(plain, KVF_PLAIN, kvf_halves_plain)
#if defined(__x86_64__)
KVF_QUANT_VARIANT(avx2, KVF_AVX2, kvf_halves_f16c)
#endif

/* The later ones are faster. */
static const kvf_quant_variant kvf_quant_variants[] = {
    {"plain", KVF_QUANT_TABLE(kvf_encode_plain), KVF_QUANT_TABLE(kvf_decode_plain)},
#if defined(__x86_64__)
    {"avx2", KVF_QUANT_TABLE(kvf_encode_avx2), KVF_QUANT_TABLE(kvf_decode_avx2)},
#endif
};

/* How many of them this processor runs. */
static inline size_t kvf_quant_runs(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? 2 : 1;
#else
    return 1;
#endif
}

#endif

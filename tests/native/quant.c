/* quant.h: every variant says what plain arithmetic says, and stays inside its buffers. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "quant.h"

enum { MOST = 2048 };

static uint32_t state = 1;
static uint32_t drawn(void) { return state = state * 1664525u + 1013904223u, state >> 8; }

static double magnitude(double x) { return x < 0 ? -x : x; }
static double greater(double a, double b) { return a > b ? a : b; }

/* Of all sizes that an f16 has, and many zeros. */
static float number(void) {
    float x = (float)drawn() / (1 << 23) - 1;
    for (uint32_t halves = drawn() % 24; halves--;) x /= 2;
    return drawn() % 8 ? x * 256 : 0.0f;
}

static const float half_unit[KVF_ELEMENTS] = {0x1p-11f, 0x1p-8f, 0x1p-24f};

/* All the numbers there are of 16 bits and of 8 turn into themselves. */
static void check_numbers(void) {
    for (uint32_t e = KVF_F16; e <= KVF_BF16; e++)
        for (uint32_t half = 0; half < 65536; half++) {
            char raw[2], back[2];
            memcpy(raw, &half, 2);
            if (!kvf_element_finite(e, kvf_element_magnitude(e, raw, 0))) continue;
            kvf_element_save(e, back, 0, kvf_element_load(e, raw, 0));
            CHECK(memcmp(raw, back, 2) == 0);
        }
    for (unsigned code = 0; code < 256; code++) {
        float fp8 = kvf_code_value(KVF_FP8, (uint8_t)code);
        float int8 = kvf_code_value(KVF_INT8, (uint8_t)code);
        CHECK((code & 0x7f) == 0x7f || kvf_code_of(KVF_FP8, fp8) == code);
        CHECK(code == 128 || kvf_code_of(KVF_INT8, int8) == code);
    }
    CHECK(kvf_code_value(KVF_FP8, 0x7e) == 448.0f && kvf_code_value(KVF_FP8, 1) == 0x1p-9f);
    CHECK(kvf_code_of(KVF_FP8, 463.0f) == 0x7e);
    CHECK(kvf_code_of(KVF_FP8, 17.0f) == kvf_code_of(KVF_FP8, 16.0f));
}

static double error_of(kvf_code c, double x, double amax) {
    if (c == KVF_INT8) return amax / 254;
    return greater(magnitude(x) / 16, amax / 448 * 0x1p-10);
}

static uint64_t channel_of(const kvf_axes *a, uint64_t at) {
    uint64_t channel = 0;
    for (size_t i = a->count; i--; at /= a->extent[i]) channel += at % a->extent[i] * a->stride[i];
    return channel;
}

static void check_value(const kvf_quant_variant *v, kvf_element e, kvf_code c, kvf_quant *q,
                        size_t skew) {
    uint64_t n = kvf_axes_rows(&q->axes) * q->axes.extent[q->axes.count - 1];
    size_t size = kvf_element_size(e), encoded = q->channels * 4 + n;
    char *raw = malloc(n * size + skew), *back = malloc(n * size + skew);
    char *codes = malloc(encoded + skew);
    double amax[MOST] = {0};
    CHECK(n <= MOST && raw && codes && back && (q->scratch = malloc(q->channels * 4)));
    for (uint64_t i = 0; i < n; i++) {
        kvf_element_save(e, raw + skew, i, number());
        uint64_t channel = channel_of(&q->axes, i);
        amax[channel] = greater(amax[channel], magnitude(kvf_element_load(e, raw + skew, i)));
    }
    CHECK(v->encode[e][c](q, raw + skew, codes + skew) == KVF_QUANTISED);
    CHECK(v->decode[e][c](q, codes + skew, back + skew) == KVF_QUANTISED);
    for (uint64_t i = 0; i < n; i++) {
        double x = kvf_element_load(e, raw + skew, i), y = kvf_element_load(e, back + skew, i);
        double bound = error_of(c, x, amax[channel_of(&q->axes, i)]) * (1 + 0x1p-15);
        CHECK(magnitude(x - y) <= bound + greater(magnitude(y) * half_unit[e], 0x1p-25));
    }
    static const uint32_t wrong[] = {0x7f800000, 0x7fc00000, 0x80000000, 0, 0xbf800000};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(codes + skew, &wrong[i], 4);
        CHECK(v->decode[e][c](q, codes + skew, back + skew) == KVF_BAD_SCALE);
    }
    for (float x = INFINITY;; x = NAN) {
        uint32_t bits = kvf_float_bits(x) >> (e == KVF_BF16 ? 16 : 0);
        if (e == KVF_F16) bits = x == INFINITY ? 0xfc00 : 0x7e00;
        memcpy(raw + skew + drawn() % n * size, &bits, size);
        CHECK(v->encode[e][c](q, raw + skew, codes + skew) == KVF_NOT_FINITE);
        if (x != INFINITY) break;
    }
    free(raw), free(codes), free(back), free(q->scratch);
}

int main(void) {
    static const kvf_quant shapes[] = {
        {.axes = {1, {1}, {0}}, .channels = 1},
        {.axes = {1, {300}, {0}}, .channels = 1},
        {.axes = {1, {300}, {1}}, .channels = 300},
        {.axes = {2, {3, 37}, {0, 1}}, .channels = 37},
        {.axes = {2, {37, 5}, {1, 0}}, .channels = 37},
        {.axes = {3, {3, 5, 9}, {9, 0, 1}}, .channels = 27},
        {.axes = {4, {2, 3, 4, 5}, {4, 0, 1, 0}}, .channels = 8},
        {.axes = {5, {2, 3, 4, 5, 6}, {0, 20, 0, 4, 0}}, .channels = 64},
    };
    check_numbers();
    for (size_t v = 0; v < kvf_quant_runs(); v++)
        for (int e = 0; e < KVF_ELEMENTS; e++)
            for (int c = 0; c < KVF_CODES; c++)
                for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                    kvf_quant q = shapes[s];
                    check_value(&kvf_quant_variants[v], e, c, &q, s & 3);
                }
    return 0;
}

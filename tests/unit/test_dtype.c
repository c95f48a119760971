/* test_dtype.c - the table of number formats, and every rounding against a reference that searches the
 * nearest code among exact values in double. */
#include "tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/dtype.h"

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* ---- the slow reference -----------------------------------------------------------------------------------
 */

/* The exact value of code `mag` (no sign) of a format with e_bits and m_bits; one step past the largest
 * finite number it goes on as if there were one more exponent, which is where rounding to infinity is
 * decided. */
static double code_value(uint32_t mag, int e_bits, int m_bits)
{
    int bias = (1 << (e_bits - 1)) - 1, e = (int)(mag >> m_bits);
    double m = mag & ((1u << m_bits) - 1);
    return e == 0 ? ldexp(m, 1 - bias - m_bits) : ldexp(m + (1u << m_bits), e - bias - m_bits);
}

static uint16_t nearest(float f, int e_bits, int m_bits)
{
    uint32_t sign = signbit(f) ? 0x8000 : 0, infinite = ((1u << e_bits) - 1) << m_bits, lo = 0, hi = infinite;
    double x = fabs((double)f);
    if (isinf(f) || x >= code_value(infinite, e_bits, m_bits)) return (uint16_t)(sign | infinite);
    while (hi - lo > 1) { /* value(lo) <= x < value(hi) */
        uint32_t mid = (lo + hi) / 2;
        if (code_value(mid, e_bits, m_bits) <= x)
            lo = mid;
        else
            hi = mid;
    }
    double down = x - code_value(lo, e_bits, m_bits), up = code_value(hi, e_bits, m_bits) - x;
    return (uint16_t)(sign | (down < up || (down == up && lo % 2 == 0) ? lo : hi));
}

static void check(float f)
{
    if (isnan(f)) {
        uint16_t h = qn_f32_to_f16(f), b = qn_f32_to_bf16(f);
        if ((h & 0x7e00) != 0x7e00 || h >> 15 != (bits_of(f) >> 31))
            fail_msg("f16 of NaN %08x is %04x", bits_of(f), h);
        if ((b & 0x7fc0) != 0x7fc0 || b >> 15 != (bits_of(f) >> 31))
            fail_msg("bf16 of NaN %08x is %04x", bits_of(f), b);
        return;
    }
    if (qn_f32_to_f16(f) != nearest(f, 5, 10))
        fail_msg("f16 of %a is %04x, want %04x", f, qn_f32_to_f16(f), nearest(f, 5, 10));
    if (qn_f32_to_bf16(f) != nearest(f, 8, 7))
        fail_msg("bf16 of %a is %04x, want %04x", f, qn_f32_to_bf16(f), nearest(f, 8, 7));
}

/* ---- tests ------------------------------------------------------------------------------------------------
 */

static void every_f16_and_bf16_goes_there_and_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x10000; c++) {
        uint16_t h = (uint16_t)c;
        float f = qn_f16_to_f32(h), b = qn_bf16_to_f32(h);
        bool f16_nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff), bf16_nan = (h & 0x7f80) == 0x7f80 && (h & 0x7f);
        assert_int_equal(isnan(f) != 0, f16_nan);
        assert_int_equal(isnan(b) != 0, bf16_nan);
        assert_int_equal(qn_f32_to_f16(f), f16_nan ? h | 0x200 : h);
        assert_int_equal(qn_f32_to_bf16(b), bf16_nan ? h | 0x40 : h);
        if (f16_nan)
            assert_true(bits_of(f) & 0x00400000); /* quiet */
        else if ((h & 0x7fff) != 0x7c00)
            assert_true(fabs((double)f) == code_value(h & 0x7fff, 5, 10));
        else
            assert_true(isinf(f));
        assert_int_equal(signbit(f) != 0, h >> 15);
        if (!bf16_nan && (h & 0x7fff) != 0x7f80) assert_true(fabs((double)b) == code_value(h & 0x7fff, 8, 7));
    }
}

static void rounding_at_every_boundary(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x7c00;
         c++) { /* each code, the middle to the next, and the neighbours of both */
        float at = (float)code_value(c, 5, 10),
              mid = (float)((code_value(c, 5, 10) + code_value(c + 1, 5, 10)) / 2);
        for (int d = -1; d <= 1; d++) {
            check(float_of(bits_of(at) + (uint32_t)d));
            check(float_of(bits_of(mid) + (uint32_t)d));
            check(-float_of(bits_of(mid) + (uint32_t)d));
        }
    }
    for (uint32_t c = 0; c <= 0x7f80; c++)
        for (int d = -1; d <= 1; d++) {
            check(float_of((c << 16) + (uint32_t)d));
            check(float_of((c << 16 | 0x8000) + (uint32_t)d));
            check(-float_of((c << 16 | 0x8000) + (uint32_t)d));
        }
}

static void rounding_of_chosen_values(void **state)
{
    (void)state;
    static const struct {
        float f;
        uint16_t f16, bf16;
    } t[] = {
        {0.0f, 0x0000, 0x0000},
        {-0.0f, 0x8000, 0x8000},
        {1.0f, 0x3c00, 0x3f80},
        {-2.0f, 0xc000, 0xc000},
        {65504.0f, 0x7bff, 0x4780},
        {65519.996f, 0x7bff, 0x4780},
        {65520.0f, 0x7c00, 0x4780},
        {-65520.0f, 0xfc00, 0xc780},
        {0x1p-24f, 0x0001, 0x3380},
        {0x1p-25f, 0x0000, 0x3300},
        {0x1.8p-24f, 0x0002, 0x33c0},
        {0x1.000002p-25f, 0x0001, 0x3300},
        {0x1.ff8p-15f, 0x03ff, 0x3880},
        {0x1p-14f, 0x0400, 0x3880},
        {1.0f + 0x1p-11f, 0x3c00, 0x3f80},
        {1.0f + 0x3p-11f, 0x3c02, 0x3f80},
        {1.0f + 0x1p-8f, 0x3c04, 0x3f80},
        {1.0f + 0x3p-8f, 0x3c0c, 0x3f82},
        {3.4028235e38f, 0x7c00, 0x7f80},
        {0x1.fep127f, 0x7c00, 0x7f7f},
        {INFINITY, 0x7c00, 0x7f80},
        {-INFINITY, 0xfc00, 0xff80},
        {0x1p-149f, 0x0000, 0x0000},
        {0x1p-133f, 0x0000, 0x0001},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        assert_int_equal(qn_f32_to_f16(t[i].f), t[i].f16);
        assert_int_equal(qn_f32_to_bf16(t[i].f), t[i].bf16);
        check(t[i].f);
    }
}

static void rounding_of_random_bits(void **state)
{
    (void)state;
    uint64_t x = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 300000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint32_t u = (uint32_t)(x >> 32);
        check(float_of(u));
        check(float_of((u & 0x807fffff) | (100 + (uint32_t)(x & 63)) << 23)); /* where f16 has its range */
    }
}

static void names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t lanes, bytes;
        bool supported;
    } t[] = {{"F64", 1, 8, false},     {"F32", 1, 4, true},      {"F16", 1, 2, true},
             {"BF16", 1, 2, true},     {"F8_E4M3", 1, 1, false}, {"F8_E5M2", 1, 1, false},
             {"F8_E8M0", 1, 1, false}, {"F4", 2, 1, false},      {"I64", 1, 8, false},
             {"I32", 1, 4, false},     {"I16", 1, 2, false},     {"I8", 1, 1, false},
             {"U64", 1, 8, false},     {"U32", 1, 4, false},     {"U16", 1, 2, false},
             {"U8", 1, 1, false},      {"BOOL", 1, 1, false}};
    assert_int_equal(sizeof t / sizeof t[0], QN_DTYPE_COUNT);
    for (size_t i = 0; i < QN_DTYPE_COUNT; i++) {
        qn_dtype d;
        assert_true(qn_dtype_by_name(t[i].name, strlen(t[i].name), &d));
        const qn_dtype_info *f = qn_dtype_get(d);
        assert_string_equal(f->name, t[i].name);
        assert_int_equal(f->lanes, t[i].lanes);
        assert_int_equal(f->bytes, t[i].bytes);
        assert_int_equal(f->supported, t[i].supported);
    }
    qn_dtype d;
    static const char *const unknown[] = {"", "bf16", "BF1", "BF166", "F8", "F8_E4M3FN", "BF16 "};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_false(qn_dtype_by_name(unknown[i], strlen(unknown[i]), &d));
    assert_false(qn_dtype_by_name("F16\0", 4, &d));
}

static void rows_to_f32(void **state)
{
    (void)state;
    enum { N = 37 };
    for (size_t n = 0; n <= N; n++) { /* at an odd address, and nothing written behind the end */
        uint8_t src[1 + 4 * N];
        float dst[N + 1];
        for (size_t i = 0; i < sizeof src; i++) src[i] = (uint8_t)(i * 37 + 11);
        for (int t = 0; t < QN_DTYPE_COUNT; t++) {
            const qn_dtype_info *f = qn_dtype_get((qn_dtype)t);
            if (!f->supported) continue;
            for (size_t i = 0; i <= N; i++) dst[i] = float_of(0xdeadbeef);
            qn_dtype_to_f32((qn_dtype)t, dst, src + 1, n);
            for (size_t i = 0; i < n; i++) {
                uint32_t u = 0;
                memcpy(&u, src + 1 + i * f->bytes, f->bytes);
                float want = t == QN_DTYPE_F32
                                 ? float_of(u)
                                 : (t == QN_DTYPE_F16 ? qn_f16_to_f32((uint16_t)u) : float_of(u << 16));
                assert_int_equal(bits_of(dst[i]), bits_of(want));
            }
            assert_int_equal(bits_of(dst[n]), 0xdeadbeef);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16_and_bf16_goes_there_and_back),
        cmocka_unit_test(rounding_at_every_boundary),
        cmocka_unit_test(rounding_of_chosen_values),
        cmocka_unit_test(rounding_of_random_bits),
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(rows_to_f32),
    };
    return TEST_MAIN(tests);
}

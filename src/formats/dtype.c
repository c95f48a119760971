/* dtype.c - the table of number formats and the scalar conversions. These are the definition; kernels that
 * convert many at a time are compared with them bit for bit. */
#include "formats/dtype.h"

#include <assert.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "checkpoint files are little-endian and read as they are");

static const qn_dtype_info table[QN_DTYPE_COUNT] = {
    [QN_DTYPE_F32] = {"F32", 1, 4, true},          [QN_DTYPE_F16] = {"F16", 1, 2, true},
    [QN_DTYPE_BF16] = {"BF16", 1, 2, true},        [QN_DTYPE_F64] = {"F64", 1, 8, false},
    [QN_DTYPE_F8_E4M3] = {"F8_E4M3", 1, 1, false}, [QN_DTYPE_F8_E5M2] = {"F8_E5M2", 1, 1, false},
    [QN_DTYPE_F8_E8M0] = {"F8_E8M0", 1, 1, false}, [QN_DTYPE_F4] = {"F4", 2, 1, false},
    [QN_DTYPE_I64] = {"I64", 1, 8, false},         [QN_DTYPE_I32] = {"I32", 1, 4, false},
    [QN_DTYPE_I16] = {"I16", 1, 2, false},         [QN_DTYPE_I8] = {"I8", 1, 1, false},
    [QN_DTYPE_U64] = {"U64", 1, 8, false},         [QN_DTYPE_U32] = {"U32", 1, 4, false},
    [QN_DTYPE_U16] = {"U16", 1, 2, false},         [QN_DTYPE_U8] = {"U8", 1, 1, false},
    [QN_DTYPE_BOOL] = {"BOOL", 1, 1, false},
};

const qn_dtype_info *qn_dtype_get(qn_dtype t)
{
    assert((unsigned)t < QN_DTYPE_COUNT);
    return &table[t];
}

bool qn_dtype_by_name(const char *name, size_t n, qn_dtype *out)
{
    for (int i = 0; i < QN_DTYPE_COUNT; i++) {
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return *out = (qn_dtype)i, true;
    }
    return false;
}

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

/* Without branches, so that the loop over many vectorises. Exponent and mantissa moved into place are the
 * number times 2^-112, subnormal ones included; the multiplication is exact. Infinity and NaN are put
 * together by hand, NaN quiet, as F16C does. */
static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, u = (uint32_t)(h & 0x7fff) << 13;
    uint32_t finite = bits_of(float_of(u) * 0x1p112f);
    uint32_t is_special = 0u - (uint32_t)((int32_t)u >= 0x0f800000),
             is_nan = 0u - (uint32_t)((int32_t)u > 0x0f800000);
    uint32_t special = u | 0x7f800000u | (is_nan & 0x00400000u);
    return float_of(sign | (is_special & special) | (~is_special & finite));
}

float qn_f16_to_f32(uint16_t h)
{
    return f16_to_f32(h);
}

uint16_t qn_f32_to_f16(float f)
{
    uint32_t x = bits_of(f), sign = x >> 16 & 0x8000;
    x &= 0x7fffffff;
    if (x > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (x >> 13 & 0x3ff));
    if (x >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 65536 and more; 65520 gets there by its carry */
    if (x >=
        0x38800000) { /* 2^-14 and more: normal; a carry out of the mantissa raises the exponent, rightly */
        x += 0xfff + (x >> 13 & 1);
        return (uint16_t)(sign | (x - 0x38000000) >> 13);
    }
    uint32_t e = x >> 23;
    if (e < 102) return (uint16_t)sign; /* below half of the smallest, 2^-25 */
    uint32_t m = (x & 0x7fffff) | 0x800000, shift = 126 - e, half = 1u << (shift - 1);
    uint32_t r = m >> shift, rest = m & ((1u << shift) - 1);
    r += rest > half || (rest == half && (r & 1));
    return (uint16_t)(sign | r); /* r = 0x400 is the smallest normal number */
}

uint16_t qn_f32_to_bf16(float f)
{
    uint32_t x = bits_of(f);
    if ((x & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(x >> 16 | 0x40); /* rounding could turn it into infinity */
    return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

void qn_dtype_to_f32(qn_dtype t, float *dst, const void *src, size_t n)
{
    const uint8_t *s = src;
    assert(qn_dtype_get(t)->supported);
    switch (t) {
    case QN_DTYPE_F32:
        if (n) memcpy(dst, s, n * sizeof *dst);
        break;
    case QN_DTYPE_F16:
        for (size_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, s + 2 * i, sizeof h);
            dst[i] = f16_to_f32(h);
        }
        break;
    case QN_DTYPE_BF16:
        for (size_t i = 0; i < n; i++) {
            uint16_t b;
            memcpy(&b, s + 2 * i, sizeof b);
            dst[i] = qn_bf16_to_f32(b);
        }
        break;
    default: assert(!"a supported dtype without a conversion");
    }
}

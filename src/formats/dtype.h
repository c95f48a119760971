/* dtype.h - number formats of tensors: one table row per format, and conversion to f32.
 *
 * A format stores `lanes` consecutive elements of a row in `bytes` bytes; rows are encoded one by one, so a
 * row length must be a multiple of `lanes`. Formats that quern knows by name but does not compute with (yet)
 * have supported == false and are refused by name before anything is loaded. Any thread, no allocation. */
#ifndef QN_FORMATS_DTYPE_H
#define QN_FORMATS_DTYPE_H

#include "base/status.h"

typedef enum qn_dtype {
    QN_DTYPE_F32,
    QN_DTYPE_F16,
    QN_DTYPE_BF16,
    QN_DTYPE_F64,
    QN_DTYPE_F8_E4M3,
    QN_DTYPE_F8_E5M2,
    QN_DTYPE_F8_E8M0,
    QN_DTYPE_F4,
    QN_DTYPE_I64,
    QN_DTYPE_I32,
    QN_DTYPE_I16,
    QN_DTYPE_I8,
    QN_DTYPE_U64,
    QN_DTYPE_U32,
    QN_DTYPE_U16,
    QN_DTYPE_U8,
    QN_DTYPE_BOOL,
    QN_DTYPE_COUNT
} qn_dtype;

typedef struct qn_dtype_info {
    const char *name; /* safetensors' spelling: "BF16" */
    uint32_t lanes;   /* elements per block */
    uint32_t bytes;   /* bytes per block */
    bool supported;   /* weights may have it */
} qn_dtype_info;

const qn_dtype_info *qn_dtype_get(qn_dtype t);                    /* never NULL for a valid enum value */
bool qn_dtype_by_name(const char *name, size_t n, qn_dtype *out); /* exact spelling */

/* n elements of type t at src (any alignment; n a multiple of the block's lanes) to f32. Only supported
 * types. */
void qn_dtype_to_f32(qn_dtype t, float *dst, const void *src, size_t n);

float qn_f16_to_f32(uint16_t h);
uint16_t qn_f32_to_f16(float f); /* nearest even; overflow gives infinity, NaN stays a quiet NaN */
static inline float qn_bf16_to_f32(uint16_t b)
{
    union {
        uint32_t u;
        float f;
    } v = {.u = (uint32_t)b << 16};
    return v.f;
}
uint16_t qn_f32_to_bf16(float f); /* nearest even, NaN stays a quiet NaN */

#endif

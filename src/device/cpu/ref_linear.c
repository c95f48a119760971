/* ref_linear.c - the reference of linear and logits: weights stay in their own format and are decoded, a
 * block of one panel at a time, into f64 that stays in the first-level cache while up to QN_LINEAR_ROWS rows
 * use it.
 *
 * Every output is one sum over k in order whatever the number of rows: blocks of k continue the same sum. */
#include "device/cpu/ref.h"

#define K_BLOCK 128 /* 128 x 16 f64 = 16 KiB */

/* Elements k0 .. k0+n-1 of a panel, 16 lanes each, to f64. */
static void decode(double *dst, float *tmp, const qn_panels *w, size_t panel, size_t k0, size_t n)
{
    size_t size = qn_dtype_get(w->format)->bytes;
    const char *src = (const char *)w->data + (panel * w->cols + k0) * QN_LANES * size;
    qn_dtype_to_f32(w->format, tmp, src, n * QN_LANES);
    for (size_t i = 0; i < n * QN_LANES; i++) dst[i] = (double)tmp[i];
}

void qn_ref_linear(float *y, const float *x, const qn_panels *w, size_t n_rows, size_t panel, size_t n_panels)
{
    double block[K_BLOCK * QN_LANES], xs[K_BLOCK], acc[QN_LINEAR_ROWS][QN_LANES];
    float tmp[K_BLOCK * QN_LANES];
    size_t dim = w->cols;

    for (size_t p = panel; p < panel + n_panels; p++) {
        size_t live = w->rows - p * QN_LANES < QN_LANES ? w->rows - p * QN_LANES : QN_LANES;
        for (size_t r0 = 0; r0 < n_rows; r0 += QN_LINEAR_ROWS) {
            size_t rows = n_rows - r0 < QN_LINEAR_ROWS ? n_rows - r0 : QN_LINEAR_ROWS;
            memset(acc, 0, rows * sizeof acc[0]);
            for (size_t k0 = 0; k0 < dim; k0 += K_BLOCK) {
                size_t n = dim - k0 < K_BLOCK ? dim - k0 : K_BLOCK;
                decode(block, tmp, w, p, k0, n);
                for (size_t r = 0; r < rows; r++) {
                    const float *xr = x + (r0 + r) * dim + k0;
                    for (size_t k = 0; k < n; k++) xs[k] = (double)xr[k];
                    qn_ref_sum16(acc[r], xs, block, QN_LANES, n);
                }
            }
            for (size_t r = 0; r < rows; r++)
                for (size_t l = 0; l < live; l++) y[(r0 + r) * w->rows + p * QN_LANES + l] = (float)acc[r][l];
        }
    }
}

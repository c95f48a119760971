/* ref_rope.c - the reference of qk_rope_append: norm and rotation of queries and keys, and the way into the
 * cache. */
#include "device/cpu/ref.h"

/* One head: y = rotate(norm(x)). cos_sin: [rotary_dim/2][2] of the row's position. y and x may not overlap.
 */
static void norm_rotate(float *y, const float *x, const float *w, const double *cos_sin, size_t dim,
                        size_t rotary_dim, double eps, double offset)
{
    double scale = 1 / sqrt(qn_ref_sum_squares(x, dim) / (double)dim + eps);
    size_t half = rotary_dim / 2;
    for (size_t i = 0; i < half; i++) { /* half-split pairs inside the first rotary_dim values */
        double a = (double)x[i] * scale * (offset + (double)w[i]);
        double b = (double)x[i + half] * scale * (offset + (double)w[i + half]);
        double c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        y[i] = (float)(a * c - b * s);
        y[i + half] = (float)(b * c + a * s);
    }
    for (size_t i = rotary_dim; i < dim; i++) y[i] = (float)((double)x[i] * scale * (offset + (double)w[i]));
}

/* Write n values at element `at` of a cache array, rounded to its format. */
static void store(void *dst, qn_dtype format, size_t at, const float *src, size_t n)
{
    if (format == QN_DTYPE_F32) {
        memcpy((float *)dst + at, src, n * sizeof *src);
        return;
    }
    uint16_t *h = (uint16_t *)dst + at;
    for (size_t i = 0; i < n; i++) h[i] = qn_f32_to_f16(src[i]);
}

void qn_ref_qk_rope_append(const qn_rope_args *a, const qn_kv_layer *kv, size_t n_rows)
{
    size_t dim = kv->head_dim, n_kv = kv->n_kv, n_q = a->n_q;
    double cos_sin[QN_MAX_HEAD_DIM];
    float key[QN_MAX_HEAD_DIM];

    for (size_t r = 0; r < n_rows; r++) {
        size_t position = a->position + r;
        /* The angle in f64: at position 262143 an f32 product would be off by a hundredth of a radian. */
        for (size_t i = 0; i < a->rotary_dim / 2; i++) {
            double angle = (double)position * a->inv_freq[i];
            cos_sin[2 * i] = cos(angle);
            cos_sin[2 * i + 1] = sin(angle);
        }
        for (size_t h = 0; h < n_q; h++)
            norm_rotate(a->q_out + (r * n_q + h) * dim, a->q_gate + (r * n_q + h) * 2 * dim, a->q_norm,
                        cos_sin, dim, a->rotary_dim, (double)a->eps, (double)a->offset);
        size_t slot =
            (size_t)a->pages[position / QN_PAGE_TOKENS] * QN_PAGE_TOKENS + position % QN_PAGE_TOKENS;
        for (size_t h = 0; h < n_kv; h++) {
            size_t at = (slot * n_kv + h) * dim;
            norm_rotate(key, a->k + (r * n_kv + h) * dim, a->k_norm, cos_sin, dim, a->rotary_dim,
                        (double)a->eps, (double)a->offset);
            store(kv->k, kv->format, at, key, dim);
            store(kv->v, kv->format, at, a->v + (r * n_kv + h) * dim, dim);
        }
    }
}
